"""``pylb lab``: a command whose ranks are held to shares of a core, to memory, to a network."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pylb import console
from pylb.comm.mpiexec import is_mpiexec, n_ranks
from pylb.errors import DomainError
from pylb.lab import Lab, Plan, Profile, Usage, units
from pylb.lab.plan import shown
from pylb.lab.shares import parse_period, parse_shares

HELP = "run a command with each MPI rank held to a share of a core, to a memory, on a host"
EXAMPLES = """\
  pylb lab --share 0.25 -- mpiexec -n 8 python prog.py
  pylb lab --share 0.5,0.25 -- mpiexec -n 4 python prog.py    (ranks 0, 2: half a core)
  pylb lab --cap 23W -- mpiexec -n 4 python prog.py           (nodes under a power cap)
  pylb lab --memory 64MiB,256MiB -- mpiexec -n 2 python prog.py    (more than that pages)
  pylb lab --lab caps.yaml -- mpiexec -n 4 python prog.py     (hosts, network, changes)
  pylb lab --lab caps.yaml --check                            (measure what it enforces)
  pylb lab --share 0.1 --json used.json -- python serial.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb lab``."""
    parser.add_argument(
        "--share",
        metavar="CORES,...",
        help="cores for each rank, cyclic by rank, as the following; default: an equal part",
    )
    parser.add_argument(
        "--cap",
        metavar="WATTS,...",
        help="power caps, 23W ... 95W: shares as the speeds of Dasgupta's nodes",
    )
    parser.add_argument(
        "--memory", metavar="SIZE,...", help="bytes of each rank; what is above them goes to swap"
    )
    parser.add_argument("--lab", metavar="FILE", help="all this and more from a YAML file")
    parser.add_argument(
        "--period",
        metavar="TIME",
        help="in which a share is given out; default: 5ms, more for shares below 0.2",
    )
    parser.add_argument("--check", action="store_true", help="first measure what the lab enforces")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write what each rank was held to and used as JSON (standard output is the command's)",
    )
    parser.add_argument("--quiet", action="store_true", help="do not show what each rank used")
    parser.add_argument("command", nargs="*", help="after --: mpiexec ..., or any program")


def run(args: argparse.Namespace) -> int:
    """Run the command and show on standard error what its ranks were held to and what they used."""
    if not (args.command or args.check):
        raise DomainError("command is empty: expected a program after --, or --check")
    plan, code = _plan(args), 0
    with Lab(plan) as lab:
        _say(lab.notes)
        if args.check or (args.lab and not args.quiet):
            mpi = args.command and is_mpiexec(args.command[0])
            _measure(lab, n_ranks(args.command) if mpi else None)
        if args.command:
            code = lab.run(args.command)
            usage = lab.usage()
            if usage and not args.quiet:
                _show(usage, lab)
            if args.json is not None:
                Path(args.json).write_text(json.dumps(_as_json(usage, lab, code), indent=2) + "\n")
        told = len(lab.notes)
    _say(lab.notes[told:])
    return code


def _plan(args: argparse.Namespace) -> Plan:
    given = {name: getattr(args, name) for name in ("share", "cap", "memory")}
    if args.lab is not None:
        doubled = [f"--{name}" for name, value in given.items() if value is not None]
        if doubled:
            raise DomainError(f"--lab and {', '.join(doubled)}: expected it in the file {args.lab}")
        plan = Plan.load(args.lab)
    else:
        if not any(given.values()):
            raise DomainError("expected --share, --cap, --memory or --lab")
        shares = parse_shares(args.share) if args.share is not None else [None]
        caps = _list("cap", args.cap, lambda text: units.quantity(units.POWER, "cap", text))
        memory = _list(
            "memory", args.memory, lambda text: round(units.quantity(units.BYTES, "memory", text))
        )
        n = math.lcm(len(shares), len(caps), len(memory))
        columns = [itertools.islice(itertools.cycle(some), n) for some in (shares, caps, memory)]
        plan = Plan(tuple(Profile(*values) for values in zip(*columns, strict=True)))
    if args.period is not None:
        plan = plan._replace(period_us=parse_period(args.period))
    return plan


def _list(name: str, text: str | None, read: Callable[[str], Any]) -> list[Any]:
    return [None] if text is None else [read(word) for word in text.split(",")]


def _say(notes: list[str]) -> None:
    for note in notes:
        print(f"pylb lab: {note}", file=sys.stderr)


def _measure(lab: Lab, n_ranks: int | None) -> None:
    held, joined = lab.measure(n_ranks)
    plan = lab.plan
    names = [host.name for host in plan.hosts] or list(map(str, range(len(held))))
    columns = ["host" if plan.hosts else "rank", "share", "measured"]
    rows: list[list[Any]] = [
        [name, f"{limit.share:.3f}", f"{one.share:.3f}"]
        for name, limit, one in zip(names, lab.limits, held, strict=True)
    ]
    nodes = [plan.nodes[i % len(plan.nodes)] for i in range(len(held))]
    if any(node.cap for node in nodes):
        columns.insert(1, "cap")
        for row, node in zip(rows, nodes, strict=True):
            row.insert(1, f"{node.cap:g} W" if node.cap else "")
    if any(limit.memory for limit in lab.limits):
        columns += ["memory", "measured"]
        for row, limit, one in zip(rows, lab.limits, held, strict=True):
            row += [_bytes(limit.memory), _bytes(one.memory)]
    console.show(
        columns, rows, title="pylb lab: what a program that wants more gets", file=sys.stderr
    )
    if joined:
        links = {host.name: host.link for host in plan.hosts}
        rows = []
        for pair in joined:
            way = links[pair.source].to(links[pair.target])
            row = [pair.source, pair.target]
            for name in ("bandwidth", "latency"):
                row += [shown(name, getattr(way, name)), shown(name, getattr(pair, name))]
            rows.append(row)
        columns = ["from", "to", "bandwidth", "measured", "latency", "measured"]
        console.show(columns, rows, file=sys.stderr)


def _bytes(value: int | None) -> str:
    return "" if value is None else units.shown_bytes(value)


def _as_json(usage: list[Usage], lab: Lab, code: int) -> dict[str, Any]:
    ranks = []
    for use in usage:
        row = use._asdict()
        limit = row.pop("limit")
        held = {"share": limit.share, "period_us": limit.period_us, "memory_limit": limit.memory}
        ranks.append({**row, **held})
    return {"seconds": lab.seconds, "exit_code": code, "ranks": ranks}


def _show(usage: list[Usage], lab: Lab) -> None:
    columns = ["rank", "share", "used", "CPU s", "throttled s", "throttled periods", "period ms"]
    rows: list[list[Any]] = [
        [
            use.rank,
            f"{use.limit.share:.3f}",
            f"{use.cpu_seconds / lab.seconds:.3f}",
            f"{use.cpu_seconds:.3f}",
            f"{use.throttled_seconds:.3f}",
            f"{100 * use.throttled / max(use.periods, 1):.0f}%",
            f"{use.limit.period_us / 1e3:g}",
        ]
        for use in usage
    ]
    if lab.plan.hosts:
        columns.insert(1, "host")
        for row, use in zip(rows, usage, strict=True):
            row.insert(1, use.host)
    if any(use.limit.memory for use in usage):
        columns += ["memory", "most", "pages read", "killed"]
        for row, use in zip(rows, usage, strict=True):
            row += [_bytes(use.limit.memory), _bytes(use.memory), use.paged, use.killed]
    console.show(columns, rows, title=f"pylb lab: {lab.seconds:.3f} s", file=sys.stderr)
    for done in lab.done:
        failed = f" failed: {done.failed}" if done.failed else ""
        _say([f"at {done.seconds:.3f} s, {done.change}{failed}"])
    killed = sum(use.killed for use in usage)
    if killed:
        _say([f"the kernel killed {killed} processes: memory and swap were full"])
    total, cores = sum(use.limit.share for use in usage), len(os.sched_getaffinity(0))
    if total > cores * (1 + 1e-9):
        _say(
            [
                f"the shares add up to {total:g} cores, but there are {cores}: "
                "ranks also waited for each other's cores"
            ]
        )

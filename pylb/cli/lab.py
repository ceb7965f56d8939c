"""``pylb lab``: run a command whose ranks have limited shares of cores, memory and network."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.comm.mpiexec import is_mpiexec, n_ranks
from pylb.errors import DomainError
from pylb.lab import Lab, LabPlan, Profile, Usage, units
from pylb.lab.plan import shown, values_of

HELP = "run a command with limits for each MPI rank: share of a core, memory, network"
EXAMPLES = """\
  pylb lab --share 0.25 -- mpiexec -n 8 python prog.py
  pylb lab --share 0.5,0.25 -- mpiexec -n 4 python prog.py    (ranks 0, 2: half a core)
  pylb lab --cap 23W -- mpiexec -n 4 python prog.py           (nodes under a power cap)
  pylb lab --memory 64MiB,256MiB -- mpiexec -n 2 python prog.py    (more memory is swapped out)
  pylb lab --lab caps.yaml -- mpiexec -n 4 python prog.py     (hosts, network, changes)
  pylb lab --lab caps.yaml --check                            (measure what the lab enforces)
  pylb lab --share 0.1 --json used.json -- python serial.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    share = "cores for each rank; a short list is repeated (default: equal parts of the machine)"
    add("--share", metavar="CORES,...", help=share)
    cap = "power caps, 23W ... 95W: shares that imitate the nodes of Dasgupta 2013"
    add("--cap", metavar="WATTS,...", help=cap)
    add("--memory", metavar="SIZE,...", help="memory of each rank; what is above it is swapped out")
    add("--lab", metavar="FILE", help="read the description of the lab from a YAML file")
    period = "period in which each rank gets its share (default: 5ms; longer for shares below 0.2)"
    add("--period", metavar="TIME", help=period)
    add("--check", action="store_true", help="first measure what the lab enforces")
    common.add_json_file(parser, "the limits and the usage of each rank")
    quiet = "print no table of usage; with --lab, skip the measurement"
    add("--quiet", action="store_true", help=quiet)
    add("command", nargs="*", help="after --: mpiexec ..., or any program")


def run(args: argparse.Namespace) -> int:
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
            common.write_json(args, _as_json(usage, lab, code))
        told = len(lab.notes)
    _say(lab.notes[told:])
    return code


def _plan(args: argparse.Namespace) -> LabPlan:
    given = {name: getattr(args, name) for name in ("share", "cap", "memory")}
    if args.lab is not None:
        doubled = [f"--{name}" for name, value in given.items() if value is not None]
        if doubled:
            raise DomainError(
                f"--lab with {', '.join(doubled)}: expected these limits only in {args.lab}"
            )
        plan = LabPlan.load(args.lab)
    else:
        if not any(given.values()):
            raise DomainError("no limit is given: expected --share, --cap, --memory or --lab")
        lists = [[None] if text is None else values_of(name, text) for name, text in given.items()]
        n = math.lcm(*map(len, lists))
        columns = [itertools.islice(itertools.cycle(some), n) for some in lists]
        plan = LabPlan(tuple(Profile(*values) for values in zip(*columns, strict=True)))
    if args.period is not None:
        plan = plan._replace(period_us=units.microseconds("period", args.period))
    return plan


def _say(notes: list[str]) -> None:
    for text in notes:
        console.note(text, by="pylb lab")


def _measure(lab: Lab, n_ranks: int | None) -> None:
    held, joined = lab.measure(n_ranks)
    plan = lab.plan
    names = [host.name for host in plan.hosts] or list(map(str, range(len(held))))
    capped = itertools.cycle([profile.cap for profile in plan.nodes])
    rows: list[list[Any]] = [
        [
            name,
            cap and f"{cap:g} W",
            f"{limit.share:.3f}",
            f"{one.share:.3f}",
            _bytes(limit.memory),
            _bytes(one.memory),
        ]
        for name, cap, limit, one in zip(names, capped, lab.limits, held, strict=False)
    ]
    columns = ["host" if plan.hosts else "rank", "cap", "share", "measured", "memory", "measured"]
    _show_table(columns, rows, "pylb lab: limits, measured with programs that try to use more")
    links = {host.name: host.link for host in plan.hosts}
    rows = []
    for pair in joined:
        way, row = links[pair.source].to(links[pair.target]), [pair.source, pair.target]
        for name in ("bandwidth", "latency"):
            row += [shown(name, getattr(way, name)), shown(name, getattr(pair, name))]
        rows.append(row)
    if rows:
        columns = ["from", "to", "bandwidth", "measured", "latency", "measured"]
        _show_table(columns, rows)


def _show_table(columns: list[str], rows: list[list[Any]], title: str | None = None) -> None:
    console.show(columns, rows, title=title, file=sys.stderr, drop_empty=True)


def _bytes(value: int | None) -> str | None:
    return None if value is None else units.shown_bytes(value)


def _as_json(usage: list[Usage], lab: Lab, code: int) -> dict[str, Any]:
    ranks = []
    for use in usage:
        row = use._asdict()
        limit = row.pop("limit")
        held = {"share": limit.share, "period_us": limit.period_us, "memory_limit": limit.memory}
        ranks.append({**row, **held})
    return {"seconds": lab.seconds, "exit_code": code, "ranks": ranks}


def _show(usage: list[Usage], lab: Lab) -> None:
    columns = ["rank", "host", "share", "used", "CPU s", "throttled s", "throttled periods"]
    limited = any(use.limit.memory for use in usage)
    columns += ["period ms", *(["memory", "peak", "pages read", "killed"] * limited)]
    rows: list[list[Any]] = [
        [
            use.rank,
            use.host or None,
            f"{use.limit.share:.3f}",
            f"{use.cpu_seconds / lab.seconds:.3f}",
            f"{use.cpu_seconds:.3f}",
            f"{use.throttled_seconds:.3f}",
            f"{100 * use.throttled / max(use.periods, 1):.0f} %",
            f"{use.limit.period_us / 1e3:g}",
            *([_bytes(use.limit.memory), _bytes(use.memory), use.paged, use.killed] * limited),
        ]
        for use in usage
    ]
    _show_table(columns, rows, f"pylb lab: {lab.seconds:.3f} s")
    for done in lab.done:
        failed = f" failed: {done.failed}" if done.failed else ""
        _say([f"at {done.seconds:.3f} s, {done.change}{failed}"])
    killed = sum(use.killed for use in usage)
    if killed:
        _say([f"the kernel killed {killed} processes: memory and swap were full"])
    total, cores = sum(use.limit.share for use in usage), len(os.sched_getaffinity(0))
    if total > cores * (1 + 1e-9):
        shares = f"the shares add up to {total:g} cores, but the machine has {cores}"
        _say([f"{shares}: ranks also waited for cores that other ranks used"])

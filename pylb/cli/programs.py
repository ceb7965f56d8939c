"""Commands for programs and their data: run, record, whatif, procedures, partition, lab."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.cli.common import JSON, SUMMARY, arg, command, print_json, progress
from pylb.comm.mpiexec import is_mpiexec, n_ranks
from pylb.console import Column, show
from pylb.errors import DomainError, MissingFileError
from pylb.lab import Lab, LabPlan, Profile, Usage, units
from pylb.lab.plan import shown, values_of
from pylb.partitioning import METHODS, files
from pylb.partitioning import partition as divide
from pylb.partitioning.libraries import APPROACHES
from pylb.prediction import factors, prediction
from pylb.prediction.recorder import launch
from pylb.prediction.recorder.recording import Recording
from pylb.prediction.suggestion import Suggestion, suggest

# ---- run, record --------------------------------------------------------------------------------


@command("run an MPI program with a clock that does not count waits within MPI", common.PROGRAM)
def run(args: argparse.Namespace) -> int:
    """pylb run -- mpiexec -n 4 python prog.py    (for pylb.Advisor: its clock "auto" is then "mpi")
    pylb run -- mpiexec -n 4 ./a.out           (the same for pylb's C library)
    """
    check_program(args.command[0])
    words = launch.preloading(args.command, "_pmpi", more=_for_lammps(args.command))
    env = {**os.environ}  # without variables that MPI has set in this process
    with subprocess.Popen(words, env=env) as child, launch.signals_end(child):
        code = child.wait()
    return code if code >= 0 else 128 - code


def _for_lammps(command: Sequence[str]) -> list[str]:
    """Return the library that balances LAMMPS, if the command runs `lmp` or `lammps`."""
    for word in command:
        program = shutil.which(word)
        if program and re.fullmatch(r"(lmp|lammps)([-_.].*)?", os.path.basename(word)):
            if b"liblammps" in Path(program).read_bytes():
                library = Path(__file__).parents[1] / "lib" / "libpylb_lammps.so"
                return [str(library)] if library.exists() else []
            console.note(
                f"{word} is not balanced, because it does not use a shared library liblammps: "
                "expected a LAMMPS built with BUILD_SHARED_LIBS=yes"
            )
    return []


def check_program(name: str) -> None:
    if shutil.which(name) is None:
        raise MissingFileError(f"command is {name!r}: there is no such program")


@command(
    "run an MPI program and record its operations, for pylb whatif",
    arg("-o, --output FILE", "the recording to write", required=True),
    arg("--host", "address of this machine, for ranks elsewhere", default="127.0.0.1"),
    arg("--procedures F,...", "functions to record: -finstrument-functions", common.words, []),
    arg(
        "--place Q,...",
        "predict the time for these processors of the ranks",
        common.ints,
        **common.REPEATED,
    ),
    arg("--speed X,...", "speed of each processor, for --place", common.floats),
    SUMMARY,
    common.PROGRAM,
)
def record(args: argparse.Namespace) -> int:
    """pylb record -o run -- mpiexec -n 4 python prog.py
    pylb record -o run -- mpiexec -n 4 ./a.out
    pylb record -o run --place 0,0,1,1 -- mpiexec -n 4 ./a.out   (predicts while the program runs)
    pylb whatif run --place 0,0,1,1
    """
    Recording.check_writable(args.output)
    check_program(args.command[0])
    speed = {} if args.speed is None else {"speed": args.speed}
    online = [{"placement": place, **speed} for place in args.place]
    how: Any = {"procedures": args.procedures, "host": args.host, "online": online}
    code, recording = launch.record(args.command, say=console.note, **how)
    written = args.output
    if recording.n_ranks:
        with launch.signals_end():
            try:
                recording.save(written)
            except OSError as error:
                console.note(f"{written} cannot be written: {error}")
                folder = tempfile.mkdtemp(prefix="pylb-")
                written = os.path.join(folder, os.path.basename(written))
                recording.save(written)
    for text in recording.warnings:
        console.note(text)
    if not recording.n_ranks:
        console.note(f"{args.output} is not written: nothing was recorded")
        return code or 1
    took = "" if recording.seconds is None else f", {recording.seconds:.4g} s"
    console.note(f"{written}: {recording.n_ops} operations of {recording.n_ranks} ranks{took}")
    told = {"written": written, "operations": recording.n_ops, "exit_code": code}
    common.write_json(args, told | common.fields(recording, "n_ranks seconds warnings"))
    return code or int(written != args.output)


# ---- whatif, procedures -------------------------------------------------------------------------


def _percent(part: float, whole: float) -> str | None:
    return f"{100 * part / whole:.0f} %" if whole > 0 else None


def _ranks(placement: Any) -> str:
    return ",".join(map(str, placement))


RECORDING = arg("recording RUN", "file that pylb record wrote")
PREDICTED = (
    Column("placement", lambda p: _ranks(p.target.placement)),
    Column("seconds", lambda p: p.time, "predicted, from the end of MPI_Init to MPI_Finalize"),
    Column(
        "used",
        lambda p: _percent(p.processor_busy.sum(), p.time * len(p.target.speed)),
        "fraction of the processors' time in which ranks work",
    ),
    Column(
        "waiting",
        lambda p: _percent(p.waiting.sum(), p.finish.sum()),
        "fraction of the ranks' time in which they wait within MPI",
    ),
    Column("", lambda p: None if p.complete else "incomplete"),
)
RANKS = (
    Column("ends", note="when the rank ends, in seconds"),
    Column("works", note="seconds on the processor"),
    Column("waits", note="seconds within MPI"),
    Column("pauses", note="seconds asleep, or waiting for files"),
    Column("how", note="through: to its end; cut: its records end early; stuck: no message comes"),
)


@command(
    "predict the time of a recorded MPI program under other placements",
    RECORDING,
    arg(
        "--place Q,...", "processor of each rank (default: its own)", common.ints, **common.REPEATED
    ),
    arg("--speed X,...", "speed of each processor, or of all; 1: as recorded", common.floats),
    arg("--share X,...", "available fraction of each processor, as in pylb lab", common.floats),
    arg("--period", "share period (default: 5ms; 0ms if ranks slept while they waited)"),
    arg("--node N,...", "node of each processor (default: all on one)", common.ints),
    arg("--alpha", "seconds per message (default: as measured with the recording)", float),
    arg("--beta", "seconds per byte (default: as measured with the recording)", float),
    arg("--overhead", "processor seconds of an MPI call", float),
    arg("--eager", "largest message, in bytes, that is sent before its receive", int),
    arg("--suggest N", "find the N best changes of the last --place", int),
    arg("--ranks", "show a row for each rank", bool),
    JSON,
)
def whatif(args: argparse.Namespace) -> int:
    """pylb whatif run --place 0,0,1,1
    pylb whatif run --place 0,1,0,1 --place 0,0,0,1 --speed 1,0.5
    pylb whatif run --place 0,1,0,1 --share 0.9,0.45     (under pylb lab --share 0.9,0.45)
    pylb whatif run --place 0,0,1,1 --suggest 3
    pylb whatif run --place 0,1,2,3 --node 0,0,1,1 --alpha 2e-6 --beta 1e-9 --json
    """
    if args.suggest is not None and args.suggest < 1:
        raise DomainError(f"--suggest is {args.suggest}: expected a number of changes, 1 or more")
    recording = Recording.load(args.recording)
    given = common.fields(args, "overhead eager")
    given |= {name: value for name in ("speed", "share", "node") if (value := getattr(args, name))}
    for name in ("speed", "share"):
        if len(given.get(name, ())) == 1:
            given[name] = given[name][0]
    given["network"] = {k: v for k in ("alpha", "beta") if (v := getattr(args, k)) is not None}
    if args.period is not None:
        given["period"] = 1e-6 * units.microseconds("period", args.period)
    better: list[Suggestion] = []
    with common.noting_warnings(), progress("simulating"):
        made = [
            prediction.whatif(recording, placement=place, **given) for place in args.place or [None]
        ]
        if args.suggest is not None:
            last = made[-1].target.placement
            better = suggest(recording, placement=last, best=args.suggest, **given)
    told = {
        "recording": args.recording,
        "n_ranks": recording.n_ranks,
        "recorded_seconds": recording.seconds,
        "predictions": [
            {"placement": p.target.placement, "speed": p.target.speed, "seconds": p.time}
            | common.fields(p, "complete finish busy waiting end warnings")
            for p in made
        ],
        "suggestions": [
            {"seconds": one.time, **common.fields(one, "saves placement procedure reason")}
            for one in better
        ],
    }
    if not print_json(args, told):
        took = "" if recording.seconds is None else f", {recording.seconds:.4g} s when recorded"
        title = f"{recording.n_ranks} ranks, {recording.n_ops} operations{took}"
        show(PREDICTED, made, title=title, drop_empty=True)
        for one in made if args.ranks else ():
            print()
            cells = (one.target.placement, one.finish, one.busy, one.waiting, one.paused, one.end)
            rows = [[r, *row] for r, row in enumerate(zip(*cells, strict=True))]
            heads = RANKS if one is made[-1] else [column.heading for column in RANKS]
            show(["rank", "processor", *heads], rows, title=_ranks(one.target.placement))
        if args.suggest is not None and not better:
            print("found no change of the last placement that saves time")
        for change in better:
            common.print_text(str(change))
            if change.placement is not None and len(change.placement) <= 64:
                print(f"  --place {_ranks(change.placement)}")
    return 0 if all(one.complete for one in made) else 1


@command(
    "show the time saved if a procedure ran on the rank at the other end of its messages",
    RECORDING,
    arg("--from RANK", "only procedures of this rank", int, dest="source"),
    arg("--to RANK", "only moves to this rank", int, dest="target"),
    *common.PRICES,
    JSON,
)
def procedures(args: argparse.Namespace) -> None:
    """pylb procedures run
    pylb procedures run --from 0 --to 2
    pylb procedures run --json
    """
    recording, network = Recording.load(args.recording), (args.alpha, args.beta)
    path = factors.critical_path(recording, network=network)
    told = factors.Procedures([])
    if recording.procedures:
        ends: Any = {"source": args.source, "target": args.target, "network": network}
        with common.noting_warnings():
            told = factors.procedures(recording, **ends)
    answer = {
        "recording": args.recording,
        "critical_path": path.time,
        **common.fields(path, "by_rank by_procedure"),
        "procedures": [common.fields(p, "name seconds moved zeroed") for p in told],
    }
    if print_json(args, answer):
        return
    ranks = (
        Column("rank", lambda r: r),
        Column("path s", lambda r: float(path.by_rank[r]), "seconds of the path on this rank"),
        Column("share", lambda r: console.percent(float(path.by_rank[r]) / (path.time or 1.0))),
        Column("ends s", lambda r: float(path.finish[r]), "when the rank ends"),
    )
    show(ranks, range(len(path.by_rank)), title=f"critical path: {path.time:.4g} s")
    if not told:
        return
    print()
    columns = (
        Column("procedure", lambda p: p.name),
        Column("seconds", lambda p: p.seconds, "in the procedure and what it calls, on all ranks"),
        Column(
            "on path s", lambda p: path.by_procedure[p.name], "without procedures that it calls"
        ),
        Column("moved s", lambda p: p.moved, "critical path if it ran on the rank it talks to"),
        Column("saves", lambda p: console.percent(p.gain)),
        Column("zeroed s", lambda p: p.zeroed, "critical path if the procedure took no time"),
        Column("would save", lambda p: console.percent(p.most)),
    )
    show(columns, told)


# ---- partition ----------------------------------------------------------------------------------

PARTITIONS = (
    Column("method", lambda p: p.method),
    Column("ms", lambda p: f"{p.seconds * 1e3:.1f}", drop=3),
    Column("max/mean", lambda p: f"{p.max_over_mean:.4f}"),
    Column("cut", lambda p: p.cut, "weight of the edges, or nets, between parts"),
    Column("volume", lambda p: p.volume, "amount of data in a halo exchange"),
    Column(
        "neighbours",
        lambda p: None if (n := p.evaluation.neighbours) is None else int(n.max()),
        "largest number of parts to which a part has edges",
        2,
    ),
    Column(
        "boundary",
        lambda p: None if (n := p.evaluation.boundary) is None else int(n.sum()),
        "number of objects with an edge to another part",
        1,
    ),
    Column("moved", lambda p: p.migrations or None, "objects that are not in their --old part"),
)
TOLD = "method approach n_parts seconds seed max_over_mean migrations part"


@command(
    "divide a graph, a hypergraph or points into parts",
    arg("file FILE", "the graph, hypergraph or points"),
    arg("--parts K", "number of parts", int, 2),
    arg(
        "--method A,B,...",
        f"one or more of {', '.join(METHODS)}; --out gets the parts of smallest volume",
        common.words,
    ),
    arg("--coords FILE.npy", "positions of the objects, for rcb, rib and hsfc"),
    arg("--old FILE", "present part of each object: one per line, or .npy"),
    arg("--approach", "default: repartition with --old, else partition", choices=APPROACHES),
    arg("--ratio", "number of halo exchanges between two repartitions", float, 1.0),
    arg("--imbalance", "largest ratio of a part's weight to its share", float, 1.03),
    arg("--seed", "seed of the method", int, 0),
    arg("--symmetrize", "add the missing direction of edges given in only one", bool),
    arg(
        "-P NAME=VALUE", "a parameter of the library", common.pair, dest="params", **common.REPEATED
    ),
    arg("--out FILE", "write the part of each object: one per line, or .npy"),
    JSON,
)
def partition(args: argparse.Namespace) -> None:
    """pylb partition 4elt.graph --parts 8
    pylb partition 4elt.graph --parts 8 --method metis,scotch,graph --json
    pylb partition ibm01.hgr --parts 4 --method zoltan --out ibm01.part
    pylb partition points.npy --parts 16 --method hsfc --out parts.npy
    pylb partition mesh.graph --parts 8 --method graph --old mesh.part --ratio 100
    pylb partition mesh.graph --parts 8 --method metis -P NITER=20

    files: METIS (.graph), hMETIS (.hgr), Matrix Market (.mtx), NumPy points (.npy) or arrays by
    name (.npz: start, to, edge_weight, net_start, pin, net_weight, coords, weight, old, fixed_part,
    nbytes, tree, shares)
    """
    common.check_targets(args.file, args.out)
    given = files.read(args.file)
    if args.coords is not None:
        given |= files.read(args.coords)
    if args.old is not None:
        given["old"] = files.read_parts(args.old)
    given |= common.fields(args, "parts approach imbalance seed symmetrize") | dict(args.params)
    given["migration_ratio"] = args.ratio
    made = []
    for method in args.method or [None]:
        with common.noting_warnings(), progress(f"dividing by {method or 'the default method'}"):
            made.append(divide(method=method, **given))
    if args.out is not None:
        files.write(args.out, min(made, key=lambda p: (p.volume or 0.0, p.max_over_mean)).part)
    rows = [{**common.fields(p, TOLD), "evaluation": p.evaluation.to_dict()} for p in made]
    if not print_json(args, {"file": args.file, "rows": rows}):
        n = int(made[0].evaluation.objects.sum())
        show(PARTITIONS, made, title=f"{args.file}: {n:,} objects in {made[0].n_parts} parts")


# ---- lab ----------------------------------------------------------------------------------------


@command(
    "run a command with limits for each MPI rank: share of a core, memory, network",
    arg("--share CORES,...", "cores of each rank, a cyclic list (default: equal parts)"),
    arg("--cap WATTS,...", "power caps of the nodes, 23W ... 95W (Dasgupta 2013)"),
    arg("--memory SIZE,...", "memory of each rank; what is above it is swapped out"),
    arg("--lab FILE", "read the description of the lab from a YAML file"),
    arg("--period TIME", "period of the shares (default: 5ms; longer for shares < 0.2)"),
    arg("--check", "first measure what the lab enforces", bool),
    SUMMARY,
    arg("--quiet", "print no table of usage; with --lab, skip the measurement", bool),
    arg("command", "after --: mpiexec ..., or any program", nargs="*"),
)
def lab(args: argparse.Namespace) -> int:
    """pylb lab --share 0.25 -- mpiexec -n 8 python prog.py
    pylb lab --share 0.5,0.25 -- mpiexec -n 4 python prog.py    (ranks 0, 2: half a core)
    pylb lab --cap 23W -- mpiexec -n 4 python prog.py           (nodes under a power cap)
    pylb lab --memory 64MiB,256MiB -- mpiexec -n 2 python prog.py    (more memory is swapped out)
    pylb lab --lab caps.yaml -- mpiexec -n 4 python prog.py     (hosts, network, changes)
    pylb lab --lab caps.yaml --check                            (measure what the lab enforces)
    pylb lab --share 0.1 --json used.json -- python serial.py
    """
    if not (args.command or args.check):
        raise DomainError("command is empty: expected a program after --, or --check")
    plan, code = _plan(args), 0
    with Lab(plan) as made:
        _say(made.notes)
        if args.check or (args.lab and not args.quiet):
            mpi = args.command and is_mpiexec(args.command[0])
            _measure(made, n_ranks(args.command) if mpi else None)
        if args.command:
            code = made.run(args.command)
            usage = made.usage()
            if usage and not args.quiet:
                _show_usage(usage, made)
            ranks = [
                {k: v for k, v in use._asdict().items() if k != "limit"}
                | common.fields(use.limit, "share period_us")
                | {"memory_limit": use.limit.memory}
                for use in usage
            ]
            common.write_json(args, {"seconds": made.seconds, "exit_code": code, "ranks": ranks})
        told = len(made.notes)
    _say(made.notes[told:])
    return code


def _plan(args: argparse.Namespace) -> LabPlan:
    given = common.fields(args, "share cap memory")
    if args.lab is not None:
        if doubled := ", ".join(f"--{name}" for name, value in given.items() if value is not None):
            raise DomainError(f"--lab with {doubled}: expected these limits only in {args.lab}")
        plan = LabPlan.load(args.lab)
    else:
        if not any(given.values()):
            raise DomainError("no limit is given: expected --share, --cap, --memory or --lab")
        lists = [[None] if text is None else values_of(name, text) for name, text in given.items()]
        profiles = (
            Profile(*(some[i % len(some)] for some in lists))
            for i in range(math.lcm(*map(len, lists)))
        )
        plan = LabPlan(tuple(profiles))
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
    title = "pylb lab: limits, measured with programs that try to use more"
    show(columns, rows, title=title, file=sys.stderr, drop_empty=True)
    links = {host.name: host.link for host in plan.hosts}
    rows = []
    for pair in joined:
        way, row = links[pair.source].to(links[pair.target]), [pair.source, pair.target]
        for name in ("bandwidth", "latency"):
            row += [shown(name, getattr(way, name)), shown(name, getattr(pair, name))]
        rows.append(row)
    if rows:
        columns = ["from", "to", "bandwidth", "measured", "latency", "measured"]
        show(columns, rows, file=sys.stderr, drop_empty=True)


def _bytes(value: int | None) -> str | None:
    return None if value is None else units.shown_bytes(value)


def _show_usage(usage: list[Usage], lab: Lab) -> None:
    columns = (
        Column("rank", lambda u: u.rank),
        Column("host", lambda u: u.host or None),
        Column("share", lambda u: f"{u.limit.share:.3f}"),
        Column("used", lambda u: f"{u.cpu_seconds / lab.seconds:.3f}"),
        Column("CPU s", lambda u: f"{u.cpu_seconds:.3f}"),
        Column("throttled s", lambda u: f"{u.throttled_seconds:.3f}"),
        Column("throttled periods", lambda u: f"{100 * u.throttled / max(u.periods, 1):.0f} %"),
        Column("period ms", lambda u: f"{u.limit.period_us / 1e3:g}"),
        Column("memory", lambda u: _bytes(u.limit.memory)),
        Column("peak", lambda u: _bytes(u.memory) if u.limit.memory else None),
        Column("pages read", lambda u: u.paged if u.limit.memory else None),
        Column("killed", lambda u: u.killed if u.limit.memory else None),
    )
    title = f"pylb lab: {lab.seconds:.3f} s"
    show(columns, usage, title=title, file=sys.stderr, drop_empty=True)
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

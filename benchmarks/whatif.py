"""Process LBF against reality: programs recorded under one placement, predicted under others, and
then run there.

    python benchmarks/whatif.py [--only NAME,...] [--repeats 3] [--json out/whatif.json]

Six programs: three of examples/ (unbalanced), and three in C of tests/recorded.  Each is recorded
once with its ranks pinned to the two cores; then each prediction is compared with the median of
some runs at that place, unrecorded but for their time (from the end of MPI_Init to the beginning of
MPI_Finalize).  Unlike speeds are those of `pylb lab`.  Beside them: what recording costs, and how
fast the simulation is.  Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import pylb
from pylb.cli.table import show
from pylb.events import Recording
from pylb.events.layout import OP, Kind
from pylb.events.monitor import Monitor
from pylb.events.recorder import loaded, turns
from pylb.lab import Lab
from pylb.whatif import target

ROOT = Path(__file__).resolve().parents[1]
PIN = Path(__file__).parent / "common" / "pin.py"


EACH_MS = "pipeline, a message each ms"


@dataclass(frozen=True)
class Place:
    """Cores of the ranks, and the share of a core that each is held to (empty: whole cores)."""

    cores: tuple[int, ...]
    shares: tuple[float, ...] = ()

    def __str__(self) -> str:
        shares = " at " + ",".join(f"{s:g}" for s in self.shares) if self.shares else ""
        return ",".join(map(str, self.cores)) + shares

    @property
    def target(self) -> dict[str, object]:
        """For `pylb.whatif`: a rank that is held to its share has a processor of its own."""
        if not self.shares:
            return {"placement": self.cores, "speed": [1.0] * 2}
        return {"placement": range(len(self.cores)), "share": self.shares}


@dataclass(frozen=True)
class Program:
    """What is run, where it is recorded, and where else it is run."""

    name: str
    words: tuple[str, ...]
    recorded: Place
    others: tuple[Place, ...] = field(default=())

    def command(self, place: Place) -> list[str]:
        """The whole command line."""
        return [
            *("mpiexec", "-n", str(len(place.cores)), "--bind-to", "none"),
            *(sys.executable, "-I", "-S", str(PIN), ",".join(map(str, place.cores))),
            *self.words,
        ]


def programs(folder: Path) -> list[Program]:
    """The six, those in C compiled into `folder`."""
    mpicc = shutil.which("mpicc") or "mpicc"
    for name in ("stencil", "pipeline", "server"):
        source = ROOT / "tests" / "recorded" / f"{name}.c"
        subprocess.run([mpicc, "-O2", str(source), "-o", str(folder / name)], check=True)
    two = Place((0, 1))
    two_others = (
        Place((0, 0)),
        Place((0, 1), (0.9, 0.45)),
        Place((0, 1), (0.45, 0.9)),
    )
    four = Place((0, 0, 1, 1))
    four_others = (
        Place((0, 1, 0, 1)),
        Place((0, 0, 0, 1)),
        Place((0, 0, 0, 0)),
        Place((0, 1, 0, 1), (0.45, 0.45, 0.3, 0.3)),
    )
    three_others = (
        Place((0, 0, 0)),
        Place((0, 0, 1)),
        Place((0, 1, 1)),
        Place((0, 1, 0), (0.45, 0.9, 0.3)),
    )

    def example(name: str, *words: str) -> tuple[str, ...]:
        never = ("--every", "1000000")
        return (sys.executable, str(ROOT / "examples" / f"{name}.py"), *words, *never)

    def c(name: str, *words: str) -> tuple[str, ...]:
        return (str(folder / name), *words)

    return [
        Program("jacobi2d", example("jacobi2d", "--iterations", "6"), two, two_others),
        Program("kneighbor", example("kneighbor", "--work", "200"), two, two_others),
        Program("leanmd", example("leanmd", "--steps", "100"), two, two_others),
        Program("server", c("server", "20", "1e7"), four, four_others),
        Program("stencil", c("stencil", "60", "1e7"), four, four_others),
        Program("pipeline", c("pipeline", "60", "1e7"), Place((0, 1, 0)), three_others),
    ]


def run(program: Program, place: Place, how: str) -> Recording:
    """Run it there: `how` is "record" or "time"."""
    monitor = Monitor()
    words = loaded(program.command(place), monitor.address, only_time=how == "time")
    done = threading.Event()
    thread = threading.Thread(target=monitor.serve_until, args=(done.is_set,))
    thread.start()
    try:
        with open(os.devnull, "w") as null:
            out = os.dup(1)
            os.dup2(null.fileno(), 1)
            try:
                if place.shares:
                    with Lab(place.shares) as lab:
                        code = lab.run(words)
                else:
                    code = subprocess.run(words, stderr=subprocess.DEVNULL).returncode
            finally:
                os.dup2(out, 1)
                os.close(out)
    finally:
        done.set()
        thread.join()
        monitor.close()
    recording = monitor.recording(words)
    if code != 0 or recording.seconds is None:
        raise SystemExit(f"{program.name} on {place}: exit code {code}, {recording.warnings}")
    return recording


def compare(
    program: Program, repeats: int, options: dict[str, object], keep: Path | None
) -> dict[str, object]:
    """Record it once, predict all other places, and run it there."""
    recording = run(program, program.recorded, "record")
    recording.info.update(turns())
    if keep is not None:
        recording.save(keep / program.name)
    rows = []
    for place in (program.recorded, *program.others):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = pylb.whatif(recording, **place.target, **options)
            ideal = {**options, "quantum": 0.0, "period": 0.0, "polling": 0.0}
            fluid = pylb.whatif(recording, **place.target, **ideal)
        times = [run(program, place, "time").seconds for _ in range(repeats)]
        measured = statistics.median(times)
        rows.append(
            {
                "place": str(place),
                "recorded_here": place == program.recorded,
                "predicted": told.time,
                "fluid": fluid.time,
                "measured": measured,
                "runs": times,
                "error": told.time / measured - 1.0,
            }
        )
        print(
            f"{program.name:10} {place!s:28} predicted {told.time:7.3f} s (fluid {fluid.time:7.3f})"
            f" measured {measured:7.3f} s  {100 * rows[-1]['error']:+.1f} %",
            flush=True,
        )
    return {
        "program": program.name,
        "recorded_seconds": recording.seconds,
        "operations": recording.n_ops,
        "info": {
            k: recording.info.get(k)
            for k in ("alpha", "beta", "overhead", "waiting", "quantum", "polling")
        },
        "warnings": recording.warnings,
        "places": rows,
    }


def overhead(program: Program, pairs: int) -> dict[str, float]:
    """Recorded and unrecorded in turns: the ratio of the fastest."""
    times: dict[str, list[float]] = {"time": [], "record": []}
    operations = 0
    for _ in range(pairs):
        for how, all_times in times.items():
            one = run(program, program.recorded, how)
            all_times.append(one.seconds or 0.0)
            operations = max(operations, one.n_ops)
    return {
        "seconds": min(times["time"]),
        "recorded": min(times["record"]),
        "operations": operations,
        "ratio": min(times["record"]) / min(times["time"]) - 1.0,
    }


def speed(ranks: int, shared: int) -> dict[str, float]:
    """Ten million operations: a halo exchange on a ring."""
    n = 10_000_000 // (8 * ranks)
    rng = np.random.default_rng(0)
    ops = []
    for r in range(ranks):
        one = np.zeros((n, 8), OP)
        one["kind"] = [Kind.IRECV] * 2 + [Kind.ISEND] * 2 + [Kind.WAIT] * 4
        sides = [(r - 1) % ranks, (r + 1) % ranks]
        one["peer"] = [*sides, *sides, 0, 0, 0, 0]
        one["tag"] = [1, 2, 2, 1, 0, 0, 0, 0]
        one["request"] = [0, 1, 2, 3] * 2
        one["bytes"] = 1000
        one["compute"][:, 0] = rng.integers(100_000, 200_000, n)
        ops.append(np.concatenate([one.reshape(-1), np.zeros(1, OP)]))
    run_ = Recording.of(ops)
    aim = target(run_, placement=np.arange(ranks) // shared, overhead=5e-7)
    simulation = aim.simulation(run_.comms)
    for r, one in enumerate(run_.ops):
        simulation.feed(r, one, True, None)
    begin = time.perf_counter()
    simulation.run()
    return {
        "ranks": ranks,
        "ranks_on_a_processor": shared,
        "operations": run_.n_ops,
        "seconds": time.perf_counter() - begin,
        "bytes_beside_records": simulation.memory(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="programs, with commas between")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quantum", type=float, help="seconds; default: as recorded")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--pairs", type=int, default=3, help="to measure what recording costs")
    parser.add_argument("--keep", type=Path, help="folder for the recordings")
    parser.add_argument("--json", default="out/whatif.json")
    args = parser.parse_args()
    for variable, value in {
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        **(
            {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            if os.geteuid() == 0
            else {}
        ),
    }.items():
        os.environ.setdefault(variable, value)
    options = {} if args.quantum is None else {"quantum": args.quantum}
    with tempfile.TemporaryDirectory() as folder:
        chosen = programs(Path(folder))
        if args.only:
            chosen = [p for p in chosen if p.name in args.only.split(",")]
        results = [compare(p, args.repeats, options, args.keep) for p in chosen]
        often = Program(EACH_MS, (f"{folder}/pipeline", "1500", "6e5"), Place((0, 1)))
        timed = [*chosen, often] if args.pairs > 0 else []
        costs = {p.name: overhead(p, args.pairs) for p in timed}
    speeds = [] if args.skip_speed else [speed(r, s) for r in (4, 64, 1024) for s in (1, 4)]
    report(results, costs, speeds, Path(args.json))


def report(results: list, costs: dict, speeds: list, path: Path) -> None:
    """Tables, verdicts, and the file."""
    rows = [
        [r["program"], p["place"], p["predicted"], p["measured"], f"{100 * p['error']:+.1f} %"]
        for r in results
        for p in r["places"]
    ]
    print()
    show(["program", "ranks' cores", "predicted s", "measured s", "error"], rows)
    errors = [abs(p["error"]) for r in results for p in r["places"] if not p["recorded_here"]]
    verdicts = {}
    if errors:
        verdicts = {"largest": max(errors), "median": statistics.median(errors)}
        print(
            f"\nerror at other places: largest {100 * max(errors):.1f} % (limit 6 %), median "
            f"{100 * statistics.median(errors):.1f} % (limit 3 %)"
        )
    if costs:
        print()
        show(
            ["program", "s", "recorded s", "operations", "cost"],
            [
                [name, c["seconds"], c["recorded"], c["operations"], f"{100 * c['ratio']:+.1f} %"]
                for name, c in costs.items()
            ],
            title="what recording costs",
        )
    if speeds:
        print()
        show(
            ["ranks", "on a processor", "operations", "s", "bytes beside records"],
            [list(s.values()) for s in speeds],
            title="the simulation",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"programs": results, "verdicts": verdicts, "costs": costs, "speeds": speeds}
    path.write_text(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()

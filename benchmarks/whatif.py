"""The process load balancing factor compared with measurements.

Programs are recorded under one placement, predicted under others, and then run there.

    python benchmarks/whatif.py [--only NAME,...] [--rounds 5] [--json out/whatif.json]

Seven programs: four of examples/, and three in C of tests/recorded.  In each round a program is
recorded with its ranks pinned to the two cores, run (and recorded) under each other placement, and
run once more with each rank limited to the same share of a core (`pylb lab`).  The last run tells
how fast a processor of the lab is for this program (`Recording.speeds`); no prediction uses the
same share.

Noise of the machine only makes runs slower.  Therefore each run waits until the cores are quiet,
for at most `--still` seconds and `--patience` in all; the fastest run of each kind counts; and
rounds continue until the two fastest runs of each kind agree within `--agree`, at most `--most`
rounds.

Each error is printed with two more numbers.  The first is how much longer the second fastest and
the slowest run took: the noise.  The second, *model*, is the error of the simulation alone: a run
is simulated from what its own ranks computed there, and compared with its measured time.  That
error is free of noise, but says nothing about how long a rank computes under other placements.
Then follow the cost of recording and the speed of the simulation.  Run it on a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import ask_mpi
from common.pinned import Place, run
from common.still import Stillness

import pylb
from pylb.console import show
from pylb.prediction.prediction import target
from pylb.prediction.recorder.recording import OP, OpKind, Recording

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("jacobi2d", "kneighbor", "leanmd", "spa", "server", "stencil", "pipeline")
IN_C = NAMES[4:]
SAID = ("alpha", "beta", "overhead", "response")
PERCENT = ("error", "model", "second", "spread")
EACH_MS = "pipeline, a message each ms"


@dataclass(frozen=True)
class Program:
    """A program, the placement under which it is recorded, and the placements to predict."""

    name: str
    words: tuple[str, ...]
    recorded: Place
    held: Place
    others: tuple[Place, ...] = field(default=())


def programs(folder: Path) -> list[Program]:
    """Return all programs; those in C are compiled into `folder`."""
    mpicc = shutil.which("mpicc") or "mpicc"
    for name in IN_C:
        source = ROOT / "tests" / "recorded" / f"{name}.c"
        subprocess.run([mpicc, "-O2", str(source), "-o", str(folder / name)], check=True)
    words = {
        "jacobi2d": ("--blocks", "8", "--iterations", "1", "--every", "1000000"),
        "kneighbor": ("--work", "200", "--iterations", "24", "--start", "12", "--every", "1000000"),
        "leanmd": ("--steps", "12", "--every", "1000000"),
        "spa": ("--steps", "5e4"),
        "server": ("10", "1e7"),
        "stencil": ("12", "1e7"),
        "pipeline": ("18", "1e7"),
    }
    two = (
        Place((0, 1)),
        Place((0, 1), (0.6, 0.6)),
        (Place((0, 0)), Place((0, 1), (0.9, 0.45)), Place((0, 1), (0.45, 0.9))),
    )
    four = (
        Place((0, 0, 1, 1)),
        Place((0, 0, 1, 1), (0.4,) * 4),
        (
            Place((0, 1, 0, 1)),
            Place((0, 0, 0, 1)),
            Place((0, 0, 0, 0)),
            Place((0, 1, 0, 1), (0.45, 0.45, 0.3, 0.3)),
        ),
    )
    three = (
        Place((0, 1, 0)),
        Place((0, 1, 0), (0.4,) * 3),
        (
            Place((0, 0, 0)),
            Place((0, 0, 1)),
            Place((0, 1, 1)),
            Place((0, 1, 0), (0.45, 0.9, 0.3)),
        ),
    )
    where = dict.fromkeys(NAMES[:3], two) | {"pipeline": three}

    def program(name: str) -> tuple[str, ...]:
        example = (sys.executable, str(ROOT / "examples" / f"{name}.py"))
        return (str(folder / name),) if name in IN_C else example

    return [Program(name, (*program(name), *words[name]), *where.get(name, four)) for name in NAMES]


def aim(place: Place, speeds: np.ndarray) -> dict[str, object]:
    """Return the target for `pylb.whatif`; a rank with a share has a processor of its own."""
    if not place.shares:
        return {"placement": place.cores, "speed": [1.0] * 2}
    return {"placement": range(len(place.cores)), "share": place.shares, "speed": speeds}


@dataclass
class Runs:
    """The runs of one program under one placement, recorded or only timed."""

    place: Place
    only_time: bool = False
    recordings: list[Recording] = field(default_factory=list)

    def again(self, words: tuple[str, ...]) -> None:
        self.recordings.append(run(words, self.place, only_time=self.only_time))

    @property
    def fastest(self) -> Recording:
        return min(self.recordings, key=lambda one: one.seconds or 0.0)

    @property
    def seconds(self) -> list[float]:
        """Return the run times, the fastest first."""
        return sorted(one.seconds or 0.0 for one in self.recordings)

    def beyond(self, which: int) -> float:
        """Return how much longer this run took than the fastest one, as a fraction."""
        return self.seconds[which] / self.seconds[0] - 1.0

    def agree(self, within: float) -> bool:
        return len(self.recordings) > 1 and self.beyond(1) <= within


def measure(
    program: Program, args: argparse.Namespace, still: Stillness
) -> tuple[list[Runs], Runs, Runs]:
    """Run a program under all placements (the recorded one first), with shares, and unrecorded."""
    at = [Runs(place) for place in (program.recorded, *program.others)]
    held, alone = Runs(program.held), Runs(program.recorded, only_time=True)
    for number in range(args.most):
        left = [r for r in (*at, held, alone) if number < args.rounds or not r.agree(args.agree)]
        for runs in left:
            still.wait(runs.place.cores, args.still)
            runs.again(program.words)
    return at, held, alone


def compare(program: Program, args: argparse.Namespace, still: Stillness) -> dict[str, object]:
    """Record the program, run it under all placements, then predict the times."""
    at, held, alone = measure(program, args, still)
    if args.keep is not None:
        for number, runs in enumerate([*at, held]):
            for i, one in enumerate(runs.recordings):
                one.save(args.keep / f"{program.name}-{number}-{i}")
    recording = at[0].fastest
    speeds = recording.speeds(held.fastest)
    rows = [row(recording, speeds, runs) for runs in at]
    for one in rows:
        print(
            f"{program.name:10} {one['place']:28} predicted {one['predicted']:7.3f} s (nominal "
            f"speed {one['nominal']:7.3f}) measured {one['measured']:7.3f} s "
            f"{100 * one['error']:+5.1f} %, model {100 * one['model']:+5.1f} %, "
            f"{len(one['runs'])} runs",
            flush=True,
        )
    return {
        "program": program.name,
        "operations": recording.n_ops,
        "speeds": speeds.tolist(),
        "info": {k: recording.info.get(k) for k in SAID},
        "warnings": recording.warnings,
        "places": rows,
        "cost": cost(at[0], alone),
    }


def row(recording: Recording, speeds: np.ndarray, runs: Runs) -> dict[str, Any]:
    """Return a row with the prediction for a placement, and the measurement."""
    same, place, measured = np.ones(len(speeds)), runs.place, runs.seconds[0]
    there = replace(runs.fastest, info=recording.info)
    told = predict(recording, place, speeds)
    return {
        "place": str(place),
        "recorded_here": there.ops is recording.ops,
        "predicted": told,
        "nominal": predict(recording, place, same),
        "measured": measured,
        "runs": runs.seconds,
        "second": runs.beyond(min(1, len(runs.seconds) - 1)),
        "spread": runs.beyond(-1),
        "error": told / measured - 1.0,
        "model": predict(there, place, same) / measured - 1.0,
    }


def predict(recording: Recording, place: Place, speeds: np.ndarray) -> float:
    """Return the predicted seconds under this placement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pylb.whatif(recording, **aim(place, speeds)).time


def cost(recorded: Runs, alone: Runs) -> dict[str, float]:
    """Return the cost of recording, by the fastest run with and without it."""
    return {
        "seconds": alone.seconds[0],
        "recorded": recorded.seconds[0],
        "operations": recorded.fastest.n_ops,
        "ratio": recorded.seconds[0] / alone.seconds[0] - 1.0,
    }


def cost_of(program: str, args: argparse.Namespace, still: Stillness) -> dict[str, float]:
    """Return the cost of recording a pipeline that sends each millisecond.

    Runs with and without recording take turns.
    """
    place = Place((0, 1))
    kinds = Runs(place), Runs(place, only_time=True)
    for _ in range(args.pairs):
        for runs in kinds:
            still.wait(place.cores, args.still)
            runs.again((program, "500", "6e5"))
    return cost(*kinds)


def speed(ranks: int, shared: int) -> dict[str, float]:
    """Simulate ten million operations: a halo exchange on a ring."""
    n = 10_000_000 // (8 * ranks)
    rng = np.random.default_rng(0)
    ops = []
    for r in range(ranks):
        one = np.zeros((n, 8), OP)
        one["kind"] = [OpKind.IRECV] * 2 + [OpKind.ISEND] * 2 + [OpKind.WAIT] * 4
        sides = [(r - 1) % ranks, (r + 1) % ranks]
        one["peer"] = [*sides, *sides, 0, 0, 0, 0]
        one["tag"] = [1, 2, 2, 1, 0, 0, 0, 0]
        one["request"] = [0, 1, 2, 3] * 2
        one["bytes"] = 1000
        one["compute"][:, 0] = rng.integers(100_000, 200_000, n)
        ops.append(np.concatenate([one.reshape(-1), np.zeros(1, OP)]))
    run_ = Recording.of(ops)
    aim = target(run_, placement=np.arange(ranks) // shared, overhead=5e-7)
    begin = time.perf_counter()
    aim.simulate(run_.ops, run_.comms)
    return {
        "ranks": ranks,
        "ranks_on_a_processor": shared,
        "operations": run_.n_ops,
        "seconds": time.perf_counter() - begin,
    }


def main() -> None:
    """Record and run the programs, predict their times, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(NAMES), help="programs, with commas between")
    parser.add_argument("--rounds", type=int, default=5, help="smallest number of rounds")
    parser.add_argument(
        "--most", type=int, default=10, help="largest number of rounds, if runs differ"
    )
    parser.add_argument(
        "--agree", type=float, default=0.02, help="allowed difference of the two fastest runs"
    )
    parser.add_argument(
        "--still", type=float, default=5, help="seconds to wait for quiet cores, at most"
    )
    parser.add_argument(
        "--patience", type=float, default=300, help="seconds to wait in all, at most"
    )
    parser.add_argument("--skip-speed", action="store_true", help="do not time the simulation")
    parser.add_argument(
        "--pairs", type=int, default=8, help="pairs of runs with and without recording"
    )
    parser.add_argument("--keep", type=Path, help="folder for the recordings")
    parser.add_argument("--json", default="out/whatif.json")
    args = parser.parse_args()
    ask_mpi()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    still = Stillness(args.patience)
    with tempfile.TemporaryDirectory() as folder:
        chosen = [p for p in programs(Path(folder)) if p.name in args.only.split(",")]
        results = [compare(p, args, still) for p in chosen]
        costs = {str(r["program"]): r["cost"] for r in results}
        if args.pairs > 0:
            costs[EACH_MS] = cost_of(f"{folder}/pipeline", args, still)
    print(f"\n{still}")
    speeds = [] if args.skip_speed else [speed(r, s) for r in (4, 64, 1024) for s in (1, 4)]
    report(results, costs, speeds, Path(args.json))


def percent(one: dict[str, Any], *names: str) -> list[str]:
    """Return the given numbers of a row as text in percent."""
    return [f"{100 * one[name]:+.1f} %" for name in names]


def report(results: list, costs: dict, speeds: list, path: Path) -> None:
    """Print tables and verdicts, and write the file."""
    rows = [
        [r["program"], p["place"], p["predicted"], p["measured"], *percent(p, *PERCENT)]
        for r in results
        for p in r["places"]
    ]
    print()
    show(["program", "ranks' cores", "predicted s", "measured s", *PERCENT], rows)
    others = [p for r in results for p in r["places"] if not p["recorded_here"]]
    verdicts = {}
    for name in ("error", "model") if others else ():
        errors = [abs(p[name]) for p in others]
        verdicts[name] = {"largest": max(errors), "median": statistics.median(errors)}
        print(
            f"\n{name} at {len(errors)} other places: largest {100 * max(errors):.1f} % (limit "
            f"6 %), median {100 * statistics.median(errors):.1f} % (limit 3 %)"
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
    whole = {"programs": results, "verdicts": verdicts, "costs": costs, "speeds": speeds}
    save(path, whole)


if __name__ == "__main__":
    main()

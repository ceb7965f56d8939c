"""Process LBF against reality: programs recorded under one placement, predicted under others, and
then run there.

    python benchmarks/whatif.py [--only NAME,...] [--rounds 3] [--json out/whatif.json]

Seven programs: four of examples/, and three in C of tests/recorded.  In each round a program is
recorded with its ranks pinned to the two cores, recorded once more where each rank is held to the
same share of a core (`pylb lab`), and then run at each place, unrecorded but for its time (from the
end of MPI_Init to the beginning of MPI_Finalize).  Whatever else a machine does takes time and
gives none: of each kind the fastest counts.  The second recording says what a processor of the
lab's does in a second of this program (`Recording.speeds`); its shares are none of those that are
predicted.  Beside them: what recording costs, and how fast the simulation is.  Run it on a machine
that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from common.pinned import Place, ask_mpi, run

import pylb
from pylb.cli.table import show
from pylb.events import Recording
from pylb.events.layout import OP, Kind
from pylb.events.recorder import sharing
from pylb.whatif import target

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("jacobi2d", "kneighbor", "leanmd", "spa", "server", "stencil", "pipeline")
IN_C = NAMES[4:]
SAID = (
    *("alpha", "beta", "overhead", "waiting", "quantum", "polling", "response"),
    *("nap", "asleep"),
)
EACH_MS = "pipeline, a message each ms"


@dataclass(frozen=True)
class Program:
    """What is run, where it is recorded, and where else it is run."""

    name: str
    words: tuple[str, ...]
    recorded: Place
    held: Place
    others: tuple[Place, ...] = field(default=())


def programs(folder: Path) -> list[Program]:
    """All of them, those in C compiled into `folder`."""
    mpicc = shutil.which("mpicc") or "mpicc"
    for name in IN_C:
        source = ROOT / "tests" / "recorded" / f"{name}.c"
        subprocess.run([mpicc, "-O2", str(source), "-o", str(folder / name)], check=True)
    words = {
        "jacobi2d": ("--iterations", "4", "--every", "1000000"),
        "kneighbor": ("--work", "200", "--every", "1000000"),
        "leanmd": ("--steps", "100", "--every", "1000000"),
        "spa": ("--steps", "2e5"),
        "server": ("20", "1e7"),
        "stencil": ("40", "1e7"),
        "pipeline": ("60", "1e7"),
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


def computed(recording: Recording) -> float:
    """Processor seconds of all ranks."""
    return 1e-9 * sum(int(ops["compute"].sum()) for ops in recording.ops)


def aim(place: Place, speeds: np.ndarray) -> dict[str, object]:
    """For `pylb.whatif`: a rank that is held to its share has a processor of its own."""
    if not place.shares:
        return {"placement": place.cores, "speed": [1.0] * 2}
    return {"placement": range(len(place.cores)), "share": place.shares, "speed": speeds}


def compare(
    program: Program, rounds: int, options: dict[str, object], keep: Path | None
) -> dict[str, object]:
    """Record it, run it at all places, some times; then predict them."""
    places = (program.recorded, *program.others)
    here, held = [], []
    times: dict[Place, list[float]] = {place: [] for place in places}
    for _ in range(rounds):
        here.append(run(program.words, program.recorded))
        for place in places:
            times[place].append(run(program.words, place, only_time=True).seconds or 0.0)
        held.append(run(program.words, program.held))
    recording = min(here, key=computed)
    recording.info.update(sharing(recording.info))
    speeds = recording.speeds(min(held, key=computed))
    if keep is not None:
        for kind, recordings in (("here", here), ("held", held)):
            for i, one in enumerate(recordings):
                one.save(keep / f"{program.name}-{kind}-{i}")
    rows = []
    for place in places:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = pylb.whatif(recording, **aim(place, speeds), **options)
            ideal = {**options, "quantum": 0.0, "period": 0.0, "polling": 0.0}
            fluid = pylb.whatif(recording, **aim(place, speeds), **ideal)
            nominal = pylb.whatif(recording, **aim(place, np.ones(len(speeds))), **options)
        measured = min(times[place])
        rows.append(
            {
                "place": str(place),
                "recorded_here": place == program.recorded,
                "predicted": told.time,
                "fluid": fluid.time,
                "nominal": nominal.time,
                "measured": measured,
                "runs": times[place],
                "spread": max(times[place]) / measured - 1.0,
                "error": told.time / measured - 1.0,
            }
        )
        print(
            f"{program.name:10} {place!s:28} predicted {told.time:7.3f} s (fluid {fluid.time:7.3f},"
            f" nominal speed {nominal.time:7.3f}) measured {measured:7.3f} s "
            f"(+{100 * rows[-1]['spread']:.1f} %)  {100 * rows[-1]['error']:+.1f} %",
            flush=True,
        )
    return {
        "program": program.name,
        "operations": recording.n_ops,
        "speeds": speeds.tolist(),
        "info": {k: recording.info.get(k) for k in SAID},
        "warnings": recording.warnings,
        "places": rows,
        "cost": cost(here, times[program.recorded]),
    }


def cost(recorded: list[Recording], times: list[float]) -> dict[str, float]:
    """What recording costs: the fastest of each."""
    seconds = min(one.seconds or 0.0 for one in recorded)
    return {
        "seconds": min(times),
        "recorded": seconds,
        "operations": recorded[0].n_ops,
        "ratio": seconds / min(times) - 1.0,
    }


def cost_of(program: str, pairs: int) -> dict[str, float]:
    """The same of a pipeline that sends each millisecond; recorded and not, in turns."""
    words, place = (program, "1500", "6e5"), Place((0, 1))
    recorded, times = [], []
    for _ in range(pairs):
        times.append(run(words, place, only_time=True).seconds or 0.0)
        recorded.append(run(words, place))
    return cost(recorded, times)


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
    """Record, run, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(NAMES), help="programs, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quantum", type=float, help="seconds; default: as recorded")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--pairs", type=int, default=3, help="of the program that sends each ms")
    parser.add_argument("--keep", type=Path, help="folder for the recordings")
    parser.add_argument("--json", default="out/whatif.json")
    args = parser.parse_args()
    ask_mpi()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    options = {} if args.quantum is None else {"quantum": args.quantum}
    with tempfile.TemporaryDirectory() as folder:
        chosen = [p for p in programs(Path(folder)) if p.name in args.only.split(",")]
        results = [compare(p, args.rounds, options, args.keep) for p in chosen]
        costs = {str(r["program"]): r["cost"] for r in results}
        if args.pairs > 0:
            costs[EACH_MS] = cost_of(f"{folder}/pipeline", args.pairs)
    speeds = [] if args.skip_speed else [speed(r, s) for r in (4, 64, 1024) for s in (1, 4)]
    report(results, costs, speeds, Path(args.json))


def report(results: list, costs: dict, speeds: list, path: Path) -> None:
    """Tables, verdicts, and the file."""
    rows = [
        [
            r["program"],
            p["place"],
            p["predicted"],
            p["measured"],
            f"{100 * p['spread']:.1f} %",
            f"{100 * p['error']:+.1f} %",
        ]
        for r in results
        for p in r["places"]
    ]
    print()
    show(["program", "ranks' cores", "predicted s", "measured s", "slowest", "error"], rows)
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

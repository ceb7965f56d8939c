"""Commands for recorded runs: demo, replay, compare, strategies, triggers, optimum, report, ..."""

from __future__ import annotations

import argparse
import importlib
import math
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pylb import console, files, optional
from pylb.cli import common
from pylb.cli.common import print_json, progress
from pylb.console import Column, count, seconds, show
from pylb.decide import registry as kinds
from pylb.decide.figures import RECEIPT
from pylb.decide.receipts import Receipt
from pylb.decide.sentences import OWN
from pylb.errors import (
    DomainError,
    FormatError,
    MissingFileError,
    StrategyError,
    UnknownStrategyError,
    unknown,
)
from pylb.io import hdf5, record_file
from pylb.model import checks
from pylb.partitioning import libraries
from pylb.placing import registry
from pylb.replaying.replayed import BASELINES, Optimum, Replay
from pylb.replaying.trace import RunRecord, Trace
from pylb.run import demo as program
from pylb.run import experience as learned
from pylb.run.report import show_lb_steps
from pylb.show import course, efficiency, exports, live, page, served
from pylb.show.comparison import Comparison
from pylb.virtual.comm import MOST_RANKS

# ---- what the commands share: the user's own functions, recorded runs ---------------------------

# A footnote of tables: how their seconds are counted.
COUNTED = (
    "sum over the iterations: measured time, minus the slowest rank's load in the recording, plus "
    "the slowest rank's load in the replay (with vt's files: only the last term)"
)


def _name_and_parameters(text: str) -> tuple[str, dict[str, Any]]:
    """Read a strategy or trigger: a name, or e.g. "periodic every=10"."""
    name, *rest = text.split() or [""]
    path, is_file, function = name.partition(".py:")
    if is_file:
        raise DomainError(f"{name!r}: expected --import {path}.py, and the name {function}")
    out: dict[str, Any] = {}
    for word in rest:
        key, equals, value = word.partition("=")
        if not equals:
            raise DomainError(f"{text!r}: expected a name, and NAME=VALUE for each parameter")
        try:
            out[key] = float(value)
        except ValueError:
            out[key] = value  # text for a user's function; for pylb's strategies, an error
    return name, out


class Functions:
    """Find strategies and triggers by name, also those of the modules that ``--import`` names.

    `strategies` and `triggers` are the names on the command line, which are checked at once.
    """

    def __init__(
        self, imports: Sequence[str], strategies: Sequence[str] = (), triggers: Sequence[str] = ()
    ) -> None:
        self._calls: dict[str, Callable[..., Any]] = {}
        for word in imports:
            self._calls |= {k: v for k, v in _imported(word).items() if callable(v)}
        for text in strategies:
            self.strategy(text)
        for text in triggers:
            self.trigger(text)

    def strategy(self, text: str) -> str | registry.Strategy:
        """Return the strategy for "RefineLB overload=1.1" etc., or a baseline's name unchanged."""
        name, params = _name_and_parameters(text)
        if name in BASELINES and not params:
            return name
        try:
            return registry.strategy(self._calls.get(name, name), **params)
        except UnknownStrategyError:
            known = sorted({"auto", *BASELINES, *registry.strategies()})
            raise UnknownStrategyError(unknown("strategy", name, known)) from None

    def trigger(self, text: str) -> kinds.Trigger:
        """Return the trigger for a text such as "periodic every=10"."""
        name, params = _name_and_parameters(text)
        return kinds.trigger(self._calls.get(name, name), **params)


def _imported(word: str) -> dict[str, Any]:
    """Execute a module, FILE.py or a name, which is also looked for in this folder."""
    common.without_mpi()
    path = Path(word)
    if path.suffix == ".py" and not path.is_file():
        raise MissingFileError(f"--import {path}: there is no such file")
    console.note(f"executing {word}")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        return (
            runpy.run_path(str(path.resolve()))
            if path.suffix == ".py"
            else vars(importlib.import_module(word))
        )
    except (Exception, SystemExit) as why:
        raise StrategyError(f"--import {word} raised {type(why).__name__}: {why}") from why
    finally:
        sys.path.pop(0)


def _read(args: argparse.Namespace) -> RunRecord | Trace:
    """Read the run on the command line; print warnings as notes."""
    with common.noting_warnings():
        return course.read(args.run, args.stem)


def _trace_of(found: RunRecord | Trace) -> Trace:
    """Return the run as a trace; raise FormatError if it has no complete iteration."""
    trace = found.trace if isinstance(found, RunRecord) else found
    if not len(trace):
        raise FormatError("no complete iteration in the run")
    return trace


SCHEDULED = "GreedyLB"  # the default strategy of the commands that compare schedules


class Schedule(NamedTuple):
    """The best schedule of LB steps for a run, and the input for finding it."""

    trace: Trace
    strategy: str | registry.Strategy
    cost: float
    best: Optimum
    recorded: float  # seconds of the recorded run
    own: str  # strategy and trigger of the recorded run, in words

    @classmethod
    def of(cls, args: argparse.Namespace, functions: Functions) -> Schedule:
        found, entry, cost = _read(args), functions.strategy(args.strategy), args.cost
        if cost is None:
            own = [r.cost for r in found.history.lb_steps] if isinstance(found, RunRecord) else []
            if not own:
                raise DomainError(
                    "--cost is not given, and the run has no LB steps: expected --cost"
                )
            cost = sum(own) / len(own)
        trace = _trace_of(found)
        with progress("searching for the best schedule"):
            best = trace.optimum(entry, cost=cost)
        how = found.parameters if isinstance(found, RunRecord) else {}
        words = ", ".join(str(how[k]) for k in ("strategy", "trigger") if how.get(k))
        return cls(trace, entry, cost, best, trace.replay("none").time, words or "unknown")

    @property
    def name(self) -> str:
        return self.strategy if isinstance(self.strategy, str) else self.strategy.name

    def speedup(self, seconds: float) -> float:
        """Return the speed-up, over the recorded run, of a replay that takes `seconds`."""
        return self.recorded / seconds if seconds > 0 else 1.0

    def to_dict(self, run: str) -> dict[str, Any]:
        """Return the keys of ``--json`` that all commands with a schedule share."""
        return {
            "run": run,
            "strategy": self.name,
            "cost": self.cost,
            "bound": self.best.bound,
            "exact": self.best.exact,
            "recorded_seconds": self.recorded,
        }


# ---- demo ---------------------------------------------------------------------------------------


def demo(args: argparse.Namespace) -> int:
    checks.whole("--ranks", args.ranks, 1, "a number of ranks", below=MOST_RANKS + 1)
    common.check_output("--save", args.save, hdf5.SUFFIXES)  # check before the long run
    common.check_output("--html", args.html, (".html",))
    with tempfile.TemporaryDirectory() as folder:
        save = Path(args.save) if args.save else Path(folder, "run.h5")
        how: Any = {"save": save, "report": args.html, **_how(args, Functions([]))}
        with progress("running on virtual ranks"):
            report = program.run(args.ranks, args.objects, args.iterations, **how)
        trace = RunRecord.load(save).trace
    for path in filter(None, (args.save, args.html)):
        console.note(f"wrote {path}")
    steps = report.history.lb_steps
    if args.json:
        told = {**report.to_dict(), "unbalanced_seconds": trace.replay("unbalanced").time}
        told["max_over_mean"] = told.pop("mean_max_over_mean")
        print_json(args, told)
        return 0
    size = (count(args.objects, "object"), count(args.ranks, "virtual rank"))
    moved = f"the hot spot moves, and {count(report.migrations, 'object')} moved with it"
    common.print_text(
        f"{report.verdict}. {' on '.join(size)}, {count(args.iterations, 'iteration')}: {moved}."
    )
    best = max(steps, key=lambda r: 0.0 if math.isnan(r.gain) else r.gain, default=None)
    if best is not None:
        print("\nThe LB step that gained the most time:")
        common.print_text(best.explain())
    return 0


# ---- replay -------------------------------------------------------------------------------------

ONE_PHASE = (
    "the run has one iteration, so an LB step at its end has no effect; --foresight rebalances "
    "before it"
)
OWN_DATA = (
    "the program itself has moved its data, and no replay can undo this: all rows have the loads "
    "of the recorded run"
)
STRATEGIES = ["unbalanced", "auto", "GreedyLB", "RefineLB"]
REPLAYED = (
    Column("strategy", lambda r: "as recorded" if r["strategy"] == "none" else r["strategy"]),
    Column("balance", "trigger"),
    Column("iterations s", "iteration_seconds", COUNTED),
    Column("LB s", "lb_seconds", "of the LB steps, without slow iterations after them", 5),
    Column("speed-up", "speedup", "of (iterations s + LB s), compared with the unbalanced run"),
    Column("max/mean", "max_over_mean", "over all iterations"),
    Column(
        "lending s",
        "lending_saved",
        "that lending would also save, if objects were rows of `share`",
        6,
    ),
    Column("predicted", "max_over_mean_predicted", "max/mean expected after an LB step", 3),
    Column("LBs", "n_lb_steps", "number of LB steps", 4),
    Column("migrations", "migrations", "how often an object changed its rank", 2),
    Column("bytes", lambda r: r["nbytes"] and console.size(r["nbytes"]), "that migrated", 1),
)


def replay(args: argparse.Namespace) -> int:
    names = args.strategy
    if args.unbalanced:
        more = [] if names is STRATEGIES else names
        names = [*BASELINES, *(name for name in more if name not in BASELINES)]
    functions = Functions(args.imports, names, args.trigger or [])
    found = _read(args)
    trace = _trace_of(found)
    if isinstance(found, RunRecord) and any(r.strategy == OWN for r in found.history):
        console.note(OWN_DATA)
    if trace.n_phases == 1 and not args.foresight:
        console.note(ONE_PHASE)
    options = {name: getattr(args, name) for name in ("alpha", "beta", "cost", "foresight", "seed")}
    rows = []
    with progress("replaying") as say:
        unbalanced = trace.replay("unbalanced", **options)
        for name in names:
            say(f"with {name}")
            for when in _when_args(args, name):
                how = {k: functions.trigger(v) if k == "trigger" else v for k, v in when.items()}
                one = trace.replay(functions.strategy(name), **how, **options)
                words = {"strategy": name, "trigger": when.get("trigger", one.trigger or None)}
                rows.append(words | _replayed(one, unbalanced))
    told = {
        "run": args.run,
        "n_ranks": trace.n_ranks,
        "iterations": trace.n_phases,
        "n_objects": trace.n_entities,
        "options": options,
        "rows": rows,
    }
    if not print_json(args, told):
        size = (count(trace.n_phases, "iteration"), count(trace.n_ranks, "rank"))
        show(REPLAYED, rows, title=f"{args.run}: {' on '.join(size)}", drop_empty=True)
    return 0


def _replayed(replay: Replay, unbalanced: Replay) -> dict[str, Any]:
    sizes, predicted = replay.trace.task_bytes, [d.predicted for d in replay.lb_steps]
    return {
        "seconds": replay.time,
        "iteration_seconds": replay.iteration_seconds,
        "lb_seconds": replay.lb_seconds,
        "speedup": replay.speedup_over(unbalanced),
        "max_over_mean": replay.mean_max_over_mean,
        "lending_saved": replay.lending_saved,
        "max_over_mean_predicted": math.fsum(predicted) / len(predicted) if predicted else None,
        "n_lb_steps": len(replay.lb_steps),
        "migrations": replay.migrations,
        "nbytes": replay.nbytes or None if sizes is not None and sizes.any() else None,
    }


def _when_args(args: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """Return the argument `every` or `trigger`, or neither, for each replay of a strategy."""
    if name in BASELINES or (name == "auto" and not (args.every or args.trigger)):
        return [{}]
    every = args.every or ([] if args.trigger else [1])
    return [{"every": n} for n in every] + [{"trigger": one} for one in args.trigger or []]


# ---- strategies, triggers, optimum --------------------------------------------------------------

LISTED = (
    Column("strategy", "name"),
    Column("what it does", lambda s: s["help"] + " (not installed)" * (not s["installed"])),
    Column("family", "family", "comprehensive: from scratch; refinement: moves few objects", 3),
    Column("looks at", lambda s: ", ".join(s["looks_at"]), "what influences the placement", 2),
    Column("source", "source", drop=1),
)
PARAMETERS = (
    Column("strategy", "strategy"),
    Column("parameter", "name"),
    Column("default", "default"),
    Column("min", "least", drop=3),
    Column("max", "most", drop=2),
    Column("unit", "unit", drop=1),
    Column("meaning", "help"),
)


def _described(one: Any, *names: str) -> dict[str, Any]:
    known = {name: getattr(one, name) for name in ("name", "help", "source", *names)}
    return {**known, "params": [param._asdict() for param in one.params]}


def strategies(args: argparse.Namespace) -> int:
    chosen = [registry.find(name, auto=True) for name in args.name] or [
        registry.AUTO,
        *(one for one in registry.strategies().values() if one.name != "none"),
    ]
    rows = [_described(s, "family", "looks_at", "distributed", "library") for s in chosen]
    for row, one in zip(rows, chosen, strict=True):
        row["looks_at"] = row["looks_at"] if one.call is None else ["everything"]
        row["installed"] = one.library is None or libraries.available(one.library)
    if print_json(args, {"strategies": rows}):
        return 0
    show(LISTED, rows)
    params = [{**p, "strategy": row["name"]} for row in rows for p in row["params"]]
    if args.name and params:
        print()
        show(PARAMETERS, params)
    return 0


TRIGGERS = (
    Column("trigger", "name"),
    Column("when it rebalances", "help"),
    Column("source", "source", drop=1),
)
COMPARED = (
    Column("trigger", "trigger"),
    Column("seconds", "seconds", f"{COUNTED}; plus the time of the LB steps"),
    Column("regret", lambda r: f"{100 * r['regret']:.2f} %", "time above the best schedule found"),
    Column("speed-up", "speedup", "over the recorded run", 2),
    Column("LBs", "n_lb_steps", "number of LB steps", 1),
)


def triggers(args: argparse.Namespace) -> int:
    names = args.trigger or list(kinds.triggers())
    functions = Functions(args.imports, [args.strategy], names)
    if args.run is None:
        if args.cost is not None or args.strategy != SCHEDULED:
            raise DomainError("there is no RUN: expected --strategy and --cost only with a run")
        known = kinds.triggers()
        rows = [_described(known[name]) for name in names if name in known]
        if not print_json(args, {"triggers": rows}):
            show(TRIGGERS, rows)
        return 0
    found = Schedule.of(args, functions)
    rows = []
    with progress("replaying with each trigger"):
        for name in sorted(names):
            run = found.trace.replay(
                found.strategy, trigger=functions.trigger(name), cost=found.cost
            )
            rows.append(
                {
                    "trigger": name,
                    "seconds": run.time,
                    "regret": run.regret(found.best),
                    "speedup": found.speedup(run.time),
                    "n_lb_steps": len(run.lb_step_iterations),
                    "lb_step_iterations": run.lb_step_iterations,
                }
            )
    rows.sort(key=lambda row: row["seconds"])
    best = found.best
    told = {**found.to_dict(args.run), "optimum_seconds": best.time, "rows": rows}
    if not print_json(args, told):
        title = (
            f"{args.run}, every trigger with {found.name} and {found.cost:.4g} s per LB step (the "
            f"run itself: {found.own}); best schedule "
            f"{'' if best.exact else 'found '}{best.time:.4g} s with "
            f"{count(len(best.iterations), 'LB step')}, bound {best.bound:.4g} s, "
            f"as recorded {found.recorded:.4g} s"
        )
        show(COMPARED, rows, title=title)
    return 0


def experience(args: argparse.Namespace) -> int:
    entries = learned.read(args.experience)
    rows = [{"program": name, **entry} for name, entry in entries.items()]
    if print_json(args, {"experience": args.experience, "entries": rows}):
        return 0
    show(EXPERIENCE, rows)
    return 0


EXPERIENCE = (
    Column("program", "program"),
    Column("runs", "runs"),
    Column("iterations", "iterations"),
    Column("mean load, s", "mean", "mean load of a rank in an iteration", drop=1),
    Column("cost, s", "cost", "cost of an LB step"),
    Column("left", "residual", "max/mean that LB steps leave"),
    Column("rate, s", "rate", "what imbalance and LB steps cost per iteration", drop=2),
)


def optimum(args: argparse.Namespace) -> int:
    found = Schedule.of(args, Functions(args.imports, [args.strategy]))
    best, speedup = found.best, found.speedup(found.best.time)
    told = {
        **found.to_dict(args.run),
        "seconds": best.time,
        "speedup": speedup,
        "lb_step_iterations": best.iterations,
        "balanced_by": best.strategies,
    }
    if print_json(args, told):
        return 0
    above = best.time / best.bound - 1 if best.bound > 0 else 0.0
    rows = [
        ("strategy", found.name, ""),
        ("cost of an LB step", found.cost, "s"),
        ("best schedule, exact" if best.exact else "best schedule, found", best.time, "s"),
        ("bound of all schedules", best.bound, "s"),
        ("above the bound", f"{100 * above:.2f} %", ""),
        ("as recorded", found.recorded, "s"),
        ("speed-up", speedup, ""),
        ("LB steps", len(best.iterations), ""),
        ("after iterations", " ".join(map(str, best.iterations.tolist())), ""),
    ]
    show(["", "", ""], rows, title=args.run)
    common.print_text(f"seconds: {COUNTED}; plus the time of the LB steps")
    return 0


# ---- compare ------------------------------------------------------------------------------------

STEP = [f for f in RECEIPT if f.name in ("strategy", "cost", "gain", "migrations")]


def compare(args: argparse.Namespace) -> int:
    with common.noting_warnings():
        both = Comparison(*(course.of(path) for path in (args.first, args.second)))
    for doubt in both.doubts():
        console.note(f"the runs differ: {doubt}")
    if print_json(args, {"first": args.first, "second": args.second, **both.to_dict()}):
        return 0
    # The end of each path, just long enough to distinguish the two paths.
    first, second = Path(args.first).parts, Path(args.second).parts
    n = next(
        (n for n in range(1, max(len(first), len(second)) + 1) if first[-n:] != second[-n:]), 1
    )
    a, b = "/".join(first[-n:]), "/".join(second[-n:])
    title = f"{b} took {_times(both.speedup)} {a}"
    show(["", a, b, Column("difference", drop=1)], both.rows(), title=title)
    for name, run in ((a, both.first), (b, both.second)):
        common.print_text(f"{name}: {run.verdict}.")
    print()
    rows = [[i, *_cells(one), *_cells(other)] for i, one, other in both.steps()]
    if not rows:
        print("Neither run had an LB step.")
        return 0
    figures = [Column(f.heading, None, f.note, f.name == "migrations") for f in STEP[1:]]
    show(["after iteration", f"{a}:", *figures, f"{b}:", *figures], rows, title="LB steps")
    return 0


def _times(speedup: float) -> str:
    if 0.995 < speedup < 1.005:
        return "as long as"
    longer = speedup < 1
    percent = 100 * (1 / speedup - 1 if longer else 1 - 1 / speedup)
    return f"{percent:.3g} % {'longer' if longer else 'less time'} than"


def _cells(step: Receipt | None) -> list[Any]:
    return [None if step is None else f.cell(f.of(step)) for f in STEP]


# ---- report, convert ----------------------------------------------------------------------------

MOST_REGIONS = 4  # lines of the table on the terminal
EFFICIENCIES = (
    Column("region", "name", "Global is the whole run, including the time between iterations"),
    Column("seconds", "elapsed"),
    Column("parallel efficiency", "parallel_efficiency", "load balance * communication"),
    Column("load balance", "load_balance", "mean / maximum of the ranks' computing times", 2),
    Column("communication", "communication_efficiency", "maximum computing / elapsed time", 1),
)


def report(args: argparse.Namespace) -> int:
    common.check_targets(args.run, args.html, args.chrome)
    common.check_output("--html", args.html, (".html",))
    is_page = args.html is not None or not (args.csv or args.chrome or args.json)
    page.check_used(is_page, **{"--names": args.names, "--coords": args.coords})
    found: Any = _replay_shown(args) if args.strategy else _read(args)
    for word, value in (("every", args.every), ("trigger", args.trigger), ("import", args.imports)):
        if value and not args.strategy:
            raise DomainError(f"--{word} without --strategy: expected both or neither")
    stem = Path(args.run).resolve()
    names = {k: str(v) for k, v in (_by_key(args.names, "names") or {}).items()}
    coords = _by_key(args.coords, "coordinates")
    shown = course.of(found, title=args.title or stem.name, names=names, coords=coords)
    written = [] if args.csv is None else exports.write_tables(shown, args.csv)
    if args.chrome is not None:
        written.append(exports.write_timeline(shown, args.chrome))
    if is_page:
        written.append(page.write(shown, args.html or f"{stem.stem}.html"))
    for path in written:
        console.note(f"wrote {path}")
    if args.json:
        print(console.json_text(efficiency.talp(shown), indent=2))  # the keys are TALP's
        return 0
    common.print_text(f"{shown.verdict}.")
    show_lb_steps(shown.history, sys.stdout)
    print()
    if waited := shown.of_rank_0.get("waited"):
        said = f"Rank 0 waited {seconds(waited)} for a core, which lowers these efficiencies:"
        common.print_text(said)
    regions = [region._asdict() for region in efficiency.regions(shown)]
    show(EFFICIENCIES, regions[:MOST_REGIONS])
    if len(regions) > MOST_REGIONS:
        more = count(len(regions) - MOST_REGIONS, "further region")
        common.print_text(f"{more}: on the page, or by --json")
    return 0


def _replay_shown(args: argparse.Namespace) -> Replay:
    how = _how(args, Functions(args.imports))
    return _trace_of(_read(args)).replay(**how)


def _how(args: argparse.Namespace, functions: Functions) -> dict[str, Any]:
    """Return the arguments `strategy`, `every` and `trigger` of the command line."""
    out: dict[str, Any] = {"strategy": functions.strategy(args.strategy)}
    if args.every is not None:
        out["every"] = args.every
    if args.trigger is not None:
        out["trigger"] = functions.trigger(args.trigger)
    return out


def _by_key(path: str | None, what: str) -> dict[int, Any] | None:
    if path is None:
        return None
    with files.understood(path, f"a JSON object of {what} by key"):
        return {int(k): v for k, v in files.json_of(path).items()}


FORMATS = {"h5": "run record", "vt": "LBDatafile", "chrome": "Chrome trace", "csv": "tables"}


def convert(args: argparse.Namespace) -> int:
    target = Path(args.target)
    by_suffix = {**dict.fromkeys(hdf5.SUFFIXES, "h5"), ".json": "chrome"}
    kind = args.to or by_suffix.get(target.suffix)
    if kind is None:
        raise DomainError(
            f"target is {args.target!r}: expected a suffix {', '.join(hdf5.SUFFIXES)} or .json, or "
            f"--to with {', '.join(FORMATS)}"
        )
    if args.compress and kind != "vt":
        raise DomainError(f"--compress is for --to vt only, but the format is {FORMATS[kind]}")
    common.check_targets(args.run, args.target)
    found = _read(args)
    written = list(map(str, _written(found, target, kind, args)))
    if not print_json(args, {"run": args.run, "format": kind, "written": written}):
        console.note(f"wrote {count(len(written), 'file')}")
        print("\n".join(written))
    return 0


def _written(
    found: RunRecord | Trace, target: Path, kind: str, args: argparse.Namespace
) -> list[Path]:
    if kind == "vt":
        return _trace_of(found).save(target, compress=args.compress)
    if kind == "h5":
        record_file.write(RunRecord.of(found) if isinstance(found, Trace) else found, target)
        return [target]
    shown = course.of(found, title=Path(args.run).resolve().name)
    return (
        exports.write_tables(shown, target)
        if kind == "csv"
        else [exports.write_timeline(shown, target)]
    )


# ---- watch --------------------------------------------------------------------------------------


def watch(args: argparse.Namespace) -> int:
    if not 0.05 <= args.interval <= 3600:
        raise DomainError(f"--interval is {args.interval}: expected seconds, 0.05 ... 3600")
    if args.serve is not None and not 0 <= args.serve < 2**16:
        raise DomainError(f"--serve is {args.serve}: expected a port, 0 ... 65535")
    if os.path.isdir(args.run):
        raise DomainError(f"{args.run} is a folder: expected the file that a program writes")
    if (
        os.path.exists(args.run)
        and os.path.getsize(args.run)
        and not record_file.is_record(args.run)
    ):
        raise DomainError(f"{args.run} is not a run record: expected a file that a program writes")
    if args.serve is not None and (args.once or args.json):
        raise DomainError("--serve with --once or --json: expected only one of them")
    try:
        if args.serve is not None:
            share = served.SHARE[served.step_back()]
            with served.Server(args.run, args.serve, args.interval, share) as server:
                print(f"{args.run}: {server.address}", flush=True)
                server.serve_forever()
        elif args.json or args.once or not sys.stdout.isatty():
            for now in _news(args):
                if args.json:
                    print(console.json_text(common.answer(args, now)), flush=True)
                else:
                    lines = live.lines(now, console.width_of(sys.stdout))
                    print(*lines, "", sep="\n", flush=True)
        else:
            _live(args)
    except KeyboardInterrupt:
        if args.once:
            raise
    return 0


def _news(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the state of the run whenever the file has changed; with ``--once``, only now."""
    seen = None
    while True:
        try:
            stat = os.stat(args.run)
            changed = (stat.st_mtime_ns, stat.st_size) != seen
            seen = (stat.st_mtime_ns, stat.st_size)
            if changed:
                yield live.state(course.of(RunRecord.load(args.run)))
        except (FileNotFoundError, DomainError, FormatError):
            if args.once:
                raise
            # The file is missing, or being written, or has no complete iteration yet.
        if args.once:
            return
        time.sleep(args.interval)


def _live(args: argparse.Namespace) -> None:
    optional.require("rich")
    from rich.live import Live
    from rich.text import Text

    with Live(Text(f"{args.run}: nothing yet"), refresh_per_second=4) as shown:
        for now in _news(args):
            first, *rest = live.lines(now, *shown.console.size)
            shown.update(Text.assemble((first, "bold"), "\n", "\n".join(rest)))

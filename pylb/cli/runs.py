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
from typing import Any

from pylb import console, files, optional
from pylb.cli import common
from pylb.cli.common import JSON, arg, command, print_json, progress
from pylb.console import Column, count, seconds, show
from pylb.decide import registry as kinds
from pylb.decide.figures import RECEIPT
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

# ---- what the commands share: arguments, the user's own functions, recorded runs ----------------

RECORD = "a run record (.h5, or .json by pylb's C library), or vt's files: the folder or one file"
STEM = arg("--stem", "read the run STEM.RANK.json if the folder has several runs")
RUN = (arg("run RUN", RECORD), STEM)
IMPORT = arg(
    "--import MODULE",
    "a Python module, a name or FILE.py, to execute first: --strategy and --trigger can then name "
    "its functions",
    dest="imports",
    **common.REPEATED,
)
NAMED = "a name that pylb strategies lists; with parameters: 'RefineLB overload=1.1'"
SCHEDULED = "GreedyLB"  # the default strategy of the commands that compare schedules
SCHEDULE = (
    arg("--strategy", NAMED, default=SCHEDULED),
    IMPORT,
    arg("--cost", "seconds of an LB step (default: the mean of the run's own LB steps)", float),
)
EVERY = arg("--every", "iterations from one LB step to the next", int)
TRIGGER = arg("--trigger", "when to rebalance: name of a trigger (default: auto)")

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
    """Find strategies and triggers by name, also of ``--import``; check those given at once."""

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


def _best(args: argparse.Namespace, functions: Functions) -> tuple[Any, Optimum, dict[str, Any]]:
    """Return the run, its best schedule of LB steps, and keys of ``--json`` about both."""
    found, entry, cost = _read(args), functions.strategy(args.strategy), args.cost
    if cost is None:
        own = [r.cost for r in found.history.lb_steps] if isinstance(found, RunRecord) else []
        if not own:
            raise DomainError("--cost is not given, and the run has no LB steps: expected --cost")
        cost = sum(own) / len(own)
    trace = _trace_of(found)
    with progress("searching for the best schedule"):
        best = trace.optimum(entry, cost=cost)
    told = {
        "run": args.run,
        "strategy": entry if isinstance(entry, str) else entry.name,
        "cost": cost,
        "bound": best.bound,
        "exact": best.exact,
        "recorded_seconds": trace.replay("none").time,
    }
    return found, best, told


def _speedup(told: dict[str, Any], seconds: float) -> float:
    return told["recorded_seconds"] / seconds if seconds > 0 else 1.0


# ---- demo ---------------------------------------------------------------------------------------


@command(
    "run a small program that balances itself on virtual ranks, and show what it gains",
    arg("--ranks", "number of virtual ranks", int, 8),
    arg("--objects", "number of objects", int, 128),
    arg("--iterations", "number of iterations", int, 200),
    arg("--strategy", NAMED, default="auto"),
    EVERY,
    TRIGGER,
    arg("--save FILE", "write the run record (.h5)"),
    arg("--html FILE", "write the report as a page (.html)"),
    JSON,
)
def demo(args: argparse.Namespace) -> None:
    """pylb demo
    pylb demo --save run.h5 --html run.html    (to look at it: pylb report run.h5, pylb.explore)
    pylb demo --ranks 32 --objects 256 --strategy RefineLB --every 10
    pylb demo --json
    """
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
        return
    size = (count(args.objects, "object"), count(args.ranks, "virtual rank"))
    moved = f"the hot spot moves, and {count(report.migrations, 'object')} moved with it"
    common.print_text(
        f"{report.verdict}. {' on '.join(size)}, {count(args.iterations, 'iteration')}: {moved}."
    )
    best = max(steps, key=lambda r: 0.0 if math.isnan(r.gain) else r.gain, default=None)
    if best is not None:
        print("\nThe LB step that gained the most time:")
        common.print_text(best.explain())


# ---- replay -------------------------------------------------------------------------------------

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


@command(
    "replay a recorded run under other placements",
    *RUN,
    arg(
        "--strategy A,B,...",
        "strategies of 'pylb strategies', or auto, unbalanced, none (as recorded) "
        f"(default: {','.join(STRATEGIES)})",
        common.words,
        STRATEGIES,
    ),
    IMPORT,
    arg("--unbalanced", "replay none and unbalanced, before those of --strategy", bool),
    arg("--every N,M,...", "iterations per LB step (default: 1 without --trigger)", common.counts),
    arg("--trigger A,B,...", "triggers by name", common.words),
    arg("--foresight", "rebalance before each phase, with the loads of this phase", bool),
    arg("--cost", "seconds of an LB step (default: as recorded, else as modelled)", float),
    *common.PRICES,
    arg("--seed", "seed for strategies that draw random numbers", int, 0),
    JSON,
)
def replay(args: argparse.Namespace) -> None:
    """pylb replay run/
    pylb replay run.h5 --strategy RefineLB --trigger auto,boulmier --cost 0.1
    pylb replay run/ --strategy unbalanced,GreedyLB,RefineLB --every 1,5
    pylb replay run/ --trigger metabalancer --cost 0.2 --json
    pylb replay run/ --strategy 'RefineLB,RefineLB overload=1.1' --trigger 'zhai reference=2'
    pylb replay run.h5 --unbalanced            (what rebalancing has saved in this run)
    pylb replay run/ --import mine.py --strategy my_strategy --foresight

    more strategies: auto chooses a strategy for each LB step and, by default, also when to
    rebalance; unbalanced leaves every object on its first rank; none repeats the recorded
    placements and LB steps
    """
    names = args.strategy
    if args.unbalanced:
        names = list(dict.fromkeys((*BASELINES, *(() if names is STRATEGIES else names))))
    functions = Functions(args.imports, names, args.trigger or [])
    found = _read(args)
    trace = _trace_of(found)
    if isinstance(found, RunRecord) and any(r.strategy == OWN for r in found.history):
        console.note(
            "the program itself has moved its data, and no replay can undo this: all rows have the "
            "loads of the recorded run"
        )
    if trace.n_phases == 1 and not args.foresight:
        console.note(
            "the run has one iteration, so an LB step at its end has no effect; --foresight "
            "rebalances before it"
        )
    options, rows = common.fields(args, "alpha beta cost foresight seed"), []
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


def _replayed(replay: Replay, unbalanced: Replay) -> dict[str, Any]:
    sizes, predicted = replay.trace.task_bytes, [d.predicted for d in replay.lb_steps]
    return {
        "seconds": replay.time,
        **common.fields(replay, "iteration_seconds lb_seconds lending_saved migrations"),
        "speedup": replay.speedup_over(unbalanced),
        "max_over_mean": replay.mean_max_over_mean,
        "max_over_mean_predicted": math.fsum(predicted) / len(predicted) if predicted else None,
        "n_lb_steps": len(replay.lb_steps),
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


def _described(one: Any, more: str = "") -> dict[str, Any]:
    known = common.fields(one, f"name help source {more}")
    return {**known, "params": [param._asdict() for param in one.params]}


@command(
    "list the strategies, or show the parameters of some",
    arg("name NAME", "only these strategies (default: all)", nargs="*"),
    JSON,
)
def strategies(args: argparse.Namespace) -> None:
    """pylb strategies
    pylb strategies RefineLB GossipLB          (with their parameters)
    pylb strategies --json
    """
    chosen = [registry.find(name, auto=True) for name in args.name] or [
        registry.AUTO,
        *(one for one in registry.strategies().values() if one.name != "none"),
    ]
    rows = [_described(s, "family looks_at distributed library") for s in chosen]
    for row, one in zip(rows, chosen, strict=True):
        row["looks_at"] = row["looks_at"] if one.call is None else ["everything"]
        row["installed"] = one.library is None or libraries.available(one.library)
    if print_json(args, {"strategies": rows}):
        return
    show(LISTED, rows)
    params = [{**p, "strategy": row["name"]} for row in rows for p in row["params"]]
    if args.name and params:
        print()
        show(PARAMETERS, params)


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


@command(
    "list the triggers, or compare them with the best schedule found for a recorded run",
    arg("run RUN", RECORD, nargs="?"),
    STEM,
    arg("--trigger A,B,...", "only these triggers (default: all)", common.words),
    *SCHEDULE,
    JSON,
)
def triggers(args: argparse.Namespace) -> None:
    """pylb triggers
    pylb triggers run/ --strategy GreedyLB --cost 0.05
    pylb triggers run.h5 --trigger auto,boulmier,metabalancer --json
    """
    names = args.trigger or list(kinds.triggers())
    functions = Functions(args.imports, [args.strategy], names)
    if args.run is None:
        if args.cost is not None or args.strategy != SCHEDULED:
            raise DomainError("there is no RUN: expected --strategy and --cost only with a run")
        known = kinds.triggers()
        rows = [_described(known[name]) for name in names if name in known]
        if not print_json(args, {"triggers": rows}):
            show(TRIGGERS, rows)
        return
    found, best, told = _best(args, functions)
    trace, entry, rows = _trace_of(found), functions.strategy(args.strategy), []
    with progress("replaying with each trigger"):
        for name in sorted(names):
            run = trace.replay(entry, trigger=functions.trigger(name), cost=told["cost"])
            rows.append(
                {
                    "trigger": name,
                    "seconds": run.time,
                    "regret": run.regret(best),
                    "speedup": _speedup(told, run.time),
                    "n_lb_steps": len(run.lb_step_iterations),
                    "lb_step_iterations": run.lb_step_iterations,
                }
            )
    rows.sort(key=lambda row: row["seconds"])
    if not print_json(args, {**told, "optimum_seconds": best.time, "rows": rows}):
        how = found.parameters if isinstance(found, RunRecord) else {}
        own = ", ".join(str(how[k]) for k in ("strategy", "trigger") if how.get(k))
        title = (
            f"{args.run}, every trigger with {told['strategy']} and {told['cost']:.4g} s per LB "
            f"step (the run itself: {own or 'unknown'}); best schedule "
            f"{'' if best.exact else 'found '}{best.time:.4g} s with "
            f"{count(len(best.iterations), 'LB step')}, bound {best.bound:.4g} s, "
            f"as recorded {told['recorded_seconds']:.4g} s"
        )
        show(COMPARED, rows, title=title)


@command(
    "show what the runs of programs have learned: the file of experience=path",
    arg("experience FILE", "the file"),
    JSON,
)
def experience(args: argparse.Namespace) -> None:
    """pylb experience app.pylb
    pylb experience app.pylb --json
    """
    entries = learned.read(args.experience)
    rows = [{"program": name, **entry} for name, entry in entries.items()]
    columns = (
        Column("program", "program"),
        Column("runs", "runs"),
        Column("iterations", "iterations"),
        Column("mean load, s", "mean", "mean load of a rank in an iteration", drop=1),
        Column("cost, s", "cost", "cost of an LB step"),
        Column("left", "residual", "max/mean that LB steps leave"),
        Column("rate, s", "rate", "what imbalance and LB steps cost per iteration", drop=2),
    )
    if not print_json(args, {"experience": args.experience, "entries": rows}):
        show(columns, rows)


@command("find the best schedule of LB steps for a recorded run", *RUN, *SCHEDULE, JSON)
def optimum(args: argparse.Namespace) -> None:
    """pylb optimum run/ --cost 0.05
    pylb optimum run.h5 --strategy RefineLB --json

    "exact" means the best of all 2^(m-1) schedules for m iterations; "found" means the best
    schedule that the search found.  No schedule takes less time than the bound.  A trigger cannot
    know the best schedule in advance; pylb triggers RUN shows how much time each trigger loses.
    """
    _, best, told = _best(args, Functions(args.imports, [args.strategy]))
    told |= {
        "seconds": best.time,
        "speedup": _speedup(told, best.time),
        "lb_step_iterations": best.iterations,
        "balanced_by": best.strategies,
    }
    if print_json(args, told):
        return
    above = best.time / best.bound - 1 if best.bound > 0 else 0.0
    rows = [
        ("strategy", told["strategy"], ""),
        ("cost of an LB step", told["cost"], "s"),
        ("best schedule, exact" if best.exact else "best schedule, found", best.time, "s"),
        ("bound of all schedules", best.bound, "s"),
        ("above the bound", f"{100 * above:.2f} %", ""),
        ("as recorded", told["recorded_seconds"], "s"),
        ("speed-up", told["speedup"], ""),
        ("LB steps", len(best.iterations), ""),
        ("after iterations", " ".join(map(str, best.iterations.tolist())), ""),
    ]
    show(["", "", ""], rows, title=args.run)
    common.print_text(f"seconds: {COUNTED}; plus the time of the LB steps")


# ---- compare ------------------------------------------------------------------------------------

STEP = [f for f in RECEIPT if f.name in ("strategy", "cost", "gain", "migrations")]


@command(
    "compare two recorded runs: where their time went, and their LB steps",
    arg("first A", RECORD),
    arg("second B", "another run"),
    JSON,
)
def compare(args: argparse.Namespace) -> None:
    """pylb demo --save auto.h5
    pylb demo --every 10 --strategy RefineLB --save every10.h5
    pylb compare auto.h5 every10.h5
    pylb compare auto.h5 every10.h5 --json
    """
    with common.noting_warnings():
        both = Comparison(*(course.of(path) for path in (args.first, args.second)))
    for doubt in both.doubts():
        console.note(f"the runs differ: {doubt}")
    if print_json(args, {"first": args.first, "second": args.second, **both.to_dict()}):
        return
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
    rows = [
        [i, *(None if r is None else f.cell(f.of(r)) for r in (one, other) for f in STEP)]
        for i, one, other in both.steps()
    ]
    if not rows:
        print("Neither run had an LB step.")
        return
    figures = [Column(f.heading, None, f.note, f.name == "migrations") for f in STEP[1:]]
    show(["after iteration", f"{a}:", *figures, f"{b}:", *figures], rows, title="LB steps")


def _times(speedup: float) -> str:
    more = 1 / speedup - 1
    if 0.995 < speedup < 1.005:
        return "as long as"
    return f"{100 * abs(more):.3g} % {'longer' if more > 0 else 'less time'} than"


# ---- report, convert ----------------------------------------------------------------------------

MOST_REGIONS = 4  # lines of the table on the terminal
EFFICIENCIES = (
    Column("region", "name", "Global is the whole run, including the time between iterations"),
    Column("seconds", "elapsed"),
    Column("parallel efficiency", "parallel_efficiency", "load balance * communication"),
    Column("load balance", "load_balance", "mean / maximum of the ranks' computing times", 2),
    Column("communication", "communication_efficiency", "maximum computing / elapsed time", 1),
)


@command(
    "show a recorded run: an interactive page, efficiencies, tables, a timeline",
    *RUN,
    arg("-o, --html FILE", "write the page (if nothing else is written: RUN.html)"),
    arg("--csv FOLDER", "write tables of comma-separated values"),
    arg("--chrome FILE", "write a Chrome trace, for Perfetto"),
    arg("--json", "print the efficiencies in the JSON format of TALP", bool),
    arg("--title", "title of the page (default: the file's name)"),
    arg("--names FILE", 'names of the objects, a JSON file: {"KEY": "name", ...}'),
    arg("--coords FILE", 'positions of the objects, a JSON file: {"KEY": [x, y, z], ...}'),
    arg("--strategy", "replay the run with this strategy, and show the replay"),
    IMPORT,
    EVERY,
    TRIGGER,
)
def report(args: argparse.Namespace) -> None:
    """pylb report run.h5                         (writes run.html)
    pylb report run.h5 --html page.html --title 'Monday, 64 nodes'
    pylb report run/ --strategy RefineLB --every 10 --html refined.html
    pylb report run.h5 --json                  (efficiencies of the run, in the format of TALP)
    pylb report run.h5 --csv tables/ --chrome run.json    (run.json opens in ui.perfetto.dev)

    A truncated run record is shown up to its last complete iteration.
    """
    common.check_targets(args.run, args.html, args.chrome)
    common.check_output("--html", args.html, (".html",))
    is_page = args.html is not None or not (args.csv or args.chrome or args.json)
    page.check_used(is_page, **{"--names": args.names, "--coords": args.coords})
    how = _how(args, Functions(args.imports)) if args.strategy else None
    found: Any = _read(args)
    if how is not None:
        found = _trace_of(found).replay(**how)
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
        return
    common.print_text(f"{shown.verdict}.")
    show_lb_steps(shown.history, sys.stdout)
    print()
    if waited := shown.parameters.get("waited"):
        said = f"Rank 0 waited {seconds(waited)} for a core, which lowers these efficiencies:"
        common.print_text(said)
    regions = efficiency.regions(shown)
    show(EFFICIENCIES, regions[:MOST_REGIONS])
    if len(regions) > MOST_REGIONS:
        more = count(len(regions) - MOST_REGIONS, "further region")
        common.print_text(f"{more}: on the page, or by --json")


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


@command(
    "convert a run: pylb's HDF5, vt's LBDatafile JSON, Chrome trace, CSV",
    *RUN,
    arg("target TARGET", "file or folder to write"),
    arg("--to", "format (default: by TARGET's suffix)", choices=FORMATS),
    arg("--compress", "compress vt's files by Brotli", bool),
    JSON,
)
def convert(args: argparse.Namespace) -> None:
    """pylb convert run/ run.h5                   (vt's files into a run record)
    pylb convert run.h5 vt/ --to vt            (for LBAF and vt-tv; --compress: with Brotli)
    pylb convert run.h5 run.json               (a Chrome trace, for ui.perfetto.dev)
    pylb convert run.h5 tables/ --to csv

    Without --to, the suffix of TARGET decides (.h5, .hdf5: run record; .json: Chrome trace).  Only
    a run record keeps complete receipts.
    """
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
    found, written = _read(args), [target]
    title = Path(args.run).resolve().name
    if kind == "vt":
        written = _trace_of(found).save(target, compress=args.compress)
    elif kind == "h5":
        record_file.write(RunRecord.of(found) if isinstance(found, Trace) else found, target)
    elif kind == "csv":
        written = exports.write_tables(course.of(found, title=title), target)
    else:
        exports.write_timeline(course.of(found, title=title), target)
    names = list(map(str, written))
    if not print_json(args, {"run": args.run, "format": kind, "written": names}):
        console.note(f"wrote {count(len(names), 'file')}")
        print("\n".join(names))


# ---- watch --------------------------------------------------------------------------------------


@command(
    "watch a run while its program writes it (Balancer(record='run.h5'))",
    arg("run FILE", "the file that the program writes"),
    arg("--interval", "seconds between two checks of the file", float, 1.0),
    arg("--once", "show the present state once", bool),
    arg("--serve PORT", "serve a page on this host (PORT: any)", int, nargs="?", const=0),
    arg("--json", "print JSON, one object per line", bool),
)
def watch(args: argparse.Namespace) -> None:
    """pylb watch run.h5
    pylb watch run.h5 --serve                  (a page for a browser on this host)
    pylb watch run.h5 --once                   (the present state, once)
    pylb watch run.h5 --json --interval 5      (a line of JSON whenever the file changes)

    Ctrl-C ends the command.  The program writes after 64 iterations or a second, whichever is
    earlier.
    """
    live.check_interval("--interval", args.interval)
    if args.serve is not None and not 0 <= args.serve < 2**16:
        raise DomainError(f"--serve is {args.serve}: expected a port, 0 ... 65535")
    there = os.path.exists(args.run) and os.path.getsize(args.run)
    if there and not record_file.is_record(args.run):  # a folder, or another file
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
                    print(common.answer(args, now), flush=True)
                else:
                    lines = live.lines(now, console.width_of(sys.stdout))
                    print(*lines, "", sep="\n", flush=True)
        else:
            optional.require("rich")
            from rich.live import Live
            from rich.text import Text

            with Live(Text(f"{args.run}: nothing yet"), refresh_per_second=4) as shown:
                for now in _news(args):
                    first, *rest = live.lines(now, *shown.console.size)
                    shown.update(Text.assemble((first, "bold"), "\n", "\n".join(rest)))
    except KeyboardInterrupt:
        if args.once:
            raise


def _news(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the state of the run whenever the file has changed; with ``--once``, only now."""
    seen = ""
    while True:
        try:
            before, seen = seen, served.state_of(args.run)
            if seen != before:
                yield live.state(course.of(RunRecord.load(args.run)))
        except served.NOT_YET:
            if args.once:
                raise
        if args.once:
            return
        time.sleep(args.interval)

"""The figures of Menon 2012, chapter 2, reproduced: the effect of each strategy on three programs.

    python benchmarks/chapter2.py [--only 2.3] [--quick] [--out out]

Figure 2.1 has leanmd on 3, 5, 6 and 7 ranks under RefineLB and RefineSwapLB, for a drop in its
vapour and, as in the thesis, for a box full of liquid.  A rank counts as overloaded above 1.003
times the average (the default of both strategies), or above the average itself; in the second case
RefineLB sooner or later finds no object that fits.  The load of an object is its median in a run on
one rank.  The time of a step is that of the most loaded rank.  Then the program itself runs on
virtual ranks, with an LB step every 10 steps.

Figure 2.2 has multizone, the zones of BT-MZ: class C on 32 and 64 ranks, class D on 128 and 256.
The load of a zone is measured, and varies by 1 % between measurements.  A run of 5,000 steps with
an LB step every 1,000 is replayed; its time includes the steps, the strategy and the migrations.
Then the program itself, class B, runs on 16 virtual ranks with an LB step every 5 steps.

Figure 2.3 has lbtest on 64 to 512 ranks.  Each rank has 16 objects, with loads from 0.2 to 1.8 ms
and messages from 1 to 8 KiB to each neighbour, on a three-dimensional torus and on a random graph
of mean degree 6.

The cost of messages (Menon eq. 3.6): a message to another rank takes alpha, plus beta for each
byte, and is added to the load of its sender.  A migration costs the same; all ranks migrate at the
same time, so the total is divided by their number.  See NETWORK.  Strategies with parameters for
alpha and beta (CommAwareRefineLB, RefineCommLB) get them.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from common import cases
from common.figures import check, figure_arguments, picture, save
from common.quality import quality

import pylb
from pylb.console import show

import leanmd  # isort: skip
import lbtest  # isort: skip
import multizone  # isort: skip
from flow import Zone  # isort: skip
from lennardjones import Fluid  # isort: skip

# Seconds per message and per byte.  For figure 2.2, those of an older InfiniBand; for figure 2.3,
# those of Blue Gene/P with the overhead of a runtime, as in the thesis.
NETWORK = {"2.2": (4e-6, 1 / 1.2e9), "2.3": (10e-6, 1 / 375e6)}
COMPREHENSIVE = ("GreedyLB", "MetisLB", "ScotchLB", "ZoltanLB")
PARTITIONERS = ("MetisLB", "ScotchLB", "ScotchRefineLB", "ZoltanLB")


def strategies(*wanted: str) -> list[str]:
    """Return the wanted strategies (default: all), without those that cannot run here."""
    known = [name for name, strategy in pylb.strategies().items() if can_run(strategy)]
    return [name for name in wanted or known if name in known]


def can_run(strategy: pylb.placing.Strategy) -> bool:
    """Say whether a strategy can run here: its library is installed, and it needs no positions."""
    library = strategy.library
    has = library is None or pylb.partitioning.libraries.available(library)
    return has and "coords" not in strategy.looks_at


# ---- figure 2.1 ------------------------------------------------------------------------------


SYSTEMS = {"drop": 0.3, "liquid": 1.0}  # radius of the drop in lengths of the box
OVERLOADS = (1.003, 1.0)  # a rank is overloaded above this multiple of the average
ALIKE = 1e-4  # a difference below this fraction of the average is chance


def leanmd_snapshot(fluid: Fluid, radius: float, steps: int) -> pylb.Snapshot:
    """Return the objects of leanmd, with the medians of their loads in a run on one rank."""
    seen: list[pylb.Snapshot] = []

    def look(snapshot: pylb.Snapshot) -> np.ndarray:
        seen.append(snapshot)
        return snapshot.rank

    atoms = fluid.drop(radius=radius)
    leanmd.solve(None, fluid, atoms, steps, strategy=look, every=2, clock="cpu")
    load = np.median([snapshot.load for snapshot in seen], axis=0)
    return dataclasses.replace(seen[-1], load=load)


def figure_21(quick: bool, verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measure and print the time of a step of leanmd under each strategy."""
    fluid, rows = Fluid(3), []
    for system, radius in SYSTEMS.items():
        whole = leanmd_snapshot(fluid, radius, 20 if quick else 60)
        for p, overload in itertools.product((3, 5, 6, 7), OVERLOADS):
            rank = cases.fluid_ranks(fluid, p)
            snapshot = dataclasses.replace(whole, rank=rank, n_ranks=p)
            before = snapshot.metrics
            row = {"system": system, "ranks": p, "overload": overload, "mean": before.mean}
            row["none"] = {"seconds": before.max, "migrations": 0}
            for name in strategies("RefineLB", "RefineSwapLB"):
                plan = pylb.place(snapshot, pylb.strategy(name, overload=overload))
                row[name] = {"seconds": plan.after.max, "migrations": plan.migrations}
            rows.append(row)
    print_21(rows, fluid.n_objects)
    for r in rows:
        if "RefineSwapLB" in r:
            refine, swap = (r[name]["seconds"] for name in ("RefineLB", "RefineSwapLB"))
            stuck = refine > r["overload"] * r["mean"] * (1 + ALIKE)
            text = f"{r['system']}, {r['ranks']} ranks, {r['overload']}: RefineSwapLB at "
            text += f"{swap / refine:.5f} of RefineLB{', which is stuck' if stuck else ''}"
            check(text, swap < refine if stuck else swap <= refine * (1 + ALIKE), verdicts)
    return rows


def run_21(quick: bool, verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run leanmd itself on virtual ranks, and print the time of a step after the first LB step."""
    fluid, rows = Fluid(3), []
    atoms = fluid.drop()
    for p in (3,) if quick else (3, 5, 6, 7):
        for name in strategies("none", "RefineLB", "RefineSwapLB"):
            made = on_virtual_ranks(p, name, 10, leanmd.solve, fluid, atoms, 40)
            rows.append({"ranks": p, "strategy": name, **made})
    print_runs("Figure 2.1: leanmd on virtual ranks, a drop, 40 steps", rows, verdicts)
    return rows


def on_virtual_ranks(p: int, strategy: str, every: int, solve: Any, *args: Any) -> dict[str, Any]:
    """Run a program of examples/ on p virtual ranks; return medians after the first LB step."""
    cluster = pylb.VirtualCluster(p)
    way = {"mode": "off"} if strategy == "none" else {"strategy": strategy, "every": every}
    run = cluster.run(lambda comm: solve(comm, *args, clock="cpu", **way))[0]
    of = run.metrics
    return {
        "step": float(np.median(of.time[every:])),
        "max": float(np.median(of.max[every:])),
        "mean": float(np.median(of.mean[every:])),
        "migrations": run.report.migrations,
        "fingerprint": run.fingerprint,
    }


def print_runs(title: str, rows: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> None:
    """Print a row for each strategy and number of ranks; all runs must give the same result."""
    shown = []
    for r in rows:
        base = next(o for o in rows if o["ranks"] == r["ranks"] and o["strategy"] == "none")
        milliseconds = [f"{1e3 * r[name]:.3f}" for name in ("step", "max", "mean")]
        ratio = f"{base['step'] / r['step']:.3f}"
        shown.append([r["ranks"], r["strategy"], *milliseconds, ratio, r["migrations"]])
    head = ["ranks", "strategy", "ms a step", "max load", "mean load", "speed-up", "migrations"]
    show(head, shown, title=title)
    same = len({r["fingerprint"] for r in rows}) == 1
    check(f"{title}: the results are the same to the last bit", same, verdicts)
    print()


def print_21(rows: list[dict[str, Any]], objects: int) -> None:
    names = [name for name in ("none", "RefineLB", "RefineSwapLB") if name in rows[0]]
    columns = [text for name in names for text in (f"{name} ms", "/mean", "moved")]
    shown = []
    for r in rows:
        cells = [r["system"], r["ranks"], r["overload"], f"{1e3 * r['mean']:.3f}"]
        for of in (r[name] for name in names):
            ratio = of["seconds"] / r["mean"]
            cells += [f"{1e3 * of['seconds']:.3f}", f"{ratio:.5f}", of["migrations"]]
        shown.append(cells)
    title = f"Figure 2.1: time of a step of leanmd, {objects} objects"
    show(["system", "ranks", "overload", "mean ms", *columns], shown, title=title)


# ---- figure 2.2 ------------------------------------------------------------------------------


def zone_seconds(problem: multizone.Problem) -> np.ndarray:
    """Return the processor seconds of a time step of each zone, the shortest of three."""
    out = []
    for box in problem.boxes:
        zone, seconds = Zone(box), []
        for _ in range(3):
            begin = time.thread_time()
            zone.advance()
            seconds.append(time.thread_time() - begin)
        out.append(min(seconds))
    return np.array(out)


def zone_snapshot(problem: multizone.Problem, load: np.ndarray, p: int) -> pylb.Snapshot:
    """Return the zones as a snapshot, row by row."""
    boxes = problem.boxes
    edges = []
    for key, box in enumerate(boxes):
        nx, ny, nz = box.size
        for side, other in problem.neighbours(key).items():
            edges.append((key, other, 8 * 5 * nz * (ny if side < 2 else nx)))
    src, dst, nbytes = np.array(edges).T
    size = [8 * 5 * (nx + 2) * (ny + 2) * (nz + 2) for nx, ny, nz in (b.size for b in boxes)]
    rank = cases.blocks(len(boxes), p)
    return pylb.Snapshot(load, rank, n_ranks=p, edges=(src, dst, nbytes), nbytes=size)


def figure_22(quick: bool, verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measure and print the speed-up of a run of multizone under each strategy."""
    names, rows = strategies(), []
    alpha, beta = NETWORK["2.2"]
    for size, ranks in (("C", (32, 64)), *(() if quick else (("D", (128, 256)),))):
        problem = multizone.CLASSES[size]
        load = zone_seconds(problem)
        for p in ranks:
            trace = long_run(zone_snapshot(problem, load, p), times=5, iterations=1000)
            base = None
            for name in ["none", *(n for n in names if n != "none")]:
                way = {} if name == "none" else {"every": 1}
                run = trace.replay(
                    name,
                    alpha=alpha,
                    beta=beta,
                    migration_alpha=alpha / p,
                    migration_beta=beta / p,
                    **way,
                )
                base = base or run
                rows.append({
                    "class": size,
                    "ranks": p,
                    "strategy": name,
                    "seconds": run.time,
                    "speed_up": run.speedup_over(base),
                    "max_over_mean": float(run.metrics["max_over_mean"][1:].mean()),
                    "lb_seconds": run.lb_seconds,
                    "migrations": run.migrations,
                    "first": run.lb_steps[0].migrations if run.lb_steps else 0,
                })  # fmt: skip
    for size, p in dict.fromkeys((r["class"], r["ranks"]) for r in rows):
        part = [r for r in rows if (r["class"], r["ranks"]) == (size, p)]
        show(
            ["strategy", "s", "speed-up", "max/mean", "LB s", "migrations", "in first LB step"],
            [
                [
                    r["strategy"],
                    f"{r['seconds']:.1f}",
                    f"{r['speed_up']:.3f}",
                    f"{r['max_over_mean']:.4f}",
                    f"{r['lb_seconds']:.3f}",
                    r["migrations"],
                    r["first"],
                ]
                for r in sorted(part, key=lambda r: r["seconds"])
            ],
            title=f"Figure 2.2: multizone, class {size} on {p} ranks, 5,000 steps",
        )
        judge_22(f"class {size} on {p} ranks", {r["strategy"]: r for r in part}, verdicts)
        print()
    return rows


def judge_22(where: str, by: dict[str, dict[str, Any]], verdicts: list[dict[str, Any]]) -> None:
    """Compare with what the thesis says about figure 2.2."""
    if "ScotchRefineLB" not in by:
        return
    mine = by["ScotchRefineLB"]
    others = [by[name] for name in COMPREHENSIVE if name in by]
    fewest = min(r["migrations"] for r in others)
    text = f"{where}: ScotchRefineLB migrates {mine['migrations']}, comprehensive ones {fewest}+"
    check(text, mine["migrations"] < fewest, verdicts)
    text = f"{where}: ScotchRefineLB has a speed-up of {mine['speed_up']:.2f} (1.5)"
    check(text, mine["speed_up"] >= 1.5, verdicts)


def run_22(quick: bool, verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run multizone itself on virtual ranks."""
    size, p = ("W", 4) if quick else ("B", 16)
    problem = multizone.CLASSES[size]
    rows = [
        {"ranks": p, "strategy": name, **on_virtual_ranks(p, name, 5, multizone.solve, problem, 20)}
        for name in ["none", *(n for n in strategies() if n != "none")]
    ]
    print_runs(f"Figure 2.2: multizone on virtual ranks, class {size}, 20 steps", rows, verdicts)
    return rows


def long_run(snapshot: pylb.Snapshot, times: int, iterations: int) -> pylb.Trace:
    """Return a trace with a phase for each 1,000 steps; loads vary by 1 % between phases."""
    rng = np.random.default_rng(snapshot.n_ranks)
    messages = np.full(snapshot.n_edges, float(iterations))
    edges = snapshot.edge_src, snapshot.edge_dst, iterations * snapshot.edge_bytes, messages
    phases = [
        pylb.Snapshot(
            iterations * snapshot.load * rng.lognormal(0.0, 0.01, snapshot.n_objects),
            snapshot.rank,
            n_ranks=snapshot.n_ranks,
            edges=edges,
            nbytes=snapshot.nbytes,
        )
        for _ in range(times)
    ]
    return pylb.Trace.from_snapshots(phases)


# ---- figure 2.3 ------------------------------------------------------------------------------


def figure_23(quick: bool, verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compute and print the time of a step of lbtest under each strategy."""
    rows = []
    for graph in ("cube", "random"):
        for p in (64, 128) if quick else (64, 128, 256, 512):
            program = lbtest.Program.draw(
                graph, 16 * p, (0.2e-3, 1.8e-3), (1024, 8192), degree=6, seed=p
            )
            rows += lbtest_rows(graph, p, program.snapshot(p))
    for graph, p in dict.fromkeys((r["graph"], r["ranks"]) for r in rows):
        part = [r for r in rows if (r["graph"], r["ranks"]) == (graph, p)]
        base = next(r["step"] for r in part if r["strategy"] == "none")
        show(
            ["strategy", "ms a step", "gain %", "max/mean", "cut", "migrations", "LB ms"],
            [
                [
                    r["strategy"],
                    f"{1e3 * r['step']:.3f}",
                    f"{100 * (base / r['step'] - 1):.1f}",
                    f"{r['max_over_mean']:.4f}",
                    f"{r['cut']:.4f}",
                    r["migrations"],
                    f"{1e3 * r['strategy_seconds']:.2f}",
                ]
                for r in sorted(part, key=lambda r: r["step"])
            ],
            title=f"Figure 2.3: lbtest, {graph}, {p} ranks; max/mean of the loads alone",
        )
        judge_23(f"{graph}, {p} ranks", {r["strategy"]: r for r in part}, verdicts)
        print()
    return rows


def message_costs(strategy: str, alpha: float, beta: float) -> dict[str, float]:
    """Return the cost of messages as parameters of a strategy, if it has such parameters."""
    known = {param.name for param in pylb.strategies()[strategy].params}
    return {"alpha": alpha, "beta": beta} if {"alpha", "beta"} <= known else {}


def lbtest_rows(graph: str, p: int, snapshot: pylb.Snapshot) -> list[dict[str, Any]]:
    """Return a row of the table for each strategy."""
    alpha, beta = NETWORK["2.3"]
    rows = []
    for name in strategies():
        plans = (
            pylb.place(snapshot, pylb.strategy(name, **message_costs(name, alpha, beta)))
            for _ in range(3)
        )
        plan = min(plans, key=lambda plan: plan.seconds)
        placed = pylb.Trace.from_snapshots([snapshot.with_rank(plan.rank)])
        step = placed.replay("none", alpha=alpha, beta=beta).iteration_time[0]
        rows.append({
            "graph": graph,
            "ranks": p,
            "strategy": name,
            "step": float(step),
            "max_over_mean": plan.after.max_over_mean,
            "cut": quality(snapshot, plan.rank).cut,
            "migrations": plan.migrations,
            "strategy_seconds": plan.seconds,
        })  # fmt: skip
    return rows


def judge_23(where: str, by: dict[str, dict[str, Any]], verdicts: list[dict[str, Any]]) -> None:
    """Compare with what the thesis says about figure 2.3."""
    if "CommAwareRefineLB" not in by or "ScotchLB" not in by:
        return
    mine, scotch = by["CommAwareRefineLB"], by["ScotchLB"]
    ratio = mine["step"] / scotch["step"]
    check(
        f"{where}: CommAwareRefineLB takes {ratio:.3f} of ScotchLB's time per step",
        ratio <= 1,
        verdicts,
    )
    graphs = [by[name] for name in PARTITIONERS if name in by]
    fastest = min(r["strategy_seconds"] for r in graphs)
    ratio = mine["strategy_seconds"] / fastest
    check(f"{where}: its own time is {ratio:.4f} of the fastest partitioner's", ratio < 1, verdicts)
    fewest = min(r["migrations"] for r in graphs)
    check(
        f"{where}: {mine['migrations']} migrations, partitioners {fewest} or more",
        mine["migrations"] < fewest,
        verdicts,
    )


# ---- pictures --------------------------------------------------------------------------------

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#666666")


def lines(ax: Any, series: dict[str, tuple[Iterable[float], Iterable[float]]]) -> None:
    """Draw a line for each strategy, with its own colour and mark."""
    for i, (name, (x, y)) in enumerate(series.items()):
        colour, mark = COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]
        ax.plot(list(x), list(y), color=colour, marker=mark, label=name, lw=1.5, ms=6)


def draw_21(rows: list[dict[str, Any]], axes: list[Any]) -> None:
    for ax, system in zip(axes, SYSTEMS, strict=True):
        part = [r for r in rows if r["system"] == system and r["overload"] == OVERLOADS[-1]]
        names = [n for n in ("RefineLB", "RefineSwapLB") if n in part[0]]
        at = np.arange(len(part))
        for i, name in enumerate(names):
            y = [100 * (r[name]["seconds"] / r["mean"] - 1) for r in part]
            ax.bar(at + 0.4 * (i - 0.5), y, 0.38, color=COLOURS[i], label=name)
        ax.set_xticks(at, [r["ranks"] for r in part])
        ax.set(xlabel="ranks", ylabel="step above the mean load, %", title=f"leanmd, {system}")
        ax.legend()


def draw_22(rows: list[dict[str, Any]], axes: list[Any]) -> None:
    places = list(dict.fromkeys((r["class"], r["ranks"]) for r in rows))
    names = list(dict.fromkeys(r["strategy"] for r in rows))
    for i, name in enumerate(names):
        part = [r for r in rows if r["strategy"] == name]
        at = np.arange(len(places)) + 0.8 * (i + 0.5) / len(names) - 0.4
        colour = COLOURS[i % len(COLOURS)]
        hatch = "//" if i >= len(COLOURS) else None
        for ax, value in zip(axes, ("speed_up", "migrations"), strict=True):
            ax.bar(
                at,
                [r[value] for r in part],
                0.8 / len(names),
                color=colour,
                label=name,
                hatch=hatch,
            )
    for ax, title in zip(
        axes, ("speed-up over the unbalanced run", "migrations in 4 LB steps"), strict=True
    ):
        ax.set_xticks(np.arange(len(places)), [f"{c}, {p} ranks" for c, p in places])
        ax.set(title=f"multizone: {title}")
    axes[1].set_yscale("symlog")
    axes[0].legend(fontsize=7, ncols=2)


def draw_23(rows: list[dict[str, Any]], axes: list[Any]) -> None:
    for ax, graph in zip(axes, ("cube", "random"), strict=True):
        part = [r for r in rows if r["graph"] == graph]
        names = dict.fromkeys(r["strategy"] for r in part)
        series = {
            name: zip(
                *((r["ranks"], 1e3 * r["step"]) for r in part if r["strategy"] == name), strict=True
            )
            for name in names
        }
        lines(ax, series)
        ax.set_xscale("log", base=2)
        ticks = sorted({r["ranks"] for r in part})
        ax.set_xticks(ticks, ticks)
        ax.set(xlabel="ranks", ylabel="ms a step", title=f"lbtest, {graph}")
    axes[1].legend(fontsize=7)


FIGURES: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "2.1": (figure_21, draw_21),
    "2.2": (figure_22, draw_22),
    "2.3": (figure_23, draw_23),
}

RUNS: dict[str, Callable[..., Any]] = {"2.1": run_21, "2.2": run_22}


def main() -> None:
    args = figure_arguments(__doc__, FIGURES, quick="fewer ranks and steps")
    args.out.mkdir(parents=True, exist_ok=True)
    verdicts: list[dict[str, Any]] = []
    made = {}
    for name, (measure, draw) in FIGURES.items():
        if args.only in (None, name):
            made[name] = rows = measure(args.quick, verdicts)
            path = args.out / f"figure_{name.replace('.', '_')}.png"
            picture(path, lambda axes, draw=draw, rows=rows: draw(rows, axes))
            print()
            if name in RUNS:
                made[f"{name}, run"] = RUNS[name](args.quick, verdicts)
    results = {"verdicts": verdicts, "network": NETWORK, "figures": made}
    save(args.out / "chapter2.json", results)


if __name__ == "__main__":
    main()

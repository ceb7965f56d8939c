"""The figures of Menon 2012, chapter 3, reproduced: when pylb rebalances, and how.

    python benchmarks/chapter3.py [--only 3.2] [--quick] [--out out]

Figures 3.2 and 3.3 have jacobi2d on virtual ranks, rebalanced every 1, 2, 3, ... iterations, never,
and by pylb's triggers.  The plate is first solved on one rank.  This gives the work of each block
in each iteration (its sweeps), which does not depend on the placement.  The runs that are compared
declare this work, so that chance favours no period.  Everything else is as in the real program: its
objects, its messages and the balancer.  An LB step takes the time of its messages, plus
STRATEGY_SECONDS for the strategy.

Figure 3.4 has kneighbor on virtual ranks; a load is a number of computed steps.  Half of the ring
suddenly computes four times longer: how many iterations pass until pylb rebalances?

Figures 3.6 and 3.7 show which strategy "auto" picks for leanmd and for kneighbor with large
messages, and the run time with and without load balancing.  Both programs really run, on virtual
ranks.  A second table says where the time of an iteration goes.  leanmd has 64 cells and 896
computes.  (With 27 cells and 378 computes, as in the tests, most time would be that of Python
calls.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from common import cases  # noqa: F401  finds the examples
from common.figures import check, figure_arguments, picture, save

import pylb
from pylb.console import show
from pylb.show import plots

import kneighbor  # isort: skip
import leanmd  # isort: skip
import runs  # isort: skip
from heat import Block, Plate  # isort: skip
from lennardjones import Fluid  # isort: skip

RANKS = 8
STRATEGY_SECONDS = 0.05  # seconds: as long as several iterations
STEP = 2e-6  # seconds for one step of kneighbor
NETWORK = (1e-5, 1e-8)  # seconds per message and per byte: a network of the year 2012
TRIGGERS = ("metabalancer", "auto")
WITHIN = 1.03  # largest time of a trigger's run, divided by that of the best fixed period
GAINS = (1.25, 1.0)  # smallest allowed speed-up of leanmd and of kneighbor
PERIODS = (*range(1, 6), *range(6, 40, 2), *range(40, 60, 4), *range(60, 301, 20))


ABOVE = 24  # distance in points that puts a title above the legend of plots.imbalance


# ---- figures 3.2 and 3.3 -----------------------------------------------------------------------


class Solved(NamedTuple):
    """A plate that was solved on one rank.

    Attributes
    ----------
    seconds : (n, blocks) float64
        Work of each block in each iteration.
    """

    plate: Plate
    seconds: np.ndarray


def solve_once(plate: Plate, iterations: int) -> Solved:
    """Solve the plate on one rank; a block's work is its number of sweeps * mean sweep time."""
    blocks = {key: Block(plate, key) for key in range(plate.blocks**2)}
    sweeps = np.zeros((iterations, len(blocks)))
    begin = time.thread_time()
    for it in range(iterations):
        sent = [
            (other, key, block.border(side).copy())
            for key, block in blocks.items()
            for side, other in plate.neighbours(key).items()
        ]
        for target, source, border in sent if it else []:
            blocks[target].receive(source, border)
        for key, block in blocks.items():
            before = block.sweeps
            block.advance()
            sweeps[it, key] = block.sweeps - before
    return Solved(plate, sweeps * (time.thread_time() - begin) / sweeps.sum())


def declared(comm: Any, solved: Solved, **balancing: Any) -> dict[str, Any]:
    """Run jacobi2d on virtual ranks that do not compute, but declare the seconds of their work."""

    def strategy(snapshot: pylb.Snapshot) -> np.ndarray:
        comm.elapse(STRATEGY_SECONDS)
        return pylb.place(snapshot, "GreedyLB").rank

    plate, n = solved.plate, len(solved.seconds)
    lb = pylb.Balancer(comm, strategy=strategy, **balancing)
    for key in runs.starts(lb, plate.blocks**2, None, plate.neighbours):
        lb.add(key, np.zeros((plate.size + 2, plate.size + 2)))
    border = np.zeros(plate.size)
    for it in lb.iterate(n):
        for key, _ in lb.local():
            comm.elapse(solved.seconds[it, key])
            for other in plate.neighbours(key).values():
                lb.send(other, key, border, copy=False)
    report = lb.report()
    return {
        "seconds": report.seconds,
        "lb_step_iterations": [r.iteration for r in lb.history if r.balanced],
        "cost": report.lb_cost,
        "max": lb.metrics.max.tolist(),
        "mean": lb.metrics.mean.tolist(),
    }


def figure_32(quick: bool, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Measure and print the time of jacobi2d with fixed periods, and under the triggers."""
    iterations = 100 if quick else 300
    plate = Plate(12, 8, period=2 * iterations, tolerance=1e-4)
    solved = solve_once(plate, iterations)
    cluster = pylb.VirtualCluster(RANKS, network=NETWORK, clock="none")

    def run(**way: Any) -> dict[str, Any]:
        return cluster.run(declared, solved, **way)[0]

    periods = [every for every in PERIODS if every < iterations]
    fixed = {every: run(every=every) for every in periods}
    chosen = {name: run(trigger=name) for name in TRIGGERS}
    off = run(mode="off")
    best = min(fixed, key=lambda every: fixed[every]["seconds"])
    least = fixed[best]["seconds"]
    rows = [["not at all", off["seconds"], off["seconds"] / least, 0, ""]]
    shown = sorted({1, 2, 5, 10, 20, 40, best} & set(fixed))
    rows += [[f"every {every}", *row_32(fixed[every], least)] for every in shown]
    rows += [[name, *row_32(made, least)] for name, made in chosen.items()]
    head = ["balanced", "s", "/best", "LBs", "iterations between them"]
    title = f"Figures 3.2, 3.3: jacobi2d, {plate.blocks**2} blocks on {RANKS} ranks, "
    show(head, rows, title=f"{title}{iterations} iterations")
    for name, made in chosen.items():
        ratio = made["seconds"] / least
        text = f"{name}: {ratio:.4f} times the time with the best period, {best} iterations"
        check(text, ratio <= WITHIN, verdicts)
    ends = (min(fixed[1]["seconds"], fixed[2]["seconds"]), off["seconds"])
    check("too short and too long periods cost time", min(ends) > WITHIN * least, verdicts)
    return {"iterations": iterations, "fixed": fixed, "chosen": chosen, "off": off, "best": best}


def row_32(made: dict[str, Any], least: float) -> list[Any]:
    after = made["lb_step_iterations"]
    between = np.diff([-1, *after])
    shown = ", ".join(map(str, between[:8])) + (", ..." if len(between) > 8 else "")
    return [made["seconds"], made["seconds"] / least, len(after), shown]


def draw_32(made: dict[str, Any], axes: list[Any]) -> None:
    left, right = axes
    fixed = made["fixed"]
    left.plot(list(fixed), [r["seconds"] for r in fixed.values()], color=plots.BLUE, marker=".")
    left.axhline(made["off"]["seconds"], color=plots.GREY, ls=":", label="not balanced")
    for (name, r), colour, style in zip(
        made["chosen"].items(), (plots.ORANGE, plots.VERMILLION), ("--", "-"), strict=True
    ):
        left.axhline(r["seconds"], color=colour, ls=style, label=name)
    left.set_xscale("log")
    least = min(r["seconds"] for r in made["chosen"].values())
    left.set(xlabel="fixed period, iterations", ylabel="s", title="elapsed time (3.2)")
    left.set_ylim(0.9 * least, 2.0 * made["off"]["seconds"])
    left.legend()
    auto = made["chosen"]["auto"]
    plots.imbalance(auto["max"], auto["mean"], auto["lb_step_iterations"], ax=right)
    right.set_title("what auto picked (3.3)", pad=ABOVE)


# ---- figure 3.4 --------------------------------------------------------------------------------


def figure_34(quick: bool, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Measure and print how soon pylb reacts to a sudden imbalance in kneighbor."""
    start, iterations = (15, 30) if quick else (40, 80)
    ring = kneighbor.Ring(
        objects=16 * RANKS,
        k=2,
        nbytes=8192,
        work=round(0.3e-3 / STEP),
        start=start,
        share=0.5,
        factor=4,
    )
    rows, out = [], {}
    # Loads are numbers of computed steps, so noise of the machine triggers no LB step.
    for name in TRIGGERS:
        way = {"strategy": "GreedyLB", "trigger": name, "load": lambda _, node: STEP * node.steps}
        run = pylb.VirtualCluster(RANKS).run(kneighbor.solve, ring, iterations, **way)[0]
        reaction = kneighbor.Reaction.of(run, start)
        rows.append([name, reaction.after, *reaction.ratio, *map(milli, reaction.seconds)])
        out[name] = {
            "after": reaction.after,
            "max": run.metrics.max.tolist(),
            "mean": run.metrics.mean.tolist(),
            "lb_step_iterations": run.lb_step_iterations,
        }
    head = ["trigger", "iterations", "max/mean: before", "until LB", "after"]
    times = ["ms/iteration: before", "until LB", "after"]
    title = f"Figure 3.4: kneighbor on {RANKS} ranks, half of it 4 times as heavy from {start} on"
    show([*head, *times], rows, title=title)
    for name, made in out.items():
        after = made["after"]
        text = f"{name}: balanced when {after} iterations had shown the imbalance (3)"
        check(text, after is not None and after <= 3, verdicts)
    return out


def milli(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def draw_34(made: dict[str, Any], axes: list[Any]) -> None:
    for ax, (name, r) in zip(axes, made.items(), strict=True):
        plots.imbalance(r["max"], r["mean"], r["lb_step_iterations"], ax=ax)
        ax.set_title(f"kneighbor, {name} (3.4)", pad=ABOVE)


# ---- figures 3.6 and 3.7 -----------------------------------------------------------------------


def picked(cluster: pylb.VirtualCluster, solve: Any, *args: Any) -> dict[str, Any]:
    """Return which strategies "auto" runs, and the times of a run with "auto" and of one without.

    Both runs are made twice, in turns.  The faster one counts, because the machine's speed varies.
    """
    ways = ({"mode": "off"}, {"strategy": "auto"})
    made = [[cluster.run(solve, *args, clock="cpu", **way)[0] for way in ways] for _ in range(2)]
    off, run = (min(runs, key=lambda r: r.report.seconds) for runs in zip(*made, strict=True))
    balanced = [r for r in run.report.history if r.balanced]
    return {
        "strategies": [r.strategy for r in balanced],
        "why": balanced[0].why if balanced else "",
        "lb_step_iterations": run.lb_step_iterations,
        "off_max": off.metrics.max.tolist(),
        "max": run.metrics.max.tolist(),
        "mean": run.metrics.mean.tolist(),
        "off_seconds": off.report.seconds,
        "seconds": run.report.seconds,
        "parts": {"unbalanced": parts_of(off), "balanced": parts_of(run)},
        "off_max_over_mean": off.report.mean_max_over_mean,
        "max_over_mean": run.report.mean_max_over_mean,
        "migrations": run.report.migrations,
    }


def parts_of(run: runs.Run) -> dict[str, float]:
    """Return the milliseconds of an iteration: work, waiting for the slowest rank, LB steps, rest.

    The rest, "messages", includes the collective step that delivers them.
    """
    it, n = run.metrics, len(run.metrics.time)
    work, slowest, steps = it.mean.sum(), it.max.sum(), run.report.lb_seconds
    seconds = {
        "work": work,
        "imbalance": slowest - work,
        "LB steps": steps,
        "messages": run.report.seconds - slowest - steps,
    }
    return {name: 1e3 * float(each) / n for name, each in seconds.items()}


class Scattered(kneighbor.Ring):
    """A ring whose objects start round-robin on the ranks: neighbours start on different ranks."""

    def neighbours(self, key: int) -> list[int]:
        """Return the k objects on either side, the nearest first."""
        stride = self.objects // RANKS + 1
        return [(key + d * stride) % self.objects for i in range(1, self.k + 1) for d in (-i, i)]


def figure_36(quick: bool, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Print which strategies are picked for leanmd and for kneighbor with large messages."""
    fluid, steps = Fluid(4), 60 if quick else 150
    fast = pylb.VirtualCluster(RANKS)
    slow = pylb.VirtualCluster(RANKS, network=NETWORK)
    ring = Scattered(  # from the start, half of the ranks have heavy objects
        objects=16 * RANKS,
        k=4,
        nbytes=128 * 1024,
        work=kneighbor.calibrate(None, 0.1e-3),
        start=0,
        share=0.5,
        factor=4,
    )
    made = {
        "leanmd (3.6)": picked(fast, leanmd.solve, fluid, fluid.drop(), steps),
        "kneighbor, 128 KiB (3.7)": picked(slow, kneighbor.solve, ring, 40),
    }
    rows = [
        [
            name,
            r["strategies"][0] if r["strategies"] else "none",
            ", ".join(dict.fromkeys(r["strategies"][1:])),
            r["off_seconds"],
            r["seconds"],
            r["off_max_over_mean"],
            r["max_over_mean"],
            r["migrations"],
        ]
        for name, r in made.items()
    ]
    head = [
        "program",
        "first",
        "then",
        "s: unbalanced",
        "balanced",
        "max/mean",
        "balanced",
        "migrations",
    ]
    show(head, rows, title=f"Figures 3.6, 3.7: what is picked, on {RANKS} ranks")
    for name, r in made.items():
        print(f"{name}: {r['why']}")
    rows = [[name, way, *p.values()] for name, r in made.items() for way, p in r["parts"].items()]
    first = next(iter(made.values()))["parts"]["balanced"]
    show(["program", "", *first], rows, title="ms per iteration")
    table = pylb.strategies()
    for (name, r), talks, least in zip(made.items(), (False, True), GAINS, strict=True):
        first = table.get(r["strategies"][0]) if r["strategies"] else None
        is_right = first is not None and ("communication" in first.looks_at) == talks
        kind = "looks at communication" if talks else "looks at loads alone"
        check(f"{name}: the first strategy {kind}", is_right, verdicts)
        gain = r["off_seconds"] / r["seconds"]
        text = f"{name}: {gain:.3f} times as fast as unbalanced ({least})"
        check(text, gain >= least, verdicts)
    return made


def draw_36(made: dict[str, Any], axes: list[Any]) -> None:
    for ax, (name, r) in zip(axes, made.items(), strict=True):
        ax.plot(1e3 * np.array(r["off_max"]), color=plots.GREY, lw=0.8, label="maximum, unbalanced")
        ax.plot(1e3 * np.array(r["max"]), color=plots.BLUE, label="maximum")
        ax.plot(1e3 * np.array(r["mean"]), color=plots.ORANGE, label="mean load")
        for it, strategy in zip(r["lb_step_iterations"], r["strategies"], strict=True):
            ax.axvline(it + 0.5, color=plots.GREY, lw=0.8, ls=":")
            ax.annotate(strategy, (it + 1.0, 50.0 * max(r["off_max"])), fontsize=7, rotation=90)
        ax.set(xlabel="iteration", ylabel="load of a rank, ms", title=name, ylim=(0, None))
        ax.legend()


# ---- all ---------------------------------------------------------------------------------------

FIGURES: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "3.2": (figure_32, draw_32),
    "3.4": (figure_34, draw_34),
    "3.6": (figure_36, draw_36),
}


def main() -> None:
    only = "one figure (3.2 with 3.3, 3.6 with 3.7)"
    args = figure_arguments(__doc__, FIGURES, quick="fewer iterations", only=only)
    args.out.mkdir(parents=True, exist_ok=True)
    verdicts: list[dict[str, Any]] = []
    made = {}
    for name, (measure, draw) in FIGURES.items():
        if args.only in (None, name):
            made[name] = measure(args.quick, verdicts)
            path = args.out / f"figure_{name.replace('.', '_')}.png"
            picture(path, lambda axes, draw=draw, name=name: draw(made[name], axes))
            print()
    save(args.out / "chapter3.json", {"verdicts": verdicts, "figures": made})


if __name__ == "__main__":
    main()

"""Programs whose loads change: a learner must not mistake changes of work for speeds.

A program is the matrix of its objects' loads.  `simulate` runs it on ranks of given speeds with the
runtime's own estimates, a strategy and a learner, without messages: hundreds in a minute.
`run_on_cluster` is the same program under `pylb.Balancer` on a `pylb.VirtualCluster`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import pylb
from pylb import _core
from pylb.measure.monitor import SpeedLearner
from pylb.model.snapshot import Snapshot

ROWS, HERE = 9, 4  # rows of the estimator's table, and the row HERE (csrc/measure/measure.h)


class Program(NamedTuple):
    """Loads of each object in each iteration on a rank of speed 1, and how it is balanced."""

    name: str
    n_ranks: int
    loads: np.ndarray  # (iterations, n) seconds, or (iterations, n, d) in each of d phases
    cold: float  # factor by which an object's first iteration after a move is longer
    strategy: str
    every: int  # iterations between LB steps; 0: LB step when max/mean exceeds `ratio`
    ratio: float


class Seen(NamedTuple):
    """The input of a learner, and the speeds that it then returned (None: equal speeds).

    With phases, there are learners for whole objects and for each phase.
    """

    iteration: int
    rank: np.ndarray
    seconds: np.ndarray
    speed: np.ndarray | None


# ---- kinds of change: factors (iterations, n) --------------------------------------------------


def hot_region(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return a hot region that moves over the objects, steadily or by leaps."""
    width = rng.uniform(0.02, 0.2)
    height = np.exp(rng.uniform(np.log(2.0), np.log(12.0)))
    at = rng.random() + rng.uniform(-3.0, 3.0) * np.arange(iterations) / iterations
    if rng.random() < 0.3:
        leaps = rng.random(iterations) < rng.uniform(0.01, 0.1)
        at = rng.random(iterations)[np.cumsum(leaps)]
    apart = np.abs((np.arange(n) / n - at[:, None] + 0.5) % 1.0 - 0.5)
    if rng.random() < 0.3:  # the region has a sharp edge
        return 1.0 + (height - 1.0) * (apart < width)
    return 1.0 + (height - 1.0) * np.exp(-0.5 * (apart / width) ** 2)


def growth(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return objects of which some grow or shrink, each at its own rate or all at the same rate."""
    part = rng.uniform(0.05, 0.6)
    grows = rng.random(n) < part
    if rng.random() < 0.5:
        grows = (np.arange(n) / n - rng.random()) % 1.0 < part
    rate = rng.uniform(-0.03, 0.05) * (rng.random(n) if rng.random() < 0.5 else np.ones(n))
    return np.exp(np.arange(iterations)[:, None] * rate * grows)


def walk(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return loads that drift at random."""
    step = rng.uniform(0.005, 0.08)
    return np.exp(np.cumsum(step * rng.standard_normal((iterations, n)), axis=0))


def jumps(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return single objects that jump by a large factor, for a while or for good."""
    out = np.ones((iterations, n))
    factor, lasts = rng.uniform(2.0, 20.0), rng.choice([3, 8, 20, iterations])
    for _ in range(rng.integers(2, 4 + iterations // 4)):
        at, key = rng.integers(iterations), rng.integers(n)
        out[at : at + lasts, key] = factor
    return out


def peaks(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return peaks that move from object to object."""
    at = rng.integers(0, n, rng.integers(1, max(2, n // 8)))
    out = np.ones((iterations, n))
    height, restless, reach = rng.uniform(2.0, 15.0), rng.uniform(0.02, 0.5), rng.integers(1, n)
    for i in range(iterations):
        moves = rng.random(len(at)) < restless
        at = np.where(moves, at + rng.integers(-reach, reach + 1, len(at)), at) % n
        out[i, at] = height
    return out


def periodic(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return loads that swing, as waves or by steps, with equal or different phases."""
    period = rng.uniform(3.0, 60.0)
    phase = np.arange(n) / n * rng.integers(0, 4) if rng.random() < 0.6 else rng.random(n)
    wave = np.sin(2.0 * np.pi * (np.arange(iterations)[:, None] / period + phase))
    if rng.random() < 0.4:
        wave = np.sign(wave)
    return np.exp(rng.uniform(0.2, 1.2) * wave * (rng.random(n) < rng.uniform(0.3, 1.0)))


def steps(rng: np.random.Generator, n: int, iterations: int) -> np.ndarray:
    """Return regions of neighbours whose loads change by a factor once, and for good."""
    out = np.ones((iterations, n))
    for _ in range(rng.integers(1, 6)):
        at, first = rng.integers(iterations), rng.random()
        region = (np.arange(n) / n - first) % 1.0 < rng.uniform(0.03, 0.3)
        out[at:, region] *= np.exp(rng.uniform(-1.5, 1.5))
    return out


KINDS = (hot_region, growth, walk, jumps, peaks, periodic, steps)


def draw(seed: int) -> Program:
    """Return a random program: 4 ... 64 ranks, 2 ... 64 objects each, 1 ... 3 kinds of change."""
    rng = np.random.default_rng([seed, 20240])
    p = int(rng.choice([4, 5, 6, 8, 8, 12, 16, 24, 32, 64]))
    each = int(rng.choice([2, 4, 8, 16, 16, 32, 64]))
    each = min(each, 2048 // p)
    n, iterations = p * each, int(rng.choice([60, 100, 200]))
    names, loads = _changing(rng, n, iterations)
    strategy = str(rng.choice(["BestFitLB", "BestFitLB", "RefineLB", "GreedyLB"]))
    every = int(rng.choice([0, 0, 3, 5, 10, 20]))
    cold = float(rng.choice([1.0, 1.0, 1.5, 3.0]))
    name = f"{seed}: {names}, {p} x {each}, {strategy}, every {every}"
    return Program(name, p, loads, cold, strategy, every, float(rng.uniform(1.02, 1.3)))


def draw_phases(seed: int) -> Program:
    """Return the program `draw(seed)` with one or two more phases, whose loads change differently.

    A phase may be a thousand times shorter than another one.
    """
    rng, program = np.random.default_rng([seed, 5150]), draw(seed)
    iterations, n = program.loads.shape
    names, parts = [program.name], [program.loads]
    for _ in range(rng.integers(1, 3)):
        kinds, loads = _changing(rng, n, iterations)
        names.append(kinds)
        parts.append(loads * np.exp(rng.uniform(np.log(1e-3), np.log(3.0))))
    return program._replace(name=" | ".join(names), loads=np.stack(parts, 2), strategy="VectorLB")


def _changing(rng: np.random.Generator, n: int, iterations: int) -> tuple[str, np.ndarray]:
    """Return loads that change in one to three ways, and a text that tells which."""
    base = rng.choice([np.zeros(n), rng.normal(0.0, 0.5, n), rng.uniform(0.0, np.log(10.0), n)])
    kinds = rng.choice(len(KINDS), rng.choice([1, 1, 2, 3]), replace=False)
    loads = np.tile(1e-3 * np.exp(base), (iterations, 1))
    for kind in kinds:
        loads *= KINDS[kind](rng, n, iterations)
    noise = float(rng.choice([0.0, 0.01, 0.05, 0.2]))
    loads *= np.exp(noise * rng.standard_normal(loads.shape))
    names = "+".join(KINDS[k].__name__ for k in kinds)
    return f"{names}, noise {noise}", np.maximum(loads, 1e-7)


def draw_unlike(seed: int) -> tuple[Program, np.ndarray]:
    """Return a random program with noisy loads, and the speeds of its ranks.

    One or half of the ranks are 1.5, 2 or 4 times slower, or each by its own factor up to this.
    """
    rng = np.random.default_rng([seed, 777])
    p, each = int(rng.choice([2, 3, 4, 4, 6, 8, 16, 32])), int(rng.choice([8, 16, 32, 64]))
    n, iterations = p * each, 60
    base = rng.choice([np.zeros(n), rng.normal(0.0, 0.5, n), rng.uniform(0.0, np.log(10.0), n)])
    noise, drift = (
        float(rng.choice([0.0, 0.02, 0.05, 0.2])),
        float(rng.choice([0.0, 0.0, 0.2, 0.5])),
    )
    wave = np.sin(2.0 * np.pi * (np.arange(n) / n - np.arange(iterations)[:, None] / 60.0))
    loads = (
        1e-3 * np.exp(base + noise * rng.standard_normal((iterations, n))) * (1.0 + drift * wave)
    )
    factor, kind = float(rng.choice([1.5, 2.0, 4.0])), int(rng.integers(3))
    speed = np.ones(p)
    if kind == 0:
        speed[rng.integers(p)] = 1.0 / factor
    elif kind == 1:
        speed = np.exp(rng.uniform(-np.log(factor), 0.0, p))
        speed[[0, -1]] = 1.0 / factor, 1.0
    else:
        speed[: p // 2] = 1.0 / factor
    strategy = str(rng.choice(["BestFitLB", "BestFitLB", "RefineLB", "GreedyLB"]))
    every = int(rng.choice([0, 0, 3, 5, 10]))
    name = f"{seed}: {p} x {each}, {factor} times, kind {kind}, noise {noise}, drift {drift}"
    return Program(
        f"{name}, {strategy}, every {every}", p, loads, 1.0, strategy, every, 1.05
    ), speed


# ---- plain simulation --------------------------------------------------------------------------


class Objects:
    """Where objects are, and the runtime's estimates of their loads."""

    def __init__(self, n: int, p: int, d: int) -> None:
        self.p = p
        self.rank = (np.arange(n) * p // n).astype(np.int32)
        # estimates of whole loads and, with phases, of the load in each phase
        self.tables = np.zeros((1 if d == 1 else 1 + d, ROWS, n))
        self.came = np.zeros(n, bool)  # objects that came in the last LB step
        self._arrange()

    def _arrange(self) -> None:
        self.mine = [np.flatnonzero(self.rank == r) for r in range(self.p)]

    def end_pass(self, seconds: np.ndarray) -> None:
        every = [seconds.sum(axis=1), *seconds.T]
        for table, load in zip(self.tables, every, strict=False):
            for mine in self.mine:
                part = np.ascontiguousarray(table[:, mine])
                _core.end_pass(load[mine], part, np.zeros(len(mine)))
                table[:, mine] = part
        self.came[:] = False

    def move(self, rank: np.ndarray, speed: np.ndarray | None) -> None:
        leaving = rank != self.rank
        if speed is not None:
            self.tables[:, [0, 2, 3]] *= np.where(leaving, speed[self.rank] / speed[rank], 1.0)
        self.tables[:, HERE:, leaving] = 0.0
        self.came = leaving
        self.rank = rank.copy()
        self._arrange()


def simulate(
    program: Program, speed: Any = None, learner: Any = None, work: Any = None
) -> Iterator[Seen]:
    """Run a program; yield the learner's input, and the speeds that it used. speed: the ranks'
    speeds, (p,) or (iterations, p); default: all equal.
    """
    p, loads = program.n_ranks, np.atleast_3d(program.loads)
    iterations, n, d = loads.shape
    speeds = np.broadcast_to(1.0 if speed is None else speed, (iterations, p))
    objects, key = Objects(n, p, d), np.arange(n)
    learners = [SpeedLearner(p) if learner is None else learner]
    learners += [SpeedLearner(p) for _ in objects.tables[1:]]
    balanced, looked = -1, -1
    for it in range(iterations):
        first = np.where(objects.came, program.cold, 1.0) / speeds[it, objects.rank]
        seconds = loads[it] * first[:, None]
        objects.end_pass(seconds)
        total = np.stack([np.bincount(objects.rank, part, p) for part in seconds.T])
        since = it - balanced
        ratio = total.max(axis=1).sum() / max(total.mean(axis=1).sum(), 1e-300)
        due = since >= program.every if program.every else since >= 2 and ratio > program.ratio
        if not due and (since < 3 or it - looked < 5 or ratio < 1.05):
            continue
        looked = it
        told = []
        for table, one in zip(objects.tables, learners, strict=True):
            told.append(one.observe(key, objects.rank, table[HERE], work))
            yield Seen(it, objects.rank, table[HERE].copy(), told[-1])
        if not due:
            continue
        balanced = it
        load, believed = objects.tables[0, 0], told[0]
        if d > 1:  # the speeds of each phase, or those of the sum if no phase has any
            load = objects.tables[1:, 0].T
            if any(v is not None for v in told[1:]):
                believed = np.stack([np.ones(p) if v is None else v for v in told[1:]], axis=1)
            elif believed is not None:
                believed = np.repeat(believed[:, None], d, axis=1)
        load = load if believed is None else load * believed[objects.rank]
        snapshot = Snapshot(load=load, rank=objects.rank, n_ranks=p, speed=believed)
        objects.move(pylb.place(snapshot, program.strategy).rank, told[0])


def worst_off(program: Program) -> float:
    """Return the largest error (`off`) of the speeds that were used on equal ranks."""
    return max((off(seen.speed) for seen in simulate(program)), default=0.0)


def off(believed: Any, speed: Any = 1.0) -> float:
    """Return the largest error of the speeds in use, as a logarithm; 0: none are in use."""
    if believed is None:
        return 0.0
    error = np.log(believed / np.broadcast_to(speed, believed.shape))
    return float(np.abs(error - error.mean()).max())


# ---- the runtime -------------------------------------------------------------------------------


def _main(comm: Any, program: Program, balancing: dict[str, Any]) -> Any:
    lb = pylb.Balancer(comm, **balancing)
    n = program.loads.shape[1]
    for key in range(n * lb.rank // lb.n_ranks, n * (lb.rank + 1) // lb.n_ranks):
        lb.add(key, None)
    loads, spent = program.loads, [0.0]
    for it in lb.iterate(len(loads)):
        for k in range(loads.shape[2] if loads.ndim == 3 else 0):
            # the last phase is that of a device, which has a clock of its own
            is_device = k == loads.shape[2] - 1
            with lb.phase(str(k), clock=(lambda: spent[0]) if is_device else None):
                for key, _ in lb.local():
                    if is_device:
                        spent[0] += loads[it, key, k]
                    else:
                        comm.elapse(loads[it, key, k])
        for key, _ in lb.local() if loads.ndim == 2 else ():
            comm.elapse(loads[it, key])
    steps = lb.history.lb_steps
    return [r.speed for r in steps], lb.metrics


def run_on_cluster(program: Program, speed: Any = None, **balancing: Any) -> Any:
    """Return the speeds that each LB step used (empty: none), and the iterations."""
    cluster = pylb.VirtualCluster(program.n_ranks, speed=speed, clock="none")
    return cluster.run(_main, program, balancing)[0]


def speeds_of_phases(program: Program) -> list[np.ndarray | None]:
    """Return the speeds, (p,) or (p, d), that each LB step on a cluster used; None: none."""
    told = []

    def by_phase(snapshot: Snapshot) -> np.ndarray:
        told.append(snapshot.speed)
        return pylb.place(snapshot, "VectorLB").rank

    run_on_cluster(program, strategy=by_phase, every=program.every or 4, learn_speeds=True)
    return told

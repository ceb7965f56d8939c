"""How close the triggers come to the best schedule of LB steps.

    python benchmarks/triggers.py [--seeds 200] [--first 20000] [--bounds 40] [--json out.json]

1. Generated programs: several families of imbalance; LB steps that are cheap, medium and
   expensive; perfect and imperfect strategies.  The results are regrets in percent: the additional
   time compared with the best schedule, which dynamic programming finds among all schedules.
   Every trigger knows the cost of an LB step and the end of the run.  Triggers that need the cost
   run once more without it ("cost unknown"): they learn it from the first LB step.  "second run":
   knows neither, but begins with what "both unknown" has learned; "other noise": the same program
   with other random noise, jumps and walks.  "best period" is the best fixed period of each
   program, known only afterwards.  The mean regret of `auto` and its regret in the worst family
   are compared with limits.
2. With --bounds n, three lower bounds on n seeds of each family.  The first is the loss of the best
   rule for a random process: the rule knows the process with all its parameters, and is found by
   dynamic programming over the states.  The second is the loss of the best rule that does not know
   the cost: before its first LB step it knows the whole program, and that the cost is one of the
   three; the third is the same for a rule that also tries a first LB step
   at the latest when a steady imbalance has cost three balanced iterations.  A rule must do so
   where it cannot know whether the LB step removes this imbalance.
3. Programs with a constant imbalance that one LB step removes: when does the first LB step come?
4. The published synthetic model (Boulmier 2021, arXiv 2104.01688).
5. A generated run of objects, and the recorded runs of PYLB_DATA (default ../shared/data).

`auto` was tuned on the seeds 0 ... 99 and 1000 ... 1199.  Its parameter `unsure` was raised after
results for the seeds 50000 ... 50199 and for the default seeds were known.  The seeds from 900000
on (`--first 900000`) were only used afterwards.
"""

import argparse
import collections
import json
import math
import multiprocessing
import os
from pathlib import Path

import numpy as np

import pylb

FAMILIES = (
    "constant", "sublinear", "linear", "sigmoid", "steps", "walk", "noise", "periodic",
    "steady", "steady_noise", "residual", "free",
)  # fmt: skip
COSTS = {"cheap": 1.0, "medium": 10.0, "expensive": 100.0}  # cost of an LB step, in iterations
TRIGGERS = [name for name in pylb.triggers() if name != "periodic"]
NEED_COST = ["menon", "procassini", "zhai", "boulmier", "metabalancer", "auto"]
HANDICAPPED = [
    "auto, end unknown", "auto, both unknown", "auto, second run", "auto, second run, other noise",
    "auto, half the cost", "auto, twice the cost",
    *(f"{t}, cost unknown" for t in NEED_COST),
]  # fmt: skip
LIMITS = {  # percent: mean, worst family
    "auto": (1.5, 5.0),
    "auto, cost unknown": (2.5, 8.0),
    "auto, second run": (1.0, 4.0),
}
CONSTANT = ((2.0, 80), (1.5, 80), (2.4, 10))  # max/mean, iterations
TRIAL = 3.0  # balanced iterations that a steady imbalance may cost before the first LB step
WITHIN = 10  # largest allowed number of iterations before the first LB step if max/mean is 2


# ---- families -------------------------------------------------------------------------------


def log_uniform(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def autoregressive(rng, n, rho, deviation):
    shocks = rng.normal(0, deviation * math.sqrt(1 - rho**2), n)
    out, x = np.empty(n), rng.normal(0, deviation)
    for i in range(n):
        x = rho * x + shocks[i]
        out[i] = x
    return out


def jumps(rng, n, gap, size):
    out = (rng.random(n) < 1 / gap) * size * rng.exponential(1, n)
    return out * rng.choice([-1, 1], n)


class Program:
    """A program of a family.

    For half of the seeds, the imbalance grows with the iterations since the previous LB step; for
    the other half, with all iterations of the run (in families that allow both).  again=True: the
    same program, but with other random noise, jumps and walks.
    """

    def __init__(self, family, seed, again=False):
        rng = np.random.default_rng([seed, FAMILIES.index(family)])
        self.other = np.random.default_rng([seed, FAMILIES.index(family), 1]) if again else None
        self.family, self.seed = family, seed
        self.n = n = int(rng.integers(300, 1001))
        self.size = size = log_uniform(rng, 0.05, 1.0)  # the largest max/mean - 1
        self.renews = seed % 2 == 0
        self.parts = {}
        self.known = {}  # parameters of a random process, for the bounds
        self.left = None  # the part of the imbalance that no LB step removes; None: by strategy
        getattr(self, family)(rng, n, size, np.arange(n))
        white = rng.choice([0.0, 0.01, 0.05])
        noise = self._drawn(rng, lambda r: np.abs(r.normal(0, white, n))) if white else np.zeros(n)
        if seed % 4 == 3:  # spikes
            noise += self._drawn(rng, lambda r: (r.random(n) < 0.01) * r.uniform(0.5, 2, n))
        if family != "steady":
            self.parts["noise"] = self.parts.get("noise", 0.0) + noise
        self.floor = 0.0 if family.startswith("steady") else rng.uniform(0.05, 0.3)
        self.costs = COSTS
        if family == "free":
            self.costs = {name: cost / 1000 for name, cost in COSTS.items()}

    def _drawn(self, rng, draw):
        """Return ``draw(rng)``; if the program runs again, other random numbers."""
        out = draw(rng)
        return out if self.other is None else draw(self.other)

    def _both(self, curve):
        self.parts["growth" if self.renews else "drift"] = curve

    def constant(self, rng, n, size, k):
        """Draw an imbalance that no LB step removes, or one that the first LB step removes."""
        if self.renews:
            self.parts["growth"] = np.full(n, size)
        else:
            self.parts.update(drift=np.zeros(n), start=size)

    def sublinear(self, rng, n, size, k):
        self._both(size * ((k + 1) / n) ** rng.uniform(0.25, 0.75))

    def linear(self, rng, n, size, k):
        self._both(size * (k + 1) / n * log_uniform(rng, 0.5, 5))

    def sigmoid(self, rng, n, size, k):
        if self.renews:
            middle = log_uniform(rng, 0.05 * n, 0.6 * n)
            width = middle * rng.uniform(0.08, 0.3)
        else:
            middle, width = rng.uniform(0.1, 0.9) * n, n * rng.uniform(0.01, 0.1)
        curve = size / (1 + np.exp(-(k - middle) / width))
        self._both(curve)
        self.parts["start"] = curve[0]

    def steps(self, rng, n, size, k):
        gap = log_uniform(rng, 15, n / 1.5)
        self.parts["drift"] = np.cumsum(self._drawn(rng, lambda r: jumps(r, n, gap, size)))
        self.known = {"gap": gap, "jump": size}

    def walk(self, rng, n, size, k):
        path = np.cumsum(self._drawn(rng, lambda r: r.normal(0, size / math.sqrt(n), n)))
        times = log_uniform(rng, 0.5, 3)
        self.parts["drift"] = path * times
        self.known = {"step": size / math.sqrt(n) * times}

    def noise(self, rng, n, size, k):
        """Draw an autocorrelated imbalance: added to a linear growth, or as the state itself."""
        rho = 1 - log_uniform(rng, 0.005, 0.3)
        if self.renews:
            self.parts["growth"] = size * (k + 1) / n * log_uniform(rng, 0.5, 5)
            deviation = log_uniform(rng, 0.02, 0.2)
            noise = self._drawn(rng, lambda r: autoregressive(r, n, rho, deviation))
            self.parts["noise"] = noise
        else:
            drift = self._drawn(rng, lambda r: autoregressive(r, n, rho, size / 2))
            self.parts["drift"] = drift
            self.known = {"rho": rho, "deviation": size / 2}

    def periodic(self, rng, n, size, k):
        period, phase = log_uniform(rng, 15, n / 2), rng.uniform(0, 2 * math.pi)
        if self.renews:
            self.parts["growth"] = size / 2 * (1 - np.cos(2 * math.pi * (k + 1) / period))
        else:
            wave = size / 2 * np.sin(2 * math.pi * k / period + phase)
            self.parts.update(drift=wave, start=wave[0])

    def steady(self, rng, n, size, k):
        """Draw an imbalance from the first placement that the first LB step removes: no noise."""
        self.parts.update(drift=np.zeros(n), start=size)

    def steady_noise(self, rng, n, size, k):
        self.steady(rng, n, size, k)
        self.parts["noise"] = self._drawn(rng, lambda r: np.abs(r.normal(0, 0.05, n)))

    def residual(self, rng, n, size, k):
        """Draw a steady imbalance of which LB steps leave a part, or all of it."""
        self.left = size * rng.choice([rng.uniform(0.2, 0.8), 1.0])
        self.parts.update(drift=np.zeros(n), start=size - self.left)

    def free(self, rng, n, size, k):
        """Draw a program of another family; its LB steps cost nearly nothing."""
        names = FAMILIES[: FAMILIES.index("residual") + 1]
        getattr(self, str(rng.choice(names)))(rng, n, size, k)

    def imbalance(self, perfect):
        residual = self.left if self.left is not None else 0.0 if perfect else self.floor
        return pylb.replaying.Imbalance(1.0, iterations=self.n, residual=residual, **self.parts)


# ---- regrets --------------------------------------------------------------------------------


def periods(n):
    """Return the fixed periods to try: all short ones, then in steps of 3 percent."""
    k = 1
    while k < n:
        yield k
        k = k + 1 if k < 40 else int(k * 1.03) + 1


def handicapped(name="auto", end=None, cost=math.nan):
    """Return a trigger and what it knows, as arguments of `Imbalance.run`."""
    return {"trigger": name, "expect": (end, cost)}


def regrets(task):
    """Return the family of one program, and {(cost, strategy): {trigger: regret}}."""
    family, seed = task
    program, again, out = Program(family, seed), Program(family, seed, again=True), {}
    for perfect in (True, False):
        run, other = program.imbalance(perfect), again.imbalance(perfect)
        for name, cost in program.costs.items():
            best = run.optimum(cost)
            row = {t: run.run(t, cost=cost).regret(best) for t in TRIGGERS}
            blind = {"auto, end unknown": handicapped(cost=cost)}
            blind["auto, both unknown"] = handicapped()
            blind["auto, half the cost"] = handicapped(end=program.n, cost=cost / 2)
            blind["auto, twice the cost"] = handicapped(end=program.n, cost=cost * 2)
            blind |= {f"{t}, cost unknown": handicapped(t, end=program.n) for t in NEED_COST}
            for t, known in blind.items():
                row[t] = run.run(**known, cost=cost).regret(best)
            learned = run.run(**handicapped(), cost=cost).learned
            second = {**handicapped(), "cost": cost, "experience": learned}
            row["auto, second run"] = run.run(**second).regret(best)
            row["auto, second run, other noise"] = other.run(**second).regret(other.optimum(cost))
            row["best period"] = min(
                run.run(every=k, cost=cost).regret(best) for k in periods(program.n)
            )
            out[name, "perfect" if perfect else "imperfect"] = row
    return family, out


def collect(pool, seeds):
    """Return {trigger: {(family, cost, strategy): [regret of each seed]}}."""
    out = collections.defaultdict(lambda: collections.defaultdict(list))
    tasks = [(family, seed) for family in FAMILIES for seed in seeds]
    for family, cells in pool.imap_unordered(regrets, tasks, chunksize=8):
        for (cost, strategy), row in cells.items():
            for trigger, regret in row.items():
                out[trigger][family, cost, strategy].append(100 * regret)
    return out


def mean_of(cells, family=None, cost=None):
    return float(
        np.mean(
            [
                x
                for (f, c, _), values in cells.items()
                if family in (None, f) and cost in (None, c)
                for x in values
            ]
        )
    )


def summary(cells):
    """Return the mean and the worst regrets of one trigger."""
    worst = max(
        ((f, c) for f in FAMILIES for c in COSTS), key=lambda at: mean_of(cells, at[0], at[1])
    )
    return {
        "families": {f: mean_of(cells, f) for f in FAMILIES},
        "mean": mean_of(cells),
        "worst_cell": {"family": worst[0], "cost": worst[1], "regret": mean_of(cells, *worst)},
        "worst_program": max(max(values) for values in cells.values()),
    }


def print_table(rows):
    print(f"{'mean regret, %':27}" + "".join(f"{f:>10}" for f in FAMILIES), end="")
    print(f"{'all':>8}  worst family and cost  worst program")
    for trigger, row in rows.items():
        cell = row["worst_cell"]
        print(f"{trigger:27}" + "".join(f"{x:10.2f}" for x in row["families"].values()), end="")
        print(
            f"{row['mean']:8.2f}{cell['regret']:8.2f} {cell['family']}, {cell['cost']}"
            f"{row['worst_program']:11.1f}"
        )


def verdicts(families):
    """Return {trigger: its regrets, their limits, and whether the limits are kept}."""
    out = {}
    for t, (mean, worst) in LIMITS.items():
        row = {"mean": families[t]["mean"], "worst": families[t]["worst_cell"]["regret"]}
        out[t] = row | {
            "limits": {"mean": mean, "worst": worst},
            "kept": {"mean": row["mean"] <= mean, "worst": row["worst"] <= worst},
        }
    return out


def print_verdicts(rows):
    for t, row in rows.items():
        for what, name in (("mean", "mean regret"), ("worst", "worst family and cost")):
            print(
                f"{'kept' if row['kept'][what] else 'NOT KEPT'}: {t}, {name} {row[what]:.2f} %, "
                f"limit {row['limits'][what]:g} %"
            )


# ---- constant programs ----------------------------------------------------------------------


def first_lb_step(name, ratio, n, **known):
    """Return the number of iterations before the first LB step; None if there is none."""
    program = pylb.replaying.Imbalance(1.0, drift=np.zeros(n), start=ratio - 1.0)
    run = program.run(**handicapped(name, **known), cost=COSTS["medium"])
    return int(run.iterations[0]) + 1 if len(run.iterations) else None


def constant_programs():
    """Return {program: {trigger: iterations before the first LB step, by what is known}}."""
    out = {}
    for ratio, n in CONSTANT:
        out[f"max/mean {ratio}, {n} iterations"] = {
            t: {
                "cost known": first_lb_step(t, ratio, n, end=n, cost=COSTS["medium"]),
                "cost unknown": first_lb_step(t, ratio, n, end=n),
                "both unknown": first_lb_step(t, ratio, n),
            }
            for t in NEED_COST
        }
    return out


def print_constant(out):
    print("\nconstant programs: iterations before the first LB step (its cost: 10 iterations)")
    for name, rows in out.items():
        print(f"{name:47}" + "".join(f"{t:>13}" for t in rows))
        for known in ("cost known", "cost unknown", "both unknown"):
            cells = (rows[t][known] or "never" for t in rows)
            print(f"{'  ' + known:47}" + "".join(f"{cell:>13}" for cell in cells))
    rows = out["max/mean 2.0, 80 iterations"]
    for known in ("cost unknown", "both unknown"):
        for t in NEED_COST:
            kept = (rows[t][known] or math.inf) <= WITHIN
            print(f"{'kept' if kept else 'NOT KEPT'}: {t}, {known}: limit {WITHIN}")


# ---- what no rule can beat ------------------------------------------------------------------


def levels_of_state(kernel, state, cost, n):
    """Return the state from which on the optimal rule rebalances, by the number of iterations left.

    The imbalance is |state|; it moves by `kernel`, and is zero after an LB step.
    """
    middle = len(state) // 2
    value, out = np.zeros(len(state)), np.full(n, np.inf)
    for left in range(n):
        balanced = cost + value[middle]
        above = np.flatnonzero(value[middle:] > balanced)
        if len(above):
            out[left] = state[middle + above[0]]
        value = kernel @ (np.abs(state) + np.minimum(value, balanced))
    return out


def rows_to_one(kernel):
    return kernel / kernel.sum(1, keepdims=True)


def knows_increments(program, cost):
    """Return the optimal rule for steps and walks: f(iterations left, state, balanced state).

    The balanced state is the one at the most recent LB step, for which the placement was made.
    """
    known, n = program.known, program.n
    if program.family == "walk":
        step = known["step"]
        state = np.linspace(-1, 1, 401) * min(4 * step * math.sqrt(n), max(8 * step, cost))
        kernel = np.exp(-0.5 * ((state[:, None] - state) / step) ** 2)
    else:
        gap, jump = known["gap"], known["jump"]
        state = np.linspace(-1, 1, 401) * min(
            6 * jump * max(1, math.sqrt(n / gap)), cost + 6 * jump
        )
        kernel = np.exp(-np.abs(state[:, None] - state) / jump)
        kernel = (1 - 1 / gap) * np.eye(401) + rows_to_one(kernel) / gap
    level = levels_of_state(rows_to_one(kernel), state, cost, n)
    return lambda left, x, fits: abs(x - fits) >= level[left]


def knows_autoregression(program, cost):
    """Return the optimal rule for a state that returns to zero; see `knows_increments`."""
    rho, deviation = program.known["rho"], program.known["deviation"]
    grid = np.linspace(-4, 4, 121) * deviation
    kernel = (grid - rho * grid[:, None]) / (deviation * math.sqrt(1 - rho**2))
    kernel = rows_to_one(np.exp(-0.5 * kernel**2))
    apart = np.abs(grid[:, None] - grid)
    value, pays = np.zeros((121, 121)), []
    for _ in range(program.n):
        balanced = cost + np.diagonal(value)[:, None]
        pays.append(value > balanced)
        value = kernel @ (apart + np.minimum(value, balanced))

    def at(x):
        return int(np.clip(round((x / deviation + 4) * 15), 0, 120))

    return lambda left, x, fits: pays[left][at(x), at(fits)]


def bound(task):
    """Return (family, cost, regret) of the rule that knows the process, for one program."""
    family, seed, name = task
    program, cost = Program(family, seed), COSTS[name]
    knows = knows_autoregression if family == "noise" else knows_increments
    rule, out = knows(program, cost), []
    for perfect in (True, False):
        run = program.imbalance(perfect)
        total = fits = 0.0
        for i, x in enumerate(run.drift):
            total += 1 + max(0.0, run.residual + abs(x - fits) + run.noise[i])
            if i + 1 < program.n and rule(program.n - 1 - i, x, fits):
                total, fits = total + cost, x
        out.append(100 * (total / run.optimum(cost).time - 1))
    return family, name, out


def bounds(pool, seeds):
    """Return {family: {cost: mean regret}}; family `noise` counts only with random states."""
    tasks = [
        (family, seed, cost)
        for family in ("steps", "walk", "noise")
        for seed in seeds
        for cost in COSTS
        if family != "noise" or seed % 2
    ]
    out = collections.defaultdict(lambda: collections.defaultdict(list))
    for family, cost, values in pool.imap_unordered(bound, tasks):
        out[family][cost] += values
    return {f: {c: float(np.mean(x)) for c, x in row.items()} for f, row in out.items()}


def time_left(run, cost):
    """Return the shortest time from each iteration to the end, if an LB step comes just before."""
    n, value = run.iterations, np.zeros(run.iterations + 1)
    growth, drift, noise = (
        np.zeros(n) if x is None else x for x in (run.growth, run.drift, run.noise)
    )
    for s in range(n - 1, 0, -1):
        state = run.residual + growth[: n - s] + np.abs(drift[s:] - drift[s - 1]) + noise[s:]
        after = cost + value[s + 1 :]
        after[-1] = 0.0  # no LB step after the last iteration
        value[s] = (np.cumsum(1 + np.maximum(state, 0)) + after).min()
    return value[1:]


def latest_trial(run):
    """Return the iteration after which a first LB step must come if it may not be known to fail.

    It is the one at which a steady imbalance has cost TRIAL balanced iterations.
    """
    parts = {name: getattr(run, name) for name in ("growth", "drift", "start", "residual")}
    calm = pylb.replaying.Imbalance(1.0, iterations=run.iterations, **parts)  # without noise
    u = calm.run(every=run.iterations + 1, cost=0.0).iteration_time - 1
    cost = np.minimum.accumulate(u) * np.arange(1, len(u) + 1)
    return int(np.argmax(cost >= TRIAL)) if cost.max() >= TRIAL else len(u) - 1


def untold_bound(task):
    """Return (family, {cost: regret}); the first LB step comes when the mean regret is smallest.

    tries: it comes at the latest when a steady imbalance has cost TRIAL balanced iterations.
    """
    family, seed, tries = task
    program, out = Program(family, seed), []
    for perfect in (True, False):
        run = program.imbalance(perfect)
        never = run.run(every=run.iterations + 1, cost=0.0).iteration_time
        begin, rows = np.cumsum(never), []
        for cost in program.costs.values():
            row = begin + cost + time_left(run, cost)
            row[-1] = begin[-1]
            rows.append(100 * (row / row.min() - 1))
        until = latest_trial(run) + 1 if tries else None
        out.append(np.array(rows)[:, np.mean(rows, 0)[:until].argmin()])
    return family, dict(zip(COSTS, np.mean(out, 0), strict=True))


def untold_bounds(pool, seeds, tries):
    """Return {family: {cost: mean regret}} of a rule that knows all but the cost of an LB step."""
    out = collections.defaultdict(list)
    tasks = [(f, s, tries) for f in FAMILIES for s in seeds]
    for family, row in pool.imap_unordered(untold_bound, tasks):
        out[family].append(row)
    return {f: {c: float(np.mean([r[c] for r in rows])) for c in COSTS} for f, rows in out.items()}


# ---- published model and recorded runs ------------------------------------------------------

PUBLISHED = {
    "0.1": lambda k: 0.1,
    "1/(0.4k+1)": lambda k: 1 / (0.4 * k + 1),
    "0.02k": lambda k: 0.02 * k,
    "0.8-0.1(k mod 17)": lambda k: 0.8 - 0.1 * (k % 17),
}


def published():
    out = {}
    for name, rate in PUBLISHED.items():
        program = pylb.replaying.Imbalance.from_rates(0.52, rate, 500)
        best = program.optimum(52.0)
        out[name] = {"optimum": best.time, "n_lb_steps": len(best.iterations)}
        out[name] |= {t: 100 * program.run(t, cost=52.0).regret(best) for t in TRIGGERS}
    return out


def recorded_runs():
    yield "hot spot, 8 ranks, 96 objects", pylb.replaying.hotspot(8, 96, 200)
    yield "hot spot, 16 ranks, 256 objects", pylb.replaying.hotspot(16, 256, 1000)
    root = Path(__file__).resolve().parents[1]
    data = Path(os.environ.get("PYLB_DATA", root / ".." / "shared" / "data"))
    for folder in sorted(p for p in data.glob("*") if p.is_dir()):
        for stem in pylb.Trace.stems(folder):
            yield f"{folder.name}/{stem}", pylb.Trace.load(folder, stem=stem)


def recorded():
    """Return {run: {cost in mean phases: {trigger: regret}}}."""
    out = {}
    for name, trace in recorded_runs():
        if trace.n_phases < 3:
            continue
        mean = float(trace.replay("none").metrics["mean"].mean())
        out[name] = {}
        for share in (0.1, 1.0, 10.0):
            best = trace.optimum("GreedyLB", cost=share * mean)
            out[name][share] = {"n_lb_steps": len(best.iterations)} | {
                t: 100 * trace.replay("GreedyLB", trigger=t, cost=share * mean).regret(best)
                for t in TRIGGERS
            }
    return out


# ---- the whole benchmark --------------------------------------------------------------------


def print_runs(title, rows):
    print(f"\n{title}: regret, %\n{'':47}" + "".join(f"{t:>13}" for t in TRIGGERS))
    for name, row in rows:
        print(f"{name:47}" + "".join(f"{row[t]:13.2f}" for t in TRIGGERS))


def print_bounds(least):
    for rule, rows in least.items():
        print(f"\nthe best rule that {rule}: mean regret, %")
        for family, row in rows.items():
            print(f"{family:22}" + "".join(f"{cost:>12} {row[cost]:5.2f}" for cost in COSTS))
        print(f"{'all':22}{np.mean([x for row in rows.values() for x in row.values()]):18.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="programs of each family")
    parser.add_argument("--first", type=int, default=20_000, help="first seed")
    parser.add_argument("--bounds", type=int, default=0, help="seeds for the bounds (0: no bounds)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.seeds)
    with multiprocessing.Pool(args.jobs) as pool:
        cells = collect(pool, seeds)
        order = ["best period", *TRIGGERS, *HANDICAPPED]
        families = {t: summary(cells[t]) for t in order}
        print(f"{args.seeds} programs of each family, 3 costs, 2 strategies")
        print_table(families)
        kept = verdicts(families)
        print_verdicts(kept)
        least = {}
        if args.bounds:
            least["knows the process"] = bounds(pool, seeds[: args.bounds])
            some = seeds[: args.bounds]
            some, name = seeds[: args.bounds], "knows all but the cost"
            least[name] = untold_bounds(pool, some, tries=False)
            least[f"{name}, and tries"] = untold_bounds(pool, some, tries=True)
    print_bounds(least)
    constant = constant_programs()
    print_constant(constant)
    model, runs = published(), recorded()
    print_runs(
        "published model",
        [(f"{n}: {r['optimum']:.2f} s, {r['n_lb_steps']} LB steps", r) for n, r in model.items()],
    )
    print_runs(
        "runs, GreedyLB",
        [(f"{n}, cost {share}", r) for n, row in runs.items() for share, r in row.items()],
    )
    if args.json:
        per_cell = {
            t: [
                {"family": f, "cost": c, "strategy": s, "regret": float(np.mean(x))}
                for (f, c, s), x in sorted(cells[t].items())
            ]
            for t in order
        }
        with open(args.json, "w") as file:
            json.dump(
                {
                    "arguments": vars(args),
                    "families": families,
                    "verdicts": kept,
                    "constant": constant,
                    "cells": per_cell,
                    "bounds": least,
                    "published": model,
                    "runs": runs,
                },
                file,
                indent=2,
            )


if __name__ == "__main__":
    main()

"""Experts and packs: max/mean, time and migrations beside the published algorithms.

    python benchmarks/copies.py [--only experts|packs|schedules] [--seed 1] [--histories 1000]
                                [--peers FOLDER] [--json out/copies.json]

All times are CPU times, the shortest of several calls; the functions of a row take turns.

Experts: 58 layers of 256 experts, 288 slots on 32 ranks, one core.  "over" is the max/mean of the
worst layer above the lower bound, in %; "EPLB" is a twin of DeepSeek's algorithm in NumPy
(tests/twins/twin_copies.py), and "FlashLB" one of vLLM-Ascend's (below; its time says nothing, as
the original is compiled).  Then all loads change by 5 % (log-normal), and "moved" are the copies on
ranks that did not hold the expert, in % of all copies.  "must move": at least so many, if no expert
gets more or fewer copies.  "uneven": with shares of the copies that pylb gives (even=False).

Packs: items dealt out to bins.  "KK" is a twin of Karmarkar and Karp's method in plain Python,
which is what training frameworks run; "over" is the largest bin above the lower bound, in %.  With
--solver, HiGHS (scipy) looks for 20 s for a packing that reaches the bound within 0.1 %, where ours
does not.

Peers: --peers names a folder with the unpacked wheel of verl (pip download --no-deps verl): its own
Karmarkar-Karp runs beside the twin.

Schedules: load histories, replayed; a rearrangement costs 1 ms to 20 s.  The decider
of `pylb.Advisor(ranks=p, cost=c)` sees the seconds of each rank, step after step, and says when
to rearrange.  "of never" is the time without any LB step, divided by the time with it (worst case:
above 0.99 is the aim); "of best" is the time of the best schedule, which only the whole
history shows (dynamic programming), divided by it.  With a budget of b, an LB step is left out
where the time up to its end could exceed 1 + b times that of no LB step, wherever the history ends.
"possible" is the same for the best schedule within the budget, which no decider can surpass.

Figures: docs/measured/experts.md.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import sys
import time
from pathlib import Path

import numpy as np
from common.figures import save
from replay import Estimates
from scipy import optimize

import pylb
from pylb.console import show

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from twins import twin_copies

LAYERS, EXPERTS, SLOTS, RANKS = 58, 256, 288, 32
LOADS = {
    "Zipf 0.6": ("zipf", 0.6),
    "Zipf 1": ("zipf", 1.0),
    "Zipf 1.3": ("zipf", 1.3),
    "Zipf 2": ("zipf", 2.0),
    "Dirichlet 0.1": ("dirichlet", 0.1),
    "Dirichlet 0.3": ("dirichlet", 0.3),
    "Dirichlet 1": ("dirichlet", 1.0),
}
COSTS = (0.001, 0.01, 0.1, 1.0, 20.0)
EVERY = (10, 30, 100, 300)


def cpu_ms(*calls, repeats=5):
    """Return the shortest CPU time of each call in milliseconds; the calls take turns."""
    least = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            begin = time.process_time()
            call()
            least[i] = min(least[i], 1e3 * (time.process_time() - begin))
    return least


def peer(folder, path, name):
    """Return one function of a peer's module; None if the module is not there.

    The function alone, since its module imports much that the function does not need.
    """
    if folder is None or not (Path(folder) / path).exists():
        return None
    tree = ast.parse((Path(folder) / path).read_text())
    tree.body = [x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == name]
    names = {"heapq": heapq}
    exec(compile(tree, path, "exec"), names)  # noqa: S102
    return names[name]


# ---- experts ------------------------------------------------------------------------------------


class FlashLB:
    """Place one layer as FlashLB does, policy_flashlb.py of vLLM-Ascend, with one sample of loads.

    The experts, heaviest first, are four groups.  For one group after the other, its number of
    further copies is the one, up to 8 from that of the parametric rule, with the best placement of
    all; the copies go to the least loaded rank.  A layer is placed again if mean/max is below 0.9
    or below 0.95 of what it was; its rows then go to the ranks where most copies can stay.
    """

    GROUPS, WIDTH, LOW, LOWER = 4, 8, 0.9, 0.95

    def __init__(self) -> None:
        self.slots: np.ndarray | None = None  #: (ranks, slots of each) the expert in each slot

    def __call__(self, load: np.ndarray) -> tuple[float, int]:
        """Place the layer; return max/mean and the number of copies that moved."""
        before = self.slots
        if before is not None:
            now = self.ratio(load, before)
            if 1 / now >= max(self.LOW, self.LOWER / self.was):
                return now, 0
        self.slots = slots = self.placed(load, self.counts(load))
        self.was = self.ratio(load, slots)
        if before is None:
            return self.was, 0
        same = np.array([[len(np.intersect1d(a, b)) for b in slots] for a in before])
        rank, row = optimize.linear_sum_assignment(-same)
        self.slots = slots[row]
        return self.was, SLOTS - int(same[rank, row].sum())

    def counts(self, load: np.ndarray) -> np.ndarray:
        """Return the number of copies of each expert."""
        order, left = np.argsort(-load, kind="stable"), SLOTS - EXPERTS
        out, size = np.ones(EXPERTS, int), -(-EXPERTS // self.GROUPS)
        for first in range(0, EXPERTS - size, size):
            own, rest = order[first : first + size], order[first + size :]
            both = parametric(load[order[first:]], left)[-1]
            own_counts, rest_counts = parametric(load[own], left), parametric(load[rest], left)
            middle, tried = int((both[:size] - 1).sum()), []
            for extra in range(max(middle - self.WIDTH, 0), min(middle + self.WIDTH, left) + 1):
                out[own], out[rest] = own_counts[extra], rest_counts[left - extra]
                ratio = self.ratio(load, self.placed(load, out))
                tried.append((ratio, abs(extra - middle), extra))
            extra = min(tried)[2]
            left -= extra
            out[own], out[rest] = own_counts[extra], rest_counts[left]
        return out

    @staticmethod
    def placed(load: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
        """Return the expert in each slot; None: a copy finds only ranks with this expert."""
        one, heap = load / counts, [(0.0, r) for r in range(RANKS)]
        held: list[list[int]] = [[] for _ in heap]
        for expert in np.argsort(-one, kind="stable").tolist():
            if len(heap) < counts[expert]:
                return None
            for time_, rank in [heapq.heappop(heap) for _ in range(counts[expert])]:
                held[rank].append(expert)
                if len(held[rank]) < SLOTS // RANKS:
                    heapq.heappush(heap, (time_ + one[expert], rank))
        return np.array(held)

    @staticmethod
    def ratio(load: np.ndarray, slots: np.ndarray | None) -> float:
        if slots is None:
            return np.inf
        times = twin_copies.times(load, slots.ravel(), RANKS)
        return float(times.max() / times.mean())


def parametric(load: np.ndarray, extra: int) -> np.ndarray:
    """Return (extra + 1, experts) numbers of copies: each further copy for the largest one."""
    out = np.ones((extra + 1, len(load)), int)
    for i in range(extra):
        out[i + 1] = out[i]
        out[i + 1, np.argmax(load / out[i])] += 1
    return out


def must_move(load: np.ndarray, plan: np.ndarray, bound: float) -> float:
    """Return the part of the copies that must move to come within 0.5 % of the bound.

    If the numbers of copies do not change, one slot at least must change on each rank above, and on
    as many others as can take together what these have too much.
    """
    times = twin_copies.times(load, plan, RANKS)
    over_ = times - 1.005 * bound * times.mean()
    room = np.sort(-over_[over_ < 0])[::-1].cumsum()
    above = over_[over_ > 0]
    return (len(above) + np.searchsorted(room, above.sum()) + bool(len(above))) / SLOTS


def expert_loads(kind: str, number: float, rng: np.random.Generator) -> np.ndarray:
    """Return tokens of each expert, (layers, experts)."""
    if kind == "zipf":
        ranks = np.tile(np.arange(1.0, EXPERTS + 1), (LAYERS, 1))
        loads = rng.permuted(ranks**-number, axis=1)
    else:
        loads = rng.dirichlet(np.full(EXPERTS, number), LAYERS)
    return 1e4 * loads * rng.lognormal(0.0, 0.05, loads.shape)


def over(plan: pylb.placing.Copies) -> float:
    """Return how much the worst layer is above its bound, in %."""
    return 100.0 * float((plan.max_over_mean / plan.bound - 1.0).max())


def experts(seed: int) -> list[dict[str, object]]:
    out = []
    for name, (kind, number) in LOADS.items():
        rng = np.random.default_rng(seed)
        loads = expert_loads(kind, number, rng)
        later = loads * rng.lognormal(0.0, 0.05, loads.shape)
        keys = {"slots": SLOTS, "ranks": RANKS}

        def place(loads=loads, keys=keys, **more):
            return pylb.place(loads, "CopiesLB", **keys, **more)

        first = place()
        again = place(later, previous=first)
        shared = place(even=False)
        shared_again = place(later, previous=shared, even=False)
        at = first.copies["object"]
        slots = [twin_copies.eplb(x, SLOTS, n_gpus=RANKS) for x in loads]
        times = [twin_copies.times(x, y, RANKS) for x, y in zip(loads, slots, strict=True)]
        theirs = np.array([x.max() / x.mean() for x in times])
        afresh = [twin_copies.eplb(x, SLOTS, n_gpus=RANKS) for x in later]
        flash = [FlashLB() for _ in loads]
        flash_first = np.array([one(x)[0] for one, x in zip(flash, loads, strict=True)])
        flash_later = np.array([one(x) for one, x in zip(flash, later, strict=True)])
        ms, drift_ms, shared_ms, shared_drift_ms = cpu_ms(
            place,
            lambda: place(later, previous=first),  # noqa: B023
            lambda: place(even=False),
            lambda: place(later, previous=shared, even=False),  # noqa: B023
        )
        (eplb_ms,) = cpu_ms(
            lambda: [twin_copies.eplb(x, SLOTS, n_gpus=RANKS) for x in loads],  # noqa: B023
            repeats=1,
        )
        out.append(
            {
                "loads": name,
                "ms": ms,
                "over": over(first),
                "EPLB over": 100.0 * float((theirs / first.bound - 1.0).max()),
                "layers worse": int((first.max_over_mean > theirs * (1 + 1e-9)).sum()),
                "FlashLB over": 100.0 * float((flash_first / first.bound - 1.0).max()),
                "worse than FlashLB": int((first.max_over_mean > flash_first * 1.005).sum()),
                "EPLB ms": eplb_ms,
                "drift ms": drift_ms,
                "drift over": over(again),
                "moved": 100.0 * float(again.migrations.sum()) / again.share.size,
                "must move": 100.0
                * np.mean([must_move(*x) for x in zip(later, at, again.bound, strict=True)]),
                "EPLB moved": 100.0
                * np.mean([moved(a, b) for a, b in zip(slots, afresh, strict=True)]),
                "uneven ms": shared_ms,
                "uneven over": over(shared),
                "uneven: layers worse": int((shared.max_over_mean > theirs * (1 + 1e-9)).sum()),
                "uneven: drift ms": shared_drift_ms,
                "uneven: drift over": over(shared_again),
                "uneven: moved": 100.0 * float(shared_again.migrations.sum()) / shared.share.size,
                "FlashLB drift over": 100.0 * float((flash_later[:, 0] / again.bound - 1.0).max()),
                "FlashLB moved": 100.0 * flash_later[:, 1].sum() / again.share.size,
            }
        )
    return out


def moved(before: np.ndarray, now: np.ndarray) -> float:
    """Return the part of the copies on ranks that did not hold the object."""
    rank = np.arange(SLOTS) // (SLOTS // RANKS)
    old = set(zip(before.tolist(), rank.tolist(), strict=True))
    return sum(pair not in old for pair in zip(now.tolist(), rank.tolist(), strict=True)) / SLOTS


# ---- packs --------------------------------------------------------------------------------------


def lengths_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return tokens of each sequence, (n,)."""
    if kind == "log-normal":
        lengths = rng.lognormal(6.0, 1.0, n)
    else:
        long = rng.random(n) < 0.5
        lengths = np.where(long, rng.normal(4000, 400, n), rng.normal(200, 30, n))
    return np.clip(np.rint(lengths), 1, 32768)


def packs(seed: int, solver: bool, peers: str | None) -> list[dict[str, object]]:
    out = []
    verl = peer(peers, "verl/utils/seqlen_balancing.py", "karmarkar_karp")
    for kind in ("log-normal", "bimodal"):
        for n, bins in ((512, 8), (512, 64), (512, 256), (4096, 8), (4096, 256), (16384, 256)):
            for rule in ("", "equal", "capacity"):
                lengths = lengths_of(kind, n, np.random.default_rng(seed))
                listed, equal = lengths.astype(int).tolist(), rule == "equal"
                keys = {"equal": equal}
                if rule == "capacity":  # 1 % above the largest bin without one
                    keys["capacity"] = 1.01 * pylb.pack(lengths, bins).cost.max()
                pack = pylb.pack(lengths, bins, **keys)

                def worst(items, listed=listed, lengths=lengths, bins=bins, bound=pack.bound):
                    most = max(sum(listed[i] for i in one) for one in items)
                    return 100.0 * (most * bins / lengths.sum() / bound - 1.0)

                (ours,) = cpu_ms(lambda: pylb.pack(lengths, bins, **keys), repeats=20)  # noqa: B023
                row = {"lengths": kind, "items": n, "bins": bins, "rule": rule, "ms": ours}
                row["over"] = 100.0 * (pack.max_over_mean / pack.bound - 1.0)
                for name, function in {"KK": twin_copies.karmarkar_karp, "verl": verl}.items():
                    if function is not None and (name == "KK" or n * bins < 1 << 21):
                        found = []
                        (took,) = cpu_ms(
                            lambda: found.append(function(listed, bins, equal)),  # noqa: B023
                            repeats=3 if n * bins < 1 << 17 else 1,
                        )
                        row[f"{name} over"] = worst(found[0])
                        row[f"{name} / ours"] = took / ours
                if solver and row["over"] > 0.1:
                    row["bound is reachable"] = solve(lengths, bins, equal, pack.bound)
                out.append(row)
    return out


def solve(lengths: np.ndarray, bins: int, equal: bool, bound: float) -> str:
    """Say whether HiGHS finds a packing within 0.1 % of the bound, in 20 s."""
    from scipy import sparse

    n, most = len(lengths), 1.001 * bound * lengths.sum() / bins
    once = sparse.kron(sparse.eye(n), np.ones(bins), "csr")  # variables: item i is in bin b
    sums = sparse.kron(lengths, sparse.eye(bins), "csr")
    rows = [optimize.LinearConstraint(once, 1, 1), optimize.LinearConstraint(sums, 0, most)]
    if equal:
        of_bin = sparse.kron(np.ones(n), sparse.eye(bins), "csr")
        rows.append(optimize.LinearConstraint(of_bin, n // bins, -(-n // bins)))
    found = optimize.milp(
        np.zeros(n * bins),
        integrality=np.ones(n * bins),
        bounds=optimize.Bounds(0, 1),
        constraints=rows,
        options={"time_limit": 20.0},
    )
    return {0: "yes", 2: "no"}.get(found.status, "not known")


# ---- schedules ----------------------------------------------------------------------------------


def history(seed: int) -> tuple[str, int, int, np.ndarray]:
    """Return a name, ranks, slots and the seconds of each object in each step, (steps, objects)."""
    rng = np.random.default_rng(seed)
    p, steps = int(rng.choice([4, 8, 16])), int(rng.integers(200, 1200))
    n, kind = p * int(rng.integers(2, 6)), KINDS[seed % len(KINDS)]
    popular = rng.permutation(np.arange(1.0, n + 1) ** -rng.uniform(0.2, 1.2))
    t = np.arange(steps)[:, None]
    logs = np.tile(np.log(popular), (steps, 1))
    if kind == "drifting":
        logs += rng.normal(0.0, rng.uniform(0.003, 0.05), (steps, n)).cumsum(axis=0)
    elif kind == "jumping":
        for at in rng.integers(1, steps, rng.integers(1, 8)):
            logs[at:] = rng.permutation(logs[at])
    elif kind == "periodic":
        phase = rng.uniform(0, 2 * np.pi, n)
        logs += rng.uniform(0.2, 1.5) * np.sin(2 * np.pi * t / rng.uniform(20, steps) + phase)
    elif kind == "growing":
        logs += np.where(np.arange(n) < 2, np.log1p(rng.uniform(0.002, 0.05) * t), 0.0)
    elif kind == "noise":
        logs[:] = 0.0
    loads = np.exp(logs) * rng.lognormal(0.0, rng.choice([0.0, 0.02, 0.1]), (steps, n))
    step = 10.0 ** rng.uniform(-2, 0)  # seconds of a balanced step, at the beginning
    return kind, p, n + 2 * p, loads * (step * p / loads[0].sum())


KINDS = ("steady", "drifting", "jumping", "periodic", "growing", "noise")


class Replay:
    """Times of a history: of step t on each rank if the placement was made at the end of step s.

    Each placement is made by CopiesLB, from estimates of all steps so far, which follow pylb's own
    rule (replay.Estimates); row -1: from equal loads.
    """

    def __init__(self, loads: np.ndarray, p: int, slots: int) -> None:
        steps, n = loads.shape
        seen, estimates = np.ones((steps + 1, n)), Estimates(n)
        for t in range(steps):
            estimates.follow(loads[t])
            seen[t] = np.maximum(estimates.mean, 0.0)
        plan = pylb.place(seen, "CopiesLB", slots=slots, ranks=p)
        object_, rank = plan.copies["object"], plan.copies["rank"]
        self.loads, self.part = loads, np.zeros((steps + 1, p, n))
        for s in range(steps + 1):
            count = np.bincount(object_[s], minlength=n)
            np.add.at(self.part[s], (rank[s], object_[s]), 1.0 / count[object_[s]])

    def ranks(self, s: int, t: int) -> np.ndarray:
        return self.part[s] @ self.loads[t]

    def most(self) -> np.ndarray:
        """Return the seconds of the slowest rank, (s, t)."""
        return np.stack([(part @ self.loads.T).max(axis=0) for part in self.part])


def advised(
    replay: Replay, p: int, cost: float, never: np.ndarray, budget: float = np.inf
) -> tuple[float, int]:
    """Return the time of all steps and LB steps with pylb's decider, and the number of LB steps.

    budget: an LB step is left out if, with it, the time so far would be more than 1 + budget times
    that of no LB step, the sum of `never`.
    """
    lb = pylb.Advisor(ranks=p, cost=cost)
    s, total, last = -1, 0.0, len(replay.loads) - 1
    limit = (1 + budget) * never.cumsum()
    for t in range(last + 1):
        seconds = replay.ranks(s, t)
        total += float(seconds.max())
        if lb.advise(seconds=seconds) and t < last and total + cost <= limit[t]:
            lb.rebalanced(cost)
            s, total = t, total + cost
    return total, lb.n_lb_steps


def best_time(most: np.ndarray, cost: float, budget: float = np.inf) -> float:
    """Return the time of the best schedule: whatever it costs to know it.  budget: see advised."""
    steps = most.shape[1]
    limit = (1 + budget) * most[-1].cumsum()
    sums = np.hstack([np.zeros((steps + 1, 1)), most.cumsum(axis=1)])
    # least[s]: all up to the end of step s and an LB step there; row -1: the placement at first
    least = np.full(steps, np.inf)
    ahead = sums[-1].copy()  # ahead[t]: steps before t, if the best placement so far stays
    for s in range(steps - 1):
        least[s] = ahead[s + 1] + cost
        if least[s] > limit[s]:
            continue
        later = least[s] + sums[s, s + 1 :] - sums[s, s + 1]
        np.minimum(ahead[s + 1 :], later, out=ahead[s + 1 :])
    return float(ahead[-1])


def fixed_time(most: np.ndarray, cost: float, every: int) -> float:
    """Return the time with an LB step after every so many steps."""
    steps, s, total = most.shape[1], -1, 0.0
    for begin in range(0, steps, every):
        total += float(most[s, begin : begin + every].sum())
        s = begin + every - 1
        total += cost if s < steps - 1 else 0.0
    return total


def schedules(seeds: range) -> list[dict[str, object]]:
    """Replay each history with each cost."""
    out = []
    for seed in seeds:
        kind, p, slots, loads = history(seed)
        replay = Replay(loads, p, slots)
        most = replay.most()
        never = float(most[-1].sum())
        for cost in COSTS:
            ours, n_lb_steps = advised(replay, p, cost, most[-1])
            row = {"seed": seed, "kind": kind, "cost": cost, "LB steps": n_lb_steps}
            best = best_time(most, cost)
            row |= {"of never": never / ours, "of best": best / ours, "never": best / never}
            for b in BUDGETS:
                took, _ = advised(replay, p, cost, most[-1], b)
                row |= {f"of best {b}": best / took, f"of never {b}": never / took}
                row[f"possible {b}"] = best / best_time(most, cost, b)
            row |= {f"every {k}": best / fixed_time(most, cost, k) for k in EVERY}
            row |= {f"worst {k}": never / fixed_time(most, cost, k) for k in EVERY}
            out.append(row)
    return out


def summary(rows: list[dict[str, object]]) -> list[list[str]]:
    """Return a line for each cost, and for all together."""
    lines = []
    for cost in (*COSTS, None):
        of = [r for r in rows if cost in (None, r["cost"])]
        mean = {key: np.mean([r[key] for r in of]) for key in ("of best", "never")}
        fixed = max(EVERY, key=lambda k, of=of: np.mean([r[f"every {k}"] for r in of]))
        lines.append(
            [
                "all" if cost is None else f"{cost:g} s",
                f"{min(r['of never'] for r in of):.3f}",
                f"{mean['of best']:.3f}",
                f"{min(r['of best'] for r in of):.3f}",
                f"{mean['never']:.3f}",
                f"{np.mean([r[f'every {fixed}'] for r in of]):.3f} ({fixed})",
                f"{min(r[f'worst {fixed}'] for r in of):.3f}",
                f"{np.mean([r['LB steps'] for r in of]):.1f}",
                *(
                    f"{np.mean([r[f'of best {b}'] for r in of]):.3f}, "
                    f"{min(r[f'of never {b}'] for r in of):.3f}, "
                    f"{np.mean([r[f'possible {b}'] for r in of]):.3f}"
                    for b in BUDGETS
                ),
            ]
        )
    return lines


BUDGETS = (0.1, 0.03, 0.01)


HEAD = ["cost", "worst of never", "mean of best", "worst of best", "never: mean"]
HEAD += ["best fixed period: mean", "its worst of never", "LB steps"]
HEAD += [f"budget {b:.0%}: mean of best, worst of never, possible" for b in BUDGETS]


def table(rows: list[dict[str, object]]) -> None:
    def text(x: object) -> str:
        return f"{x:.3g}" if isinstance(x, float) else str(x)

    head = list(dict.fromkeys(key for row in rows for key in row))
    show(head, [[text(row.get(key, "")) for key in head] for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["experts", "packs", "schedules"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--solver", action="store_true", help="ask HiGHS where a pack is not tight")
    parser.add_argument("--peers", metavar="FOLDER", help="folder with verl's wheel, unpacked")
    parser.add_argument("--json", metavar="FILE", default="out/copies.json")
    args = parser.parse_args()
    results = {}
    if args.only in (None, "experts"):
        results["experts"] = experts(args.seed)
        table(results["experts"])
    if args.only in (None, "packs"):
        results["packs"] = packs(args.seed, args.solver, args.peers)
        table(results["packs"])
    if args.only in (None, "schedules"):
        first = args.seed * 1_000_000
        results["schedules"] = schedules(range(first, first + args.histories))
        show(HEAD, summary(results["schedules"]))
    save(args.json, results)


if __name__ == "__main__":
    main()

"""The consensus on 100 to a million ranks, and whole LB steps: the figures of docs/consensus.md.

    python benchmarks/protocol.py [--most 100000] [--steps 10000]

A rank of the program works for 10 ms plus an exponential delay (mean: 2 %), and then waits for data
of its two neighbours on a ring.  Statistics, and the maxima of begun iterations, go up a binary
tree of the ranks, and the decisions of the root go down, with the times of a LogGP network (Culler
et al. 1993, Alexandrov et al. 1995).  A waiting rank passes messages on at once; a working one
either at the end of its work, or ten times per iteration, or at once.  docs/consensus.md describes
the rules; with T one iteration after the statistics that ask for an LB step, the ranks find
F = max(T, M).  Each array has an entry per rank, and each level of the tree is one step of NumPy.

Whole LB steps: the strategies really run, on objects on a square with a hot spot, each with 10 kB
and messages to two neighbours; the times of all other messages are those of the network.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from common.figures import save
from numpy.typing import NDArray

import pylb
from pylb import _core
from pylb.console import show
from pylb.model.snapshot import Rows

F64 = NDArray[np.float64]

# LogGP: latency, time to send or receive (also the gap), time per byte
L, OVERHEAD, G = 1e-6, 5e-7, 1e-10  # s, s, s/B
WORK, NOISE = 10e-3, 0.02  # s; mean of the delay, as a fraction of the work
ASKED = 20  # the iteration whose statistics ask for an LB step
STATS, WORD, HALO = _core.STATS_BYTES, 16, 1024  # bytes of messages
WAYS: dict[str, tuple[int, int]] = {  # times per iteration (0: at once), lag
    "at AtSync": (1, 0),
    "ten times an iteration": (10, 0),
    "at once": (0, 0),
    "at AtSync, D = 8": (1, 8),
    "at once, D = 2": (0, 2),
}
GROWS = {
    "at AtSync": "iterations",
    "ten times an iteration": "iterations",
    "at once": "pause",
    "at AtSync, D = 8": "lagged",
}
SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
STRATEGIES = ("BestFitLB", "GossipLB", "HierarchicalLB", "DiffusionLB")
OBJECT, EDGE, MOVE = 48, 40, 16  # bytes that rank 0 gets per object and edge; of a key and a rank


def message(nbytes: float) -> float:
    """Return the seconds from the sender to the receiver."""
    return L + 2.0 * OVERHEAD + max(nbytes - 1.0, 0.0) * G


# ---- the ranks and their tree ------------------------------------------------------------------


class Ranks:
    """When ranks work, and when messages pass through them.

    `begin` and `done` have a row for each iteration from `first` on, a ring buffer of `rows`.
    """

    def __init__(self, p: int, serves: int, rows: int, seed: int) -> None:
        self.p, self.serves, self.seed = p, serves, seed
        self.begin, self.done = np.full((rows, p), np.inf), np.full((rows, p), np.inf)
        depth = int(np.ceil(np.log2(p + 1)))
        self.levels = [(2**d - 1, min(2 ** (d + 1) - 1, p)) for d in range(depth)]

    def work(self, k: int, begin: F64, keep: bool = True) -> F64:
        """Let the ranks begin iteration k at these times; return when they are at AtSync."""
        rng = np.random.default_rng((self.seed, k))
        done = begin + WORK * (1.0 + NOISE * rng.exponential(size=self.p))
        if keep:
            row = k % len(self.begin)
            self.begin[row], self.done[row] = begin, done
        late = np.maximum(np.roll(begin, 1), np.roll(begin, -1)) + message(HALO)
        return np.maximum(done, late)

    def within(self, lo: int, hi: int, t: F64) -> tuple[F64, F64]:
        """Return begin and end of the work that ranks lo ... hi - 1 have begun before t."""
        begun = np.where(self.begin[:, lo:hi] < t, self.begin[:, lo:hi], -np.inf)
        row, column = begun.argmax(0), np.arange(hi - lo)
        return begun[row, column], self.done[row, lo + column]

    def passed_on(self, lo: int, hi: int, t: F64) -> F64:
        """Return when ranks pass on what arrives at t."""
        if self.serves == 0:
            return t
        begin, done = self.within(lo, hi, t)
        step = (done - begin) / self.serves
        with np.errstate(invalid="ignore"):
            at = begin + np.ceil((t - begin) / step) * step
        return np.where(t >= done, t, np.minimum(at, done))

    def taken(self, t: F64) -> F64:
        """Return when ranks process what arrives at t: not while they work."""
        return np.maximum(t, self.within(0, self.p, t)[1])

    def up(self, ready: F64, nbytes: int) -> float:
        """Reduce what each rank contributes at `ready`; return when the root has the result."""
        ready = ready.copy()
        for lo, hi in self.levels[:0:-1]:
            arrives = self.passed_on(lo, hi, ready[lo:hi]) + message(nbytes)
            parent = (lo - 1) // 2
            for child in range(2):
                some = arrives[child::2]
                of = slice(parent, parent + len(some))
                ready[of] = np.maximum(ready[of], some)
        return float(self.passed_on(0, 1, ready[:1])[0])

    def down(self, root: float, nbytes: int) -> F64:
        """Send a message of the root to all; return when each rank passes it on."""
        out = np.full(self.p, root)
        gap = OVERHEAD + max(nbytes - 1.0, 0.0) * G
        for lo, hi in self.levels[1:]:
            child = np.arange(lo, hi) - 1
            arrives = out[child // 2] + gap * (child % 2) + message(nbytes)
            out[lo:hi] = self.passed_on(lo, hi, arrives)
        return out


# ---- one decision without a lag ----------------------------------------------------------------


def consensus(p: int, serves: int, seed: int) -> dict[str, float]:
    """Simulate the run until all ranks know F."""
    depth = int(np.ceil(np.log2(p + 1)))
    most = 2 * depth + 6  # iterations that ranks may begin before they know F
    ranks = Ranks(p, serves, most, seed)
    start = np.zeros(p)
    for k in range(1, ASKED):
        start = ranks.work(k, start, keep=False)
    tentative = ASKED + 1
    stop = np.full(p, ASKED + most)  # the iteration after which a rank pauses
    while True:  # the ranks that pause have an effect on the others only later: it ends
        begin, pauses, statistics = start, np.full(p, np.inf), start
        ranks.begin[:], ranks.done[:] = np.inf, np.inf
        for k in range(ASKED, ASKED + most):
            at = ranks.work(k, begin)
            statistics = at if k == ASKED else statistics
            pauses = np.where(stop == k, at, pauses)
            begin = np.where(stop <= k, np.inf, at)
        root = ranks.up(statistics, STATS)
        told = ranks.down(root, STATS)
        reach = ASKED - 1 + (ranks.begin < told).sum(0)  # M of each rank
        before, stop = stop, np.maximum(tentative, reach)
        if (before == stop).all():
            break
    all_reach = ranks.up(ranks.taken(told), WORD)
    known = ranks.taken(ranks.down(all_reach, WORD))
    with np.errstate(invalid="ignore"):
        pause = np.where(np.isfinite(pauses), np.maximum(known - pauses, 0.0), 0.0)
    return {
        "iterations": float(max(tentative, int(reach.max())) - ASKED),
        "seconds": float(known.max()) - root,
        "pause": float(pause.mean()) / WORK,
        "lagged": 0.0,
    }


def with_lag(p: int, serves: int, lag: int, seed: int, iterations: int = 40) -> dict[str, float]:
    """Simulate a run in which a rank at AtSync(k) waits for the statistics of k - lag."""
    ranks = Ranks(p, serves, lag + 2, seed)
    begin, lagged, sent = np.zeros(p), 0.0, []
    delay = 0.0
    for k in range(1, iterations + 1):
        at = ranks.work(k, begin)
        sent.append(at)
        begin = at
        if k > lag:
            root = ranks.up(sent[k - lag - 1], STATS)
            known = ranks.down(root, STATS)
            delay = float(known.max()) - root
            begin = np.maximum(at, known)
            lagged += float((begin - at).mean())
            sent[k - lag - 1] = at[:0]
    return {
        "iterations": float(lag),
        "seconds": delay,
        "pause": 0.0,
        "lagged": lagged / (iterations - lag) / WORK,
    }


def row_of(way: str, p: int) -> dict[str, Any]:
    """Return the means over several runs."""
    serves, lag = WAYS[way]
    begin = time.process_time()
    runs = range(16 if p <= 10_000 else 4 if p <= 100_000 else 1)
    done = [with_lag(p, serves, lag, i) if lag else consensus(p, serves, i) for i in runs]
    means = {name: float(np.mean([run[name] for run in done])) for name in done[0]}
    return {"way": way, "ranks": p, **means, "cpu_seconds": time.process_time() - begin}


def line(rows: list[dict[str, Any]], of: str) -> dict[str, float]:
    """Fit a line over log2 of the ranks; return it, and the part of the variance explained."""
    x, y = np.log2([r["ranks"] for r in rows]), np.array([r[of] for r in rows])
    slope, at_1 = np.polyfit(x, y, 1)
    rest, total = y - (slope * x + at_1), float(((y - y.mean()) ** 2).sum())
    explained = 1.0 - float((rest**2).sum()) / total if total > 0 else 1.0
    return {"slope": float(slope), "at_1": float(at_1), "explained": explained}


# ---- a whole LB step ---------------------------------------------------------------------------


class Part(NamedTuple):
    """Seconds of a part of an LB step, and the most bytes that a rank sends, gets and keeps."""

    name: str
    seconds: float
    sent: int
    received: int
    kept: int


def hot_spot(p: int, objects: int) -> pylb.Snapshot:
    """Return objects on a square, in 64-rank nodes; in the hot spot, they take 9 times as long."""
    n = objects * p
    rng, key = np.random.default_rng(1), np.arange(n)
    spot = np.exp(-0.5 * ((key / n - 0.5) / 0.05) ** 2)
    load = 1e-3 * (1.0 + 8.0 * spot) * rng.lognormal(0.0, 0.1, n)
    to = np.concatenate([(key + 1) % n, (key + int(np.sqrt(n))) % n])
    return pylb.Snapshot(
        load,
        key * p // n,
        n_ranks=p,
        edges=(np.tile(key, 2), to, np.full(2 * n, 8.0)),
        nbytes=np.full(n, 10_000),
        node=np.arange(p) // 64,
    )


def tree(p: int, nbytes: float) -> float:
    """Return the seconds up or down a binary tree, with one message per level."""
    return float(np.ceil(np.log2(p))) * message(nbytes)


def exchange(name: str, p: int, source: Any, target: Any, nbytes: Any, kept: int) -> Part:
    """Return the cost of a sparse exchange: one message per pair of ranks, then a reduction."""
    away = source != target
    source, target, nbytes = source[away], target[away], nbytes[away]
    a, b = np.divmod(np.unique(source.astype(np.int64) * p + target), p)
    messages = np.bincount(a, minlength=p) + np.bincount(b, minlength=p)
    out, into = (np.bincount(x, nbytes, minlength=p) for x in (source, target))
    seconds = float((messages * OVERHEAD + (out + into) * G).max()) + L + 2.0 * tree(p, STATS)
    return Part(name, seconds, int(out.max()), int(into.max()), kept)


def directory(s: pylb.Snapshot, rank: Any, moved: Any) -> Part:
    """Return the cost of telling homes, and ranks whose objects send, where moved objects are."""
    p = s.n_ranks
    home, rows = _core.home(np.arange(s.n_objects), p), Rows.of(s)
    size = np.full(len(moved), MOVE)
    told = exchange("", p, s.rank[moved], home[moved], size, 0)
    edge = np.flatnonzero(np.isin(rows.dst, moved))
    once = np.unique(rows.dst[edge].astype(np.int64) * p + rank[rows.src[edge]])
    tells = exchange("", p, home[once // p], once % p, np.full(len(once), MOVE), 0)
    both = (x + y for x, y in zip(told[1:4], tells[1:4], strict=True))
    return Part("directory", *both, MOVE * int(np.bincount(home, minlength=p).max()))


def lb_step(s: pylb.Snapshot, name: str) -> dict[str, Any]:
    """Return the parts of an LB step; bytes of several parts are not added up."""
    p = s.n_ranks
    parts = [Part("statistics", 2 * tree(p, STATS), *(3 * STATS,) * 3)]
    if name == "BestFitLB":  # a central strategy: rank 0 gets everything by a tree
        plan = pylb.place(s, name)
        rank, facts, moves = plan.rank, OBJECT * s.n_objects + EDGE * s.n_edges, 0
        moves = MOVE * plan.migrations
        parts += [
            Part("database", tree(p, 0) + facts * G, facts // 2, facts, facts),
            Part("strategy", plan.seconds, 0, 0, 0),
            Part("answer", tree(p, 0) + moves * G, moves, moves // 2, moves),
        ]
    else:  # the ranks share the time of the strategy, and get as much as they send
        begin = time.process_time()
        seen = pylb.placing.traffic(s, name)
        rank, computed = seen.rank, (time.process_time() - begin) / p
        rounds = seen.rounds * (L + 2.0 * tree(p, STATS))
        busiest = float((2.0 * seen.messages * OVERHEAD + 2.0 * seen.nbytes * G).max())
        most = int(seen.nbytes.max())
        parts.append(
            Part("strategy", rounds + busiest + computed, most, most, 24 * int(seen.held.max()))
        )
    moved = np.flatnonzero(rank != s.rank)
    size, target = s.nbytes[moved], rank[moved]
    kept = int(np.bincount(target, size, minlength=p).max())
    parts.append(exchange("migration", p, s.rank[moved], target, size, kept))
    parts.append(directory(s, rank, moved))
    return {
        "ranks": p,
        "strategy": name,
        "before": s.metrics.max_over_mean,
        "after": s.with_rank(rank).metrics.max_over_mean,
        "migrations": len(moved),
        "parts": [part._asdict() for part in parts],
    }


def cells_of(row: dict[str, Any]) -> list[Any]:
    """Return the cells of the printed row."""
    ms = {part["name"]: 1e3 * part["seconds"] for part in row["parts"]}
    names = ("statistics", "database", "strategy", "answer", "migration", "directory")
    kept = max(part["kept"] for part in row["parts"]) / 1e6
    return [
        row["ranks"], row["strategy"], row["before"], row["after"], row["migrations"],
        *(f"{ms[name]:.3g}" if name in ms else "" for name in names), f"{sum(ms.values()):.3g}",
        f"{kept:.3g}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=100_000, help="most ranks (%(default)s)")
    parser.add_argument("--steps", type=int, default=10_000, help="most ranks of an LB step")
    parser.add_argument("--objects", type=int, default=100, help="objects per rank of an LB step")
    parser.add_argument("--json", metavar="FILE", default="out/protocol.json")
    args = parser.parse_args()
    rows = [row_of(way, p) for way in WAYS for p in SIZES if p <= args.most]
    show(
        ["passed on", "ranks", "iterations", "ms", "pause", "lag", "CPU s"],
        [[r["way"], r["ranks"], r["iterations"], 1e3 * r["seconds"], r["pause"], r["lagged"],
          r["cpu_seconds"]] for r in rows],
        title="from the statistics to the consensus",
    )  # fmt: skip
    print(
        "iterations: from the statistics to the LB step; ms: from the root's decision until the\n"
        "last rank knows F, or from the statistics with a lag; pause, lag: iterations of work\n"
        "that a rank pauses for an LB step, and waits for statistics per iteration.  A rank sends\n"
        f"{2 * STATS} bytes of statistics per iteration on average, and {3 * STATS} at most."
    )
    lines = {
        way: {"of": of, **line([r for r in rows if r["way"] == way], of)}
        for way, of in GROWS.items()
    }
    show(
        ["passed on", "", "per log2 p", "at 1", "explained"],
        [[way, f["of"], f["slope"], f["at_1"], f["explained"]] for way, f in lines.items()],
        title="lines over log2 p",
    )
    steps = [
        lb_step(hot_spot(p, args.objects), name)
        for p in SIZES[1:]
        if p <= args.steps
        for name in STRATEGIES
    ]
    show(
        ["ranks", "strategy", "before", "max/mean", "moved", "statistics, ms", "database",
         "strategy", "answer", "migration", "directory", "all", "kept, MB"],
        [cells_of(row) for row in steps],
        title="whole LB steps",
    )  # fmt: skip
    save(args.json, {"rows": rows, "lines": lines, "steps": steps})


if __name__ == "__main__":
    main()

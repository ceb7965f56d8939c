"""Methods that run on one process: METIS, Scotch, Mt-KaHyPar, "pylb" and "hypergraph".

With several ranks, the first rank gathers all objects and divides them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.agreement import Step
from pylb.comm.parcel import exchange_objects, gather_objects
from pylb.errors import DomainError
from pylb.model.snapshot import F64, I32
from pylb.partitioning import libraries
from pylb.partitioning.arrays import MOST, Rows
from pylb.partitioning.libraries import Method
from pylb.partitioning.problem import Problem
from pylb.partitioning.ranks import Ranks
from pylb.partitioning.result import highest_ratio, net_costs
from pylb.threads import stoppable

# the properties that are joined from all ranks; each is an array, `Rows` or None
JOINED = ("weight", "fixed_part", "old", "nbytes", "graph", "nets")
LARGE = 2**24  # objects, neighbours and pins


def ask(problem: Problem, name: str, how: Method, approach: str, starts: int, cycles: int) -> I32:
    """Return the new part of each object of this rank.  Collective."""
    if how.library not in ("", "pylb"):
        libraries.load(how.library)
    return _on_first_rank(
        problem, None, lambda whole, _: _answer(whole, name, how, approach, starts, cycles)
    )


def repair(problem: Problem, how: Method, approach: str, part: I32) -> I32:
    """Move objects until the parts keep the tolerance and no part with a share is empty.

    If necessary, the first rank gathers all objects and repairs the parts; but if only the
    tolerance is missed, it does so for at most `LARGE` entries.  Collective.
    """
    ranks, k = problem.ranks, problem.parts
    sums = ranks.sum(problem.sums(part))
    shares = np.full(k, 1 / k) if problem.shares is None else problem.shares / problem.shares.sum()
    loads = sums[1:] if problem.n_weights else sums[:1]
    limits = problem.imbalance * (1 + 1e-9) * loads.sum(axis=1, keepdims=True) * shares
    wrong = ((sums[0] == 0) != (shares == 0)).any()
    here = sum(len(rows.to) for rows in (problem.graph, problem.nets) if rows is not None)
    entries = problem.n_all + int(ranks.sum(np.array([here]))[0])
    if not wrong and not ((loads > limits).any() and entries <= LARGE):
        return part
    return _on_first_rank(
        problem, part, lambda whole, old: _Question(whole, how, approach).ask(None, part=old)
    )


def _on_first_rank(
    problem: Problem, part: I32 | None, call: Callable[[Problem, I32 | None], I32]
) -> I32:
    """Call a function of all objects, and of their parts, on the first rank.  Collective."""
    ranks = problem.ranks
    if ranks.size == 1:
        return call(problem, part)
    pieces = gather_objects(
        ranks.agreement, Step.PARTITION, 0, [part, *(getattr(problem, name) for name in JOINED)]
    )

    def ask_first() -> I32 | None:
        if ranks.rank:
            return None
        parts, *columns = zip(*pieces.values(), strict=True)
        joined: dict[str, Any] = dict(zip(JOINED, map(_concatenated, columns), strict=True))
        n = problem.n_all
        whole = replace(problem, ranks=Ranks(), n=n, dist=np.array([0, n]), ids=None, **joined)
        return call(whole, _concatenated(parts))

    found = ranks.together(ask_first)
    parts = {} if found is None else dict(enumerate(np.split(found, problem.dist[1:-1])))
    mine: I32 = exchange_objects(ranks.agreement, Step.PARTITION, 0, lambda: parts)[0]
    return mine


def _concatenated(column: tuple[Any, ...]) -> Any:
    if column[0] is None:
        return None
    if not isinstance(column[0], Rows):
        return np.concatenate(column)
    ends = np.cumsum([0, *(int(rows.start[-1]) for rows in column)])
    start = [rows.start[1:].astype(np.int64) + e for rows, e in zip(column, ends, strict=False)]
    weight = [rows.weight for rows in column]
    return Rows(
        np.concatenate([[0], *start]),
        np.concatenate([rows.to for rows in column]),
        None if weight[0] is None else np.concatenate(weight),
    )


def _answer(
    problem: Problem, name: str, how: Method, approach: str, starts: int, cycles: int
) -> I32:
    """Divide the objects of one process."""
    question = _Question(problem, how, approach)
    if approach == "refine":
        if how.library not in ("", "pylb"):
            others = "graph, parmetis, zoltan, hypergraph, pylb"
            raise DomainError(f"method {name!r} cannot refine: {others} can")
        return question.ask(None, part=question.given["old"], cycles=0)
    if name == "hypergraph":
        return _best_of_several(question, starts, cycles)
    return question.ask(how.library, cycles=cycles if how.library == "pylb" else -1)


class _Question:
    """A question to the C core: the problem in 32-bit integers."""

    def __init__(self, problem: Problem, how: Method, approach: str):
        self.problem = problem
        self.cost = 1.0  # an edge's or net's weight in the core, divided by the caller's weight
        self.given: dict[str, Any] = {"share": problem.shares, "fixed": problem.fixed_part}
        self.options = [text for pair in (*how.options, *problem.params.items()) for text in pair]
        if how.library == "" and self.options:
            raise DomainError(f"method 'hypergraph' has no parameter {self.options[0]!r}")
        rows = problem.rows(how.takes)
        if rows is not None:
            start, to, weight = libraries.ROWS[how.takes]
            self.given |= {start: _as_int32(rows.start), to: _as_int32(rows.to)}
            if rows.weight is not None:
                least = int(how.takes == "graph")  # the core takes no edges of weight 0
                self.given[weight], self.cost = _integers(rows.weight, least)
        if problem.weight is not None:
            columns = [_integers(w, 0)[0] for w in problem.weight.T]
            self.given["weight"] = np.ascontiguousarray(np.array(columns).T)
            self.given["n_weights"] = len(columns)
        if approach != "partition":  # the cost of leaving the present parts, as edge weight
            cost = np.ones(problem.n) if problem.nbytes is None else problem.nbytes
            cost = np.rint(cost * (self.cost / problem.ratio))
            top = min(1.0, MOST / 2 / max(1.0, cost.sum()))
            self.given["old"] = problem.old
            self.given["old_cost"] = np.maximum(1, cost * top).astype(np.int32)

    def ask(
        self, library: str | None, part: I32 | None = None, cycles: int = -1, step: int = 0
    ) -> I32:
        """Divide by a library, or improve `part`; `step` is added to the seed."""
        problem = self.problem
        return _core.partition(
            library,
            problem.n,
            problem.parts,
            part=part,
            imbalance=problem.imbalance,
            seed=(problem.seed + step) % 2**31,
            cycles=cycles,
            options=self.options,
            **self.given,
        )

    def objective(self, part: I32) -> tuple[float, float]:
        """Return connectivity + cost of migrations, and the largest weight relative to a share.

        By these "hypergraph" compares partitions.
        """
        g, k = self.given, self.problem.parts
        nets = Rows(g["net_start"], g["pin"], g.get("net_weight"))
        cost, _ = net_costs(nets, part[nets.to])
        if "old" in g:
            cost += float(g["old_cost"][(g["old"] >= 0) & (g["old"] != part)].sum())
        weights = self.problem.weight
        load = np.bincount(part, None if weights is None else weights[:, 0], k)
        shares = np.ones(k) if self.problem.shares is None else self.problem.shares
        return cost, highest_ratio(load, shares)


def _best_of_several(question: _Question, starts: int, cycles: int) -> I32:
    """Make and refine several partitions, refine the two best further, and return the best.

    Zoltan runs one call at a time, so one thread makes a partition while another refines one.
    Mt-KaHyPar makes the first partition if it is installed and there are no present parts.
    """
    library = "Zoltan" if libraries.available("Zoltan") else "pylb"
    if library == "Zoltan":
        libraries.load(library)
    first = library
    if "old" not in question.given and libraries.available("mtkahypar"):
        first = "mtkahypar"
        libraries.load(first)
    ask: Callable[..., I32] = question.ask
    with stoppable(2) as pool:
        using = [first, *[library] * (starts - 1)]
        once = min(cycles, 1)
        tasks = [pool.submit(ask, name, step=i, cycles=once) for i, name in enumerate(using)]
        found = sorted((task.result() for task in tasks), key=question.objective)[:2]
        if cycles > 1:
            again = [pool.submit(ask, None, part=part, cycles=cycles - 1) for part in found]
            found = [task.result() for task in again]
    return min(found, key=question.objective)


def _as_int32(x: NDArray[Any]) -> I32:
    if x.dtype != np.int32 and len(x) and int(x.max()) > MOST:
        raise DomainError(f"{int(x.max())} entries: expected less than 2^31 for this method")
    return x.astype(np.int32, copy=False)


def _integers(x: F64, least: int) -> tuple[I32, float]:
    """Return weights as integers of `least` or more, with a sum below 2^31, and their scale."""
    total = float(x.sum())
    whole = total <= MOST and bool((x == np.rint(x)).all())
    scale = 1.0 if whole or total == 0 else (MOST // 2 - len(x)) / total
    scale = min(scale, sys.float_info.max)  # finite, even if the total is below 1e-300
    return np.maximum(least, np.rint(x * scale)).astype(np.int32), scale

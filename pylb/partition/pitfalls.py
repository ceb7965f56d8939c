"""Workarounds for inputs on which Zoltan 3.90 fails or never ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pylb.partition.arrays import F64, I32
from pylb.partition.problem import Problem


def exact_scale(problem: Problem) -> float:
    """Return the factor that turns weights into integers whose sum is exact.

    If the sums are not exact, a small weight can seem to be left when only objects of weight 0
    remain.  RCB and RIB would then search forever for a cut that divides this weight.
    """
    exponent = problem.exponent if abs(problem.exponent) < 60 else 0
    return 2.0 ** (52 - problem.n_all.bit_length() - exponent)


def may_starve(problem: Problem, shares: F64 | None, k: int) -> bool:
    """Say whether a rank with several parts may get no object.  Collective.

    RCB would fail on that rank, and the other ranks would wait for it, except if all parts are on
    the first rank.  A rank certainly gets objects if its share exceeds what earlier cuts can take
    from it: each cut takes less than the weight of the heaviest object.
    """
    size, weight = problem.ranks.size, problem.weight
    if size == 1 or k <= size:
        return False
    shares = np.full(k, 1 / k) if shares is None else shares
    # the smallest total share that the parts of one rank can have
    least = np.convolve(shares, np.ones(k // size), "valid").min()
    total, heaviest = np.array([float(problem.n_all)]), 1.0
    if weight is not None:
        total, heaviest = problem.ranks.sum(weight.sum(axis=0)), 2.0**problem.exponent
    return bool((total * least <= heaviest * (1 + size.bit_length())).any())


def lack_weights(problem: Problem) -> tuple[bool, bool]:
    """Say whether PT-Scotch would fail, and whether it may still fail after Zoltan's scattering.

    It refuses weights that some ranks do not give, and Zoltan passes no weights of a rank without
    objects, and none of the edges of a rank without edges.  Collective.
    """
    graph, size = problem.graph, problem.ranks.size
    assert graph is not None
    if size == 1 or (problem.weight is None and graph.weight is None):
        return False, False
    alone = np.count_nonzero(np.diff(graph.start) == 0)  # objects without edges
    mine = np.array([problem.n == 0, len(graph.to) == 0, alone], np.int64)
    empty, bare, any_alone = problem.ranks.sum(mine) > 0
    of_edges = graph.weight is not None
    fails = empty or (bare and of_edges)
    again = problem.n_all < size or not empty or (any_alone and of_edges)
    return bool(fails), bool(fails and again)


def with_an_end(problem: Problem) -> Problem:
    """Return the problem with one more object that has a weight, at the end of HSFC's curve.

    Without it, HSFC may end its last part before the last object, and then fail, if the last
    objects together weigh less than the rounding error of its sums; or it may find no part for a
    point behind the last object.  The curve ends where the last coordinate is largest and the
    others are smallest.  Collective.
    """
    ranks, coords = problem.ranks, problem.coords
    assert coords is not None
    weight = np.ones((problem.n, 1)) if problem.weight is None else problem.weight
    own = np.full(2 + coords.shape[1], np.inf)  # weight, -largest, smallest coordinates
    own[0] = weight[:, 0].sum()
    if problem.n:
        own[1] = -coords[:, -1].max()
        own[2:] = [x.min() for x in coords.T]  # faster than min(axis=0)
    every = np.array([np.frombuffer(x) for x in ranks.gather_short(own.tobytes())])
    total, high, end = every[:, 0].sum(), -every[:, 1].min(), every[:, 2:].min(axis=0)
    end[-1] = high if high > end[-1] else end[-1] + max(1.0, abs(end[-1]))
    dist = problem.dist.copy()
    dist[-1] += 1
    if ranks.rank < ranks.size - 1:
        return replace(problem, weight=weight, dist=dist)
    heavy = np.full((1, weight.shape[1]), total * min(1e-5, 1e-2 / problem.parts))
    return replace(
        problem,
        n=problem.n + 1,
        dist=dist,
        coords=np.concatenate([coords, end[None]]),
        weight=np.concatenate([weight, heavy]),
        old=_longer(problem.old),
        sizes=_longer(problem.sizes),
    )


def _longer(array: F64 | I32 | None) -> Any:
    return None if array is None else np.append(array, array.dtype.type(0))

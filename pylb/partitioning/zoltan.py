"""Call Zoltan, on all ranks of a communicator or on this process; work around its faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pylb.errors import DomainError, PartitionerError
from pylb.model.snapshot import F64, I32
from pylb.optional import require
from pylb.partitioning import libraries, serial
from pylb.partitioning.arrays import MOST
from pylb.partitioning.libraries import Method
from pylb.partitioning.problem import Problem, renumbered

# ---- inputs on which Zoltan 3.90 fails or never ends --------------------------------------------


def exact_scale(problem: Problem) -> float:
    """Return the factor that turns weights into integers whose sum is exact.

    If it is not, RCB and RIB may search forever for a cut among objects of weight 0.
    """
    exponent = problem.exponent if abs(problem.exponent) < 60 else 0
    return 2.0 ** (52 - problem.n_all.bit_length() - exponent)


def may_starve(problem: Problem) -> bool:
    """Say whether a rank with several parts may get no object: RCB would hang.  Collective.

    A rank certainly gets objects if its share exceeds what earlier cuts can take from it: each cut
    takes less than the weight of the heaviest object.
    """
    size, weight, k = problem.ranks.size, problem.weight, problem.parts
    if size == 1 or k <= size:
        return False
    shares = np.full(k, 1 / k) if problem.shares is None else problem.shares
    # the smallest total share that the parts of one rank can have
    least = np.convolve(shares, np.ones(k // size), "valid").min()
    total, heaviest = np.array([float(problem.n_all)]), 1.0
    if weight is not None:
        total, heaviest = problem.ranks.sum(weight.sum(axis=0)), 2.0**problem.exponent
    return bool((total * least <= heaviest * (1 + size.bit_length())).any())


def lack_weights(problem: Problem) -> tuple[bool, bool]:
    """Say whether PT-Scotch would fail, and whether it may still fail if Zoltan scatters the graph.

    PT-Scotch fails if only some ranks pass weights, but Zoltan passes none on a rank without
    objects, and none of edges on a rank without edges.  Collective.
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

    Without it, HSFC fails if the last objects weigh less than the rounding error of the sums, and
    finds no part for a point behind the last object.  The curve ends where the last coordinate is
    largest and the others are smallest.  Collective.
    """
    ranks, coords = problem.ranks, problem.coords
    assert coords is not None
    weight = np.ones((problem.n, 1)) if problem.weight is None else problem.weight
    own = np.full(2 + coords.shape[1], np.inf)  # weight, -largest, smallest coordinates
    own[0] = weight[:, 0].sum()
    if problem.n:
        own[1] = -coords[:, -1].max()
        own[2:] = [x.min() for x in coords.T]  # faster than min(axis=0)
    every = np.array(ranks.gather(own))
    total, high, end = every[:, 0].sum(), -every[:, 1].min(), every[:, 2:].min(axis=0)
    end[-1] = high if high > end[-1] else end[-1] + max(1.0, abs(end[-1]))
    dist = problem.dist.copy()
    dist[-1] += 1
    if ranks.rank < ranks.size - 1:
        return replace(problem, weight=weight, dist=dist)
    heavy = np.full((1, weight.shape[1]), total * min(1e-5, 1e-2 / problem.parts))
    given = {"old": problem.old, "nbytes": problem.nbytes}
    longer: Any = {k: np.append(x, x.dtype.type(0)) for k, x in given.items() if x is not None}
    coords, weight = np.concatenate([coords, end[None]]), np.concatenate([weight, heavy])
    return replace(problem, n=problem.n + 1, dist=dist, coords=coords, weight=weight, **longer)


# ---- the call -----------------------------------------------------------------------------------


BISECTIONS = ("rcb", "rib")
OWN = (  # parameters that are set from other arguments
    *("NUM_GID_ENTRIES", "NUM_LID_ENTRIES", "NUM_GLOBAL_PARTS", "NUM_LOCAL_PARTS"),
    *("OBJ_WEIGHT_DIM", "EDGE_WEIGHT_DIM", "RETURN_LISTS", "LB_METHOD"),
)


def ask(problem: Problem, name: str, how: Method, approach: str) -> tuple[I32, Any]:
    """Return the new part of each object of this rank, and the cuts between points.  Collective."""
    if problem.ranks.comm is None:
        libraries.load("Zoltan")  # starts MPI
    if problem.n_all == 0:
        return np.zeros(0, np.int32), None
    for option in problem.params:
        if option in OWN:
            raise DomainError(f"parameter {option} is given: pylb sets it itself, so remove it")
    n = problem.n
    if name == "hsfc":
        problem = with_an_end(problem)
    inner, label = _fillable(problem)
    given = _arrays(inner, how, approach)
    if name in BISECTIONS and problem.n_weights == 1:
        given["scale"] = exact_scale(problem)
    options = _options(problem, name, how, approach)
    if name == "rcb" and may_starve(inner):
        options += ["NUM_LOCAL_PARTS", str(0 if problem.ranks.rank else inner.parts)]
    first = home(problem) if label is None else int(np.searchsorted(label, home(problem)))

    problem.ranks.ready()
    part, cuts = require("Zoltan").partition(
        *(problem.ranks.comm, problem.dist, inner.parts, min(first, inner.parts - 1)),
        options=options,
        keep=how.takes == "coords",
        **given,
    )
    part = (part if label is None else label[part])[:n]
    if (fixed := problem.fixed_part) is not None:
        problem.ranks.together(lambda: _check_fixed(fixed, name, part))
    if how.takes in ("graph", "nets"):
        part = serial.repair(_asked(problem, approach), how, approach, part)
    return part, None if cuts is None else (cuts, label)


def _asked(problem: Problem, approach: str) -> Problem:
    """Return the problem with the present parts and the tolerance that Zoltan has used."""
    old = problem.old if approach == "partition" else present(problem)
    try:
        tolerance = max(float(problem.params.get("IMBALANCE_TOL", problem.imbalance)), 1.0 + 1e-6)
    except ValueError:
        tolerance = problem.imbalance
    return replace(problem, old=old, imbalance=tolerance, params={})


def _fillable(problem: Problem) -> tuple[Problem, I32 | None]:
    """Return the problem with only the parts that Zoltan can fill, and their numbers; None: all.

    These are parts with fixed objects, and as many with a share as there are objects.  Collective.
    """
    k, shares = problem.parts, problem.shares
    if problem.old is not None:  # else Zoltan assumes that objects are in their rank's first part
        problem = replace(problem, old=present(problem))
    if problem.n_all >= k and (shares is None or (shares > 0).all()):
        return problem, None
    used = np.zeros(k, np.int64)
    if problem.fixed_part is not None:
        used[problem.fixed_part[problem.fixed_part >= 0]] = 1
    used = problem.ranks.sum(used)
    kept = np.flatnonzero(used)
    more = np.flatnonzero((used == 0) & (shares > 0 if shares is not None else True))
    kept = np.sort(np.concatenate([kept, more[: max(0, min(problem.n_all, k) - len(kept))]]))
    index = np.full(k, -1)
    index[kept] = np.arange(len(kept))
    out = renumbered(problem, index, len(kept))
    if out.old is not None:
        out.old = np.maximum(out.old, 0)
    if shares is not None:  # a part kept only for its fixed objects gets a tiny share
        left = np.maximum(shares[kept], 1e-6 * shares.max())
        out.shares = left / left.sum()
    return out, kept.astype(np.int32)


def _arrays(problem: Problem, how: Method, approach: str) -> dict[str, Any]:
    weight = problem.weight
    out: dict[str, Any] = {"share": problem.shares, "old": problem.old}
    if weight is not None:
        out |= {"weight": _near_one(problem, weight), "n_weights": weight.shape[1]}
    if how.takes == "coords" and problem.coords is not None:
        out |= {"coords": problem.coords, "n_dims": problem.coords.shape[1]}
    rows = problem.rows(how.takes)
    if rows is not None:
        out |= zip(libraries.ROWS[how.takes], (rows.start, rows.to, rows.weight), strict=True)
    if rows is not None and how.takes == "nets":
        out["first_net"] = sum(problem.ranks.gather(len(rows))[: problem.ranks.rank])
    if problem.fixed_part is not None and how.fixes:
        out["fixed"] = problem.fixed_part
    if approach != "partition":
        out["size"] = _sizes(problem)[0]
    return out


def _near_one(problem: Problem, weight: F64) -> F64:
    """Scale weights that are far from 1 by a power of two, because Zoltan computes in 32 bits."""
    exponent = np.array([problem.exponent])
    if weight.shape[1] > 1:
        exponent = np.frexp(problem.ranks.sum(weight.sum(axis=0)))[1]
    return weight if (np.abs(exponent) < 60).all() else np.ldexp(weight, -exponent)


def present(problem: Problem) -> I32:
    """Return the present part of each object; new objects get the first part of their rank."""
    first = np.int32(home(problem))
    if problem.old is None:
        return np.full(problem.n, first)
    return np.where(problem.old < 0, first, problem.old).astype(np.int32)


def home(problem: Problem) -> int:
    """Return the first part of this rank; for a rank without parts, a part of a rank nearby."""
    ranks, k = problem.ranks, problem.parts
    return min(k - 1, -(-ranks.rank * k // ranks.size))


def _sizes(problem: Problem) -> tuple[I32 | None, float]:
    """Return the sizes of objects as integers whose sum fits into 32 bits, and their scale."""
    sizes = problem.nbytes
    if sizes is None:
        return None, 1.0
    odd = np.count_nonzero(sizes != np.rint(sizes))
    total, odd = problem.ranks.sum(np.array([sizes.sum(), odd], float))
    scale = 1.0 if odd == 0 and total <= MOST else (MOST // 2) / max(total, 1e-300)
    return np.rint(sizes * scale).astype(np.int32), scale


def _options(problem: Problem, name: str, how: Method, approach: str) -> list[str]:
    """Return Zoltan's parameters as name, value, ...: pylb's own, then the caller's."""
    out = {
        **dict(how.options),
        "LB_APPROACH": approach.upper(),
        "IMBALANCE_TOL": repr(problem.imbalance),
        "SEED": str(problem.seed),
    }
    if how.takes == "coords":
        out["KEEP_CUTS"] = "1"
    if name in BISECTIONS:
        out["CHECK_GEOM"] = "0"
        out["TFLOPS_SPECIAL"] = str(int(problem.n_weights < 2))
    if name == "rcb" and (problem.n_weights == 1 or problem.shares is not None):
        # Zoltan must not scale the weights: see exact_scale.
        out["OBJ_WEIGHTS_COMPARABLE"] = "1"
    if problem.n_all < problem.ranks.size:
        # Zoltan would scatter the objects, and divide by the number that the first rank gets: 0.
        out["SCATTER_GRAPH"] = "0"
    elif name == "ptscotch" and lack_weights(problem)[0]:
        out["SCATTER_GRAPH"] = "2"  # scatter if a rank has no objects
    if approach != "partition":
        out["PHG_REPART_MULTIPLIER"] = repr(problem.ratio * _sizes(problem)[1])
    out |= problem.params
    out["REMAP"] = "0"  # parts are numbered afterwards: result.py
    return [text for pair in out.items() for text in pair]


def _check_fixed(fixed: I32, name: str, part: I32) -> None:
    for v in np.flatnonzero((fixed >= 0) & (fixed != part))[:1]:
        expected = f"expected part {fixed[v]}, where it is fixed"
        raise PartitionerError(f"method {name!r} put object {v} into part {part[v]}: {expected}")

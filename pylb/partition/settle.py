"""After the method has answered: number the parts, sum over all ranks, list the moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.optional import require
from pylb.partition.arrays import F64, I32
from pylb.partition.problem import Problem
from pylb.partition.result import NO_MOVES, Moves

Overlap = tuple[Any, Any, Any]
_NO_OVERLAP: Overlap = (None, None, None)


class Settled(NamedTuple):
    """What is known of a partition on each rank.

    Attributes
    ----------
    name : (k,) int32 or None
        The final number of each part that the method made; None: unchanged.
    part, rank : (n,) int32
        Of each object.
    exports, imports : Moves
    sums : ((1 + d) k,) float64
        For each part the number of objects and the sum of each weight, over all ranks.
    migrations, volume : float
        Number and total size of the objects that change their part, over all ranks.
    """

    name: I32 | None
    part: I32
    rank: I32
    exports: Moves
    imports: Moves
    sums: F64
    migrations: float
    volume: float


def settle(problem: Problem, part: I32, rename: bool) -> Settled:
    """Number the parts such that most objects stay (`rename`), and list the moves.  Collective."""
    ranks, old = problem.ranks, problem.old
    alone = ranks.size == 1
    if alone and old is None:
        return Settled(
            None, part, _here(problem.n), NO_MOVES, NO_MOVES, _sums(problem, part), 0, 0.0
        )
    fixed = _fixed(problem) if rename and problem.fixed is not None else None
    overlap = _overlap(problem, part) if rename and old is not None else _NO_OVERLAP
    if alone:
        return _alone(problem, part, rename, fixed, overlap)
    kept_part, kept_old, kept = overlap
    name, part, where, exports, imports, sums, moved, volume = require("MPI").settle(
        ranks.comm,
        parts=problem.parts,
        part=part,
        old=old,
        dist=problem.dist,
        ids=problem.ids,
        n_weights=problem.n_weights,
        weight=problem.weight,
        size=problem.sizes,
        rename=rename,
        share=problem.shares,
        fixed=fixed,
        kept_part=kept_part,
        kept_old=kept_old,
        kept=kept,
    )
    return Settled(name, part, where, Moves(*exports), Moves(*imports), sums, moved, volume)


def _alone(problem: Problem, part: I32, rename: bool, fixed: Any, overlap: Overlap) -> Settled:
    """Settle the partition of one process whose objects have parts."""
    k, name = problem.parts, None
    if rename:
        name = _core.remap(k, 1, problem.shares, fixed, *overlap, None)
        name = None if (name == np.arange(k)).all() else name
        part = part if name is None else name[part]
    row, ids, new = _core.moves(part, problem.old, k, problem.first, problem.ids)
    exports = Moves(ids, row, _here(len(ids)), new)
    imports = exports._replace(row=np.full(len(ids), -1))
    volume = float(len(ids) if problem.sizes is None else problem.sizes[row].sum())
    return Settled(
        name, part, _here(len(part)), exports, imports, _sums(problem, part), len(ids), volume
    )


def _here(n: int) -> I32:
    """Return the ranks of objects if there is only one rank."""
    return np.zeros(n, np.int32)


def _sums(problem: Problem, part: I32) -> F64:
    """Return the number of objects and the weights of each part on this process."""
    return _core.part_sums(part, problem.parts, problem.weight, problem.n_weights)


def _fixed(problem: Problem) -> NDArray[np.bool_]:
    """Say in which parts objects are fixed, on any rank; these parts keep their numbers."""
    assert problem.fixed is not None
    count = np.bincount(problem.fixed[problem.fixed >= 0], minlength=problem.parts)
    held: NDArray[np.bool_] = problem.ranks.sum(count) > 0
    return held


def _overlap(problem: Problem, part: I32) -> Overlap:
    """Return (new part, present part, size of the objects in both) over all ranks, ascending."""
    k, old, sizes = problem.parts, problem.old, problem.sizes
    assert old is not None
    known = old >= 0
    pair = part[known].astype(np.int64) * k + old[known]
    pair, size = _summed(pair, None if sizes is None else sizes[known], k * k)
    if problem.ranks.size > 1:
        everyone = problem.ranks.gather((pair, size))
        pair, size = (np.concatenate(x) for x in zip(*everyone, strict=True))
        pair, size = _summed(pair, size, k * k)
    return (pair // k).astype(np.int32), (pair % k).astype(np.int32), size


def _summed(key: NDArray[np.int64], size: F64 | None, most: int) -> tuple[Any, F64]:
    """Return the keys (below `most`), each once and ascending, with the sum of their sizes."""
    if most > max(len(key), 4096):
        key, where = np.unique(key, return_inverse=True)
        return key, np.bincount(where, size, len(key)).astype(float, copy=False)
    total = np.bincount(key, size, most).astype(float, copy=False)
    key = np.flatnonzero(total)
    return key, total[key]

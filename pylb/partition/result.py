"""The result of a partition: the new parts, the moves, and the figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError
from pylb.partition.arrays import F64, I32
from pylb.partition.geometry import Cuts
from pylb.partition.quality import Counts, Quality


class Moves(NamedTuple):
    """Objects that leave their part, or that come to a part of this rank.

    Attributes
    ----------
    id : (m,) int64
        Of each object.
    row : (m,) int64
        Its row in this rank's arrays; -1 for objects that come.
    rank : (m,) int32
        The rank to which it goes, or from which it comes.
    part : (m,) int32
        Its new part.
    """

    id: NDArray[np.int64]
    row: NDArray[np.int64]
    rank: I32
    part: I32


_NONE, _NOWHERE = np.zeros(0, np.int64), np.zeros(0, np.int32)
NO_MOVES = Moves(_NONE, _NONE, _NOWHERE, _NOWHERE)


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """A partition and its figures.

    Attributes
    ----------
    part : (n,) int32
        New part of each object of this rank.
    rank : (n,) int32
        The rank that has that part; parts are assigned to ranks in order.
    n_parts : int
    exports, imports : Moves
        Objects of this rank that change their part, and objects that come to parts of this rank.
        Both include objects that stay on this rank.  Both are empty if there were no parts before
        (one rank, without `old`).
    counts : Counts
        The counts from which `evaluation` is computed.
    migrations : int
        Number of objects that change their part, on all ranks; 0 if there were no parts before.
    migration_volume : float
        Sum of their sizes.
    seconds : float
        Time that the method took on this rank.
    method, approach : str
    seed : int
    cuts : Cuts or None
        The cuts of "rcb", "rib" and "hsfc", by which points and boxes are assigned to parts.
    """

    part: I32
    rank: I32
    n_parts: int
    exports: Moves
    imports: Moves
    counts: Counts
    migrations: int
    migration_volume: float
    seconds: float
    method: str
    approach: str
    seed: int
    cuts: Cuts | None = None

    @cached_property
    def evaluation(self) -> Quality:
        """The figures of the partition, the same on all ranks."""
        return self.counts.quality()

    @property
    def weights(self) -> F64:
        """Sum of the objects' weights in each part."""
        return self.evaluation.weights

    @property
    def max_over_mean(self) -> float:
        """Largest part divided by its share; with equal shares, by the mean."""
        return float(self.evaluation.imbalance.max())

    @property
    def cut(self) -> float | None:
        """Weight of the edges between parts; None without a graph."""
        return self.evaluation.cut

    @property
    def volume(self) -> float | None:
        """Communication volume: the sum over the nets of weight * (parts touched - 1).

        For a graph without nets, each vertex counts once for each other part that has a neighbour
        of it.
        """
        return self.evaluation.connectivity

    def points(self, points: Any) -> I32:
        """Return the part in whose region each point lies: `Cuts.points`."""
        return self._cuts().points(points)

    def boxes(self, lo: Any, hi: Any) -> Any:
        """Return the parts whose regions meet each box: `Cuts.boxes`."""
        return self._cuts().boxes(lo, hi)

    def _cuts(self) -> Cuts:
        if self.cuts is None:
            raise DomainError(
                f"method {self.method!r} has no regions: expected 'rcb', 'rib' or 'hsfc'"
            )
        return self.cuts

    def __repr__(self) -> str:
        n = int(self.evaluation.objects.sum())
        words = [f"{n} vertices in {self.n_parts} parts by {self.method}"]
        words.append(f"max/mean {self.max_over_mean:.4g}")
        words += [] if self.cut is None else [f"cut {self.cut:.6g}"]
        words += [] if self.volume is None else [f"volume {self.volume:.6g}"]
        words += [f"{self.migrations} moved"] if self.migrations else []
        return f"<Partition: {', '.join(words)}, {self.seconds * 1e3:.3g} ms>"

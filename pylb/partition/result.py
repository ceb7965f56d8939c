"""A partition: the new parts, the moves, and its figures."""

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
    """Objects that leave their part, or come to one of this rank's.

    Attributes
    ----------
    id : (m,) int64
        Of each object.
    row : (m,) int64
        Where it stands in this rank's arrays; of objects that come: -1.
    rank : (m,) int32
        Where it goes, or comes from.
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
        The rank that has that part: parts lie on ranks in order.
    n_parts : int
    exports, imports : Moves
        Objects of this rank that change their part, and those that come to parts of this rank;
        both hold those that stay on this rank too, and none where nobody had a part (one rank,
        without `old`).
    counts : Counts
        What `evaluation` is made of.
    migrations : int
        Objects that change their part, on all ranks; 0 where none had one.
    migration_volume : float
        Sum of their sizes.
    seconds : float
        Time that the method took on this rank.
    method, approach : str
    seed : int
    cuts : Cuts or None
        Of "rcb", "rib" and "hsfc": points and boxes can be assigned to the parts.
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
        """Largest part over its share: with equal shares, over the mean."""
        return float(self.evaluation.imbalance.max())

    @property
    def cut(self) -> float | None:
        """Weight of the edges between parts; None without a graph."""
        return self.evaluation.cut

    @property
    def volume(self) -> float | None:
        """Communication volume: the sum over the nets of weight * (parts touched - 1).

        Of a graph without nets each vertex counts once to each other part with a neighbour of it.
        """
        return self.evaluation.connectivity

    def points(self, points: Any) -> I32:
        """The part in whose region each point lies: `Cuts.points`."""
        return self._cuts().points(points)

    def boxes(self, lo: Any, hi: Any) -> Any:
        """The parts whose regions meet each box: `Cuts.boxes`."""
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

"""Divide arrays into tiles for ranks of different speeds: a rectangle of a grid for each rank."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.decide.decider import TriggerLike
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import I64
from pylb.model.speed_models import SpeedModels
from pylb.run.rows import RowPartition

KEEP = 1.1  # old columns stay if their borders are at most 1.1 times as long as the shortest


def rectangles(share: ArrayLike, shape: Sequence[int], column: ArrayLike | None = None) -> I64:
    """Divide a grid into a rectangle for each rank, with the given shares and short borders.

    The method is column-based (Beaumont 2001): the grid is cut into columns, and each column into
    the rectangles of its ranks.  Before rounding, the sum of the half perimeters is the smallest
    that columns allow.  Widths and heights are rounded by the largest remainder.

    Parameters
    ----------
    share : (p,) float
        Share of each rank, 0 or more, in any unit; e.g. its speed.
    shape : (rows, columns) of int
    column : (p,) int, optional
        The column of each rank.  Default: the columns with the shortest borders.

    Returns
    -------
    (p, 4) int64
        First row, end of the rows, first column and end of the columns of each rank.

    Raises
    ------
    DomainError
        A share is negative or not finite, or all are 0; the shape is invalid.

    Examples
    --------
    >>> pylb.run.rectangles([32, 16, 16], (8, 8))
    array([[0, 8, 0, 4],
           [0, 4, 4, 8],
           [4, 8, 4, 8]])
    """
    rows, cols = _shape(shape)
    if column is None:
        column = _core.rectangles_columns(share, rows, cols)[0]
    return _core.rectangles_place(share, column, rows, cols)


def _shape(shape: Any) -> tuple[int, int]:
    try:
        rows, cols = (operator.index(n) for n in shape)
    except (TypeError, ValueError):
        rows = cols = -1
    if not (0 <= rows <= 10**9 and 0 <= cols <= 10**9 and rows * cols <= 10**12):
        raise DomainError(
            f"shape is {shape!r}: expected (rows, columns), each at most 1e9, product at most 1e12"
        )
    return rows, cols


class TilePartition(RowPartition):
    """The elements of a grid, divided into a rectangle for each rank; see `RowPartition`.

    The rectangles are arranged in columns.  Ranks keep their positions in the columns as long as
    the borders are not much longer than the shortest possible ones, so that few elements move.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    shape : (rows, columns) of int
    model, tol, trigger, models
        As in `RowPartition`.

    Attributes
    ----------
    counts : (p,) int64
        Number of elements of each rank.
    boxes : (p, 4) int64
        First row, end of the rows, first column and end of the columns of each rank.
    history, models
        As those of `RowPartition`.

    Examples
    --------
    >>> part = pylb.TilePartition(comm, (8, 6))
    >>> mine = np.ones((8, 6))[part.local]
    >>> for k in range(3):
    ...     with part.timed():
    ...         mine += 1.0
    ...     mine = part.redistribute(mine)
    >>> part.boxes
    array([[0, 8, 0, 6]])
    """

    _COUNTED = "shape"

    def __init__(
        self,
        comm: Any,
        shape: Sequence[int],
        model: str = "fpm",
        *,
        tol: float = 0.05,
        trigger: TriggerLike = None,
        models: SpeedModels | None = None,
    ) -> None:
        super().__init__(comm, shape, model, tol=tol, trigger=trigger, models=models)  # type: ignore[arg-type]

    def _count(self, n: Any) -> int:
        self.shape = _shape(n)
        return self.shape[0] * self.shape[1]

    @property
    def boxes(self) -> I64:
        """First row, end of the rows, first column, end of the columns of each rank; (p, 4)."""
        return self._boxes

    @property
    def local(self) -> tuple[slice, slice]:  # type: ignore[override]
        """The rows and columns of this rank."""
        first, end, left, right = self._boxes[self.rank].tolist()
        return slice(first, end), slice(left, right)

    def _arrange(self, counts: I64) -> I64:
        share = np.asarray(counts, float)
        if not share.any():
            share = np.ones(self.size)
        column, least = _core.rectangles_columns(share, *self.shape)
        if hasattr(self, "_boxes"):
            old = np.unique(self._boxes[:, 2], return_inverse=True)[1].astype(np.int32)
            now = _core.rectangles_columns(share, *self.shape, old)[1]
            column = old if now <= KEEP * least else column
        return _core.rectangles_place(share, column, *self.shape)

    def __repr__(self) -> str:
        return (
            f"<TilePartition: {self.shape[0]} x {self.shape[1]} on {self.size} ranks, "
            f"{self.counts.min()} to {self.counts.max()} each>"
        )

    def _describe(self, index: int, array: Any) -> str:
        own = tuple(s.stop - s.start for s in self.local)
        if not isinstance(array, np.ndarray) or array.shape[:2] != own:
            what = getattr(array, "shape", type(array).__name__)
            raise DomainError(
                f"array {index} is {what}: expected an ndarray with the rows and columns of this "
                f"rank, {own} (pass all arrays in one call)"
            )
        checks.without_mask(f"array {index}", array)
        return f"array of {array.dtype} (rows, columns, {', '.join(map(str, array.shape[2:]))})"

"""Metrics of the iterations of a run, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pylb.model.snapshot import F64, I64

MOST = 1 << 17  # an `IterationLog` keeps fewer rows than this
STAGE = 256  # new iterations enter a block when there are this many (or 2 * span, if more)


class Row(NamedTuple):
    """Metrics of one iteration (see `report.Iterations`), number of its messages, their bytes."""

    time: float
    max: float
    mean: float
    idle: float
    utilization: float
    min: float
    messages: float = 0.0
    bytes: float = 0.0


# Column of the lowest utilization: a row of several iterations has their minimum, not their mean.
LOWEST = Row._fields.index("utilization")


class IterationLog:
    """A row of metrics for each iteration so far.

    In a long run, a row is the mean of 2, 4, 8, ... iterations, so that there are always fewer than
    `MOST` rows.
    """

    def __init__(self, width: int = len(Row._fields)) -> None:
        self.span = 1  # number of iterations of a row; the last row may have fewer
        self._width = width
        self._blocks: list[F64] = []
        self._rows: list[Sequence[float]] = []  # iterations that are not in a block yet
        self._last: Sequence[float] | None = None
        self._n = self._entered = 0  # number of iterations; number of rows in blocks

    @classmethod
    def restored(cls, table: F64, span: int, n: int) -> IterationLog:
        """Make a log of n iterations from the `table` and the `span` of another log."""
        out = cls(table.shape[1])
        whole = n // span  # rows with `span` iterations; the last row may have fewer
        out.span, out._n, out._entered = span, n, whole
        out._blocks = [np.array(table[:whole])]
        out._rows = np.repeat(table[whole:], span, axis=0)[: n - whole * span].tolist()
        out._last = table[-1].tolist() if n else None
        return out

    def __len__(self) -> int:
        return self._n

    def append(self, row: Sequence[float]) -> None:
        self._rows.append(row)
        self._last = row
        self._n += 1
        if len(self._rows) >= max(STAGE, 2 * self.span):
            self._enter()

    def extend(self, rest: Sequence[Sequence[float]]) -> None:
        while rest:
            stage = max(STAGE, 2 * self.span)
            part, rest = rest[: stage - len(self._rows)], rest[stage - len(self._rows) :]
            self._rows += part
            self._last = part[-1]
            self._n += len(part)
            if len(self._rows) >= stage:
                self._enter()

    @property
    def last(self) -> Row | None:
        """The row of the most recent iteration; None: there is none."""
        return None if self._last is None else Row(*self._last)

    def table(self) -> F64:
        """Return the rows, (m, width)."""
        self._blocks = [_joined(self._blocks, self._width)]
        if not self._rows:
            return self._blocks[0]
        open_rows, whole = self._array(self._rows), len(self._rows) // self.span * self.span
        rest = [self._folded(open_rows[:whole], self.span)]
        if whole < len(open_rows):
            rest.append(self._folded(open_rows[whole:], len(open_rows) - whole))
        return _joined([*self._blocks, *rest], self._width)

    def first(self) -> I64:
        """Return the first iteration of each row, (m,)."""
        return np.arange(0, self._n, self.span)

    def _enter(self) -> None:
        """Move `_rows` into a new block; if there are `MOST` rows in blocks, join them in pairs."""
        self._blocks.append(self._folded(self._array(self._rows), self.span))
        self._entered += len(self._blocks[-1])
        self._rows = []
        if self._entered >= MOST:
            whole = _joined(self._blocks, self._width)
            pairs = len(whole) // 2 * 2
            # After `restored`, the number of rows may be odd: the last one is left over.
            self._rows = np.repeat(whole[pairs:], self.span, axis=0).tolist()
            self._blocks = [self._folded(whole[:pairs], 2)]
            self._entered, self.span = len(self._blocks[0]), 2 * self.span

    def _array(self, rows: Sequence[Any]) -> F64:
        return np.array(rows, np.float64).reshape(-1, self._width)

    def _folded(self, rows: F64, by: int) -> F64:
        if by == 1:
            return rows
        groups = rows.reshape(-1, by, self._width)
        out = groups.mean(axis=1)
        if self._width > LOWEST:
            out[:, LOWEST] = groups[:, :, LOWEST].min(axis=1)
        return out  # type: ignore[no-any-return]


def _joined(blocks: list[F64], width: int) -> F64:
    return np.concatenate([np.zeros((0, width)), *blocks]) if len(blocks) != 1 else blocks[0]

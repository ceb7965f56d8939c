"""Distribute items over bins of equal cost, e.g. sequences of unequal length over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.console import InNotebook, clip
from pylb.errors import DomainError
from pylb.measure.load_model import LoadModel
from pylb.model import checks
from pylb.model.snapshot import F64, I32, I64

Cost = Callable[[F64], ArrayLike] | Sequence[float] | None
_BELOW = 10**7 + 1  # a limit of the number of bins, which take up to 50 bytes each


@dataclass(frozen=True, eq=False, repr=False)
class Pack(InNotebook):
    """The bins of items, from `pylb.pack`.

    Examples
    --------
    >>> pack = pylb.pack([700, 300, 400, 200, 100, 300], bins=2)
    >>> pack.cost, [items.tolist() for items in pack.items]
    (array([1000., 1000.]), [[1, 2, 5], [0, 3, 4]])
    """

    bin: I32  #: (n,) the bin of each item.
    cost: F64  #: (bins,) sum of the costs in each bin.
    max_over_mean: float  #: Cost of the largest bin, divided by the mean.
    #: No packing has a smaller `max_over_mean`; with a capacity or `previous`, it may not be
    #: reached.
    bound: float

    @property
    def items(self) -> list[I64]:
        """The items of each bin, a list of (k,) int64, ascending."""
        order = np.argsort(self.bin, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.bin, minlength=len(self.cost)))[:-1])

    def _bars(self) -> dict[str, Any]:
        return {"cost of each bin": self.cost}

    def __repr__(self) -> str:
        return (
            f"<Pack: {len(self.bin)} items in {len(self.cost)} bins, max/mean "
            f"{self.max_over_mean:.6g} (bound {self.bound:.6g})>"
        )


def pack(
    lengths: ArrayLike,
    bins: int,
    *,
    equal: bool = False,
    capacity: float | None = None,
    cost: Cost = None,
    previous: ArrayLike | None = None,
) -> Pack:
    """Distribute items over bins such that the largest bin costs as little as possible.

    Parameters
    ----------
    lengths : (n,) array_like
        Length of each item, e.g. its number of tokens, 0 or more.
    bins : int
        Number of bins, e.g. of processes.
    equal : bool
        All bins get the same number of items; if `bins` does not divide n, some get one more.
    capacity : float, optional
        Largest allowed sum of the lengths in a bin.
    cost : callable or (a, b, c), optional
        The cost of items: a function of all lengths (n,) that returns (n,) costs, or the
        coefficients of ``a + b * length + c * length**2`` (`Packer` learns these).  Default: the
        length.
    previous : (n,) array_like of int, optional
        The bin of each item now; -1: a new item.  Items stay in their bins if the largest bin is
        then at most 0.1 % above the bound.

    Examples
    --------
    >>> pylb.pack([8, 1, 1, 6], bins=2, equal=True).bin
    array([0, 1, 0, 1], dtype=int32)
    """
    values = _lengths(lengths)
    m = checks.whole("bins", bins, 1, "a number of bins", _BELOW)
    n = len(values)
    costs = values
    if callable(cost):
        costs = checks.vector("cost(lengths)", cost(values), n)
    elif cost is not None:
        a, b, c = checks.vector("cost", cost, 3)
        costs = a + values * (b + values * c)
    if costs is not values:
        checks.amounts("cost(lengths)", costs)
    limit = np.inf
    if capacity is not None:
        limit = checks.positive("capacity", capacity)
        for i in np.flatnonzero(values > limit)[:1]:
            raise DomainError(
                f"lengths[{i}] is {values[i]:g}: expected at most the capacity, {limit:g}"
            )
    was = None
    if previous is not None:
        was = checks.integers("previous", previous, np.int32)
        if len(was) != n or (n and not (was.min() >= -1 and was.max() < m)):
            raise DomainError(
                f"previous is {clip(repr(previous), 60)}: expected {n} bins, -1 ... {m - 1}"
            )
    bin_, sums, bound = _core.pack(
        costs, m, None if capacity is None else values, limit, checks.flag("equal", equal), was
    )
    mean = float(sums.sum()) / m
    ratios = (float(sums.max()) / mean, bound / mean) if mean else (1.0, 1.0)
    return Pack(bin_, sums, *ratios)


def _lengths(given: ArrayLike) -> F64:
    out = checks.vector("lengths", given)
    checks.amounts("lengths", out)
    return out


class Packer:
    """Pack one batch after another, and learn what an item costs, as a function of its length.

    The seconds of a bin are modelled as the sum over its items of ``a + b * length + c *
    length**2``, with coefficients of zero or more that follow from `observe`.  Before the first
    `observe`, the cost of an item is its length.

    Parameters
    ----------
    bins : int
        Number of bins, e.g. of processes.
    equal, capacity
        As for `pylb.pack`.
    window : int
        `stream` packs this many batches together, so that the steps of one window are more alike.

    Examples
    --------
    >>> packer = pylb.Packer(bins=2)
    >>> pack = packer.pack([700, 300, 400, 200])
    >>> packer.observe(seconds=[2.0, 1.0])  # what each bin took
    >>> len(packer.cost)
    3
    """

    def __init__(
        self, bins: int, *, equal: bool = False, capacity: float | None = None, window: int = 1
    ) -> None:
        self._bins = checks.whole("bins", bins, 1, "a number of bins", _BELOW)
        self._equal = checks.flag("equal", equal)
        self._capacity = None if capacity is None else checks.positive("capacity", capacity)
        self._window = checks.whole("window", window, 1, "a number of batches")
        self._model: LoadModel | None = None
        self._last: tuple[F64, Pack] | None = None

    @property
    def cost(self) -> tuple[float, float, float]:
        """The coefficients (a, b, c): seconds per item, per length, per squared length."""
        if self._model is None:
            return (0.0, 1.0, 0.0)
        a, b, c = LoadModel.coefficients(self._model.sums)
        return (float(a), float(b), float(c))

    def pack(self, lengths: ArrayLike) -> Pack:
        """Pack one batch with the learned cost."""
        values = _lengths(lengths)
        out = pack(values, self._bins, equal=self._equal, capacity=self._capacity, cost=self.cost)
        self._last = (values, out)
        return out

    def observe(self, seconds: ArrayLike, lengths: Any = None) -> None:
        """Learn from the seconds that each bin took.

        Parameters
        ----------
        seconds : (bins,) array_like of float
        lengths : list of (k,) array_like, optional
            The lengths of the items in each bin.  Default: those of the most recent `pack`.
        """
        took = checks.vector("seconds", seconds, self._bins)
        checks.amounts("seconds", took)
        if lengths is None:
            if self._last is None:
                raise DomainError("lengths is missing: expected them, or an earlier call of pack()")
            values, last = self._last
            each = [values[i] for i in last.items]
        else:
            each = list(map(_lengths, checks.several("lengths", lengths, "lists")))
            if len(each) != self._bins:
                raise DomainError(f"lengths has {len(each)} lists: expected {self._bins}")
        model = LoadModel(3) if self._model is None else self._model
        for x, time in zip(each, took, strict=True):
            model = model.observe(np.stack([np.ones_like(x), x, x * x], axis=1), float(time))
        self._model = model

    def stream(self, batches: Iterable[ArrayLike]) -> Iterator[list[F64]]:
        """Pack a stream: yield, for each step, the lengths of the items in each bin.

        The items of `window` batches are packed together into `window` steps, so an item may get a
        later or earlier step than its batch.  With ``window=1``, each batch is one step.

        Examples
        --------
        >>> packer = pylb.Packer(bins=2, window=2)
        >>> for step in packer.stream([[900, 100], [400, 300, 300]]):
        ...     print([x.tolist() for x in step])
        [[900.0], [100.0, 300.0]]
        [[400.0], [300.0]]
        """
        held: list[F64] = []
        for batch in batches:
            held.append(checks.vector("lengths", batch))
            if len(held) == self._window:
                yield from self._steps(held)
                held = []
        if held:
            yield from self._steps(held)

    def _steps(self, batches: list[F64]) -> Iterator[list[F64]]:
        lengths, n = np.concatenate(batches), len(batches)
        out = pack(
            lengths, n * self._bins, equal=self._equal, capacity=self._capacity, cost=self.cost
        )
        items = out.items
        order = np.argsort(-out.cost, kind="stable")  # the bins of a step cost about the same
        for k in range(n):
            now = order[k * self._bins : (k + 1) * self._bins]
            yield [lengths[items[b]] for b in now]

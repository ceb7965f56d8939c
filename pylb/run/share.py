"""Lend work within a step: data stay on their rank, but other ranks compute some of the rows."""

from __future__ import annotations

import contextlib
import math
import traceback
import zlib
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core, optional
from pylb.comm import parcel
from pylb.comm.agreement import Attempt
from pylb.comm.connect import agreement_of
from pylb.comm.transport_torch import is_group
from pylb.errors import DomainError, PylbError, RemoteError, StrategyError
from pylb.measure.load_model import LoadModel, features_of
from pylb.model import checks
from pylb.run.options import MODES, overridden
from pylb.virtual.comm import VirtualComm

Arrays = list[NDArray[Any]]
ZEROS = (0.0,) * (len(_core.SHARE_FIGURES) - 3)  # figures of a call without lending
PARTS = 24  # number of parts of the rows; the model of features learns from their seconds


class Sharer:
    """Lets ranks compute rows of arrays for each other, within a step.

    For work that is expensive in different rows in each step, but whose data must stay with their
    neighbours, e.g. stiff chemistry, columns of radiation, micro models.  A row is on another rank
    only while it is computed there, and only if that saves time.

    The first call learns what the rows cost.  A later call predicts the cost of each row: from the
    time of its chunk in the previous call, or from `cost` or `features`.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or VirtualComm, optional
        The ranks; pylb uses a duplicate of it, which is made collectively.  None or virtual ranks:
        nothing is lent.
    mode : {"on", "shadow", "off"}
        "shadow" lends nothing, but `metrics` reports what lending would have saved.  "off" only
        calls the function.  The environment variable ``PYLB_MODE`` overrides this.
    reactive : bool
        A rank that has finished its work asks other ranks for rows, so that work which could not be
        predicted is shared, too.
    beta : float, optional
        Seconds for a byte that goes to another rank and back.  Default: 1e-9.

    Examples
    --------
    >>> sharer, x = pylb.Sharer(comm), np.arange(6.0)
    >>> for step in range(3):
    ...     x = sharer.share(np.sqrt, x)
    >>> len(sharer.metrics["seconds"])
    3
    """

    def __init__(
        self,
        comm: Any = None,
        *,
        mode: str = "on",
        reactive: bool = True,
        beta: float | None = None,
    ) -> None:
        agreement = agreement_of(comm)  # first, so that the other ranks learn of a later error
        transport: Any = agreement.transport
        checks.one_of("mode", mode, MODES)
        mode = overridden({"mode": mode}, ("PYLB_MODE",))[0]["mode"]
        modes = {other.decode() for other in transport.allgather(mode.encode())}
        if len(modes) > 1:
            what = f"mode is {', '.join(sorted(modes))} on different ranks"
            raise DomainError(f"{what}: expected the same, in the program and in PYLB_MODE")
        reactive = checks.flag("reactive", reactive)
        self.rank, self.n_ranks = transport.rank, transport.size  #: this rank; number of ranks
        self._core: Any = None
        if self.n_ranks > 1 and mode != "off" and not isinstance(comm, VirtualComm):
            if is_group(comm):
                raise DomainError(f"comm is {comm!r}: expected a communicator of MPI to lend rows")
            native: Any = optional.require("MPI")
            seconds = 0.0 if beta is None else checks.seconds("beta", beta)
            self._core = native.Share(transport.comm, mode == "on", reactive, seconds)
            agreement.sharers.append(self._core)
        self._calls: list[tuple[float, ...]] = []
        self._model: LoadModel | None = None
        # Of the previous call: whether fn returned one array, and empty arrays like its results.
        self._like: tuple[bool, Arrays] | None = None

    @property
    def worked(self) -> float:
        """Seconds that this rank computed in the most recent call."""
        return self._calls[-1][1] + self._calls[-1][2]

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """What the calls did on this rank, an array (number of calls,) for each figure.

        ``seconds``: duration of the call; ``own``, ``borrowed``: seconds of computing own rows, and
        rows of other ranks; ``lent``: seconds that other ranks spent on rows of this rank;
        ``longest``: seconds of the slowest rank if nothing had been lent; ``bound``: all work
        divided by all speeds; ``saved``: seconds that lending has saved (in shadow mode: would have
        saved); ``rows``, ``bytes``: what this rank lent; ``speed``: the speed of this rank.
        """
        table = np.array(self._calls).reshape(-1, len(_core.SHARE_FIGURES))
        return dict(zip(_core.SHARE_FIGURES, table.T.copy(), strict=True))

    def sums(self) -> dict[str, Any]:
        """Return the sums over the calls, as in a `Report`."""
        m = self.metrics
        waits = m["seconds"] - m["own"] - m["borrowed"]
        hidden = np.clip(m["lent"] - waits, 0.0, None)
        out = {"lent": m["lent"], "hidden": hidden, "borrowed": m["borrowed"]}
        return {name: float(v.sum()) for name, v in {**out, "lending_saved": m["saved"]}.items()}

    def seconds_of(self, part: NDArray[np.integer[Any]], n: int) -> NDArray[np.float64]:
        """Return (n,): the seconds (if not known, the rows) of each part; row i is in part[i]."""
        seconds = np.zeros(0) if self._core is None else self._core.seconds()
        weights = seconds if len(seconds) == len(part) and seconds.any() else None
        return np.bincount(part, weights, n).astype(np.float64)

    def fail(self, error: BaseException) -> NoReturn:
        """Raise `error`, about this rank's arguments, also on the other ranks, which wait."""
        if self._core is not None:
            with contextlib.suppress(PylbError):
                self._core.call(0, 0, 0.0, None, 0, True, *(None,) * 4)
        raise error

    def _alone(self, fn: Callable[..., Any], arrays: tuple[ArrayLike, ...]) -> Any:
        """Compute the rows of this rank here."""
        began = _core.clock()
        try:
            found = self._results(fn, *rows_of(fn, arrays))
        except BaseException:
            if self._core is not None:
                self._core.leave()
            raise
        seconds = _core.clock() - began
        self._calls.append((seconds, seconds, *ZEROS, self._calls[-1][-1] if self._calls else 1.0))
        return self._answer(*found)

    def _results(self, fn: Callable[..., Any], rows: Arrays, n: int) -> tuple[bool, Arrays]:
        # Without rows, only the first call asks fn, which may be slow or expect some.
        return results_of(fn, rows, n) if n or self._like is None else self._like

    def _answer(self, single: bool, made: Arrays) -> Any:
        self._like = single, [a[:0].copy() for a in made]
        return made[0] if single else tuple(made)

    def share(
        self,
        fn: Callable[..., Any],
        *arrays: ArrayLike,
        cost: ArrayLike | None = None,
        features: ArrayLike | None = None,
        chunk: int | None = None,
        verify: float = 0.0,
    ) -> Any:
        """Return ``fn(*arrays)``; other ranks may compute some of the rows.  Collective.

        The rows of the result are in the same order.  If `fn` fails on another rank, the error here
        contains the traceback, if the row came from here.

        Parameters
        ----------
        fn : callable
            The same function on all ranks.  It gets the arrays with some of their rows, and returns
            one array or a tuple of arrays with as many rows.  A row of the result depends only on
            the same row of the arguments.  The function must not change anything else.
        *arrays : (n, ...) array_like
            Rows of any shape, without Python objects.  n may differ between ranks; dtypes and
            shapes of a row may not.
        cost : (n,) array_like, optional
            Estimated work of each row, in any unit.
        features : (n, k) array_like, optional
            Features of each row, e.g. its number of particles and the constant 1: the cost is a sum
            of features times coefficients, which are fitted to the measured seconds.
        chunk : int, optional
            Largest number of rows that are computed together.  Default: chosen by their time.
        verify : float
            Fraction of the lent rows that this rank computes again, to compare the results.
        """
        core = self._core
        plain = cost is None and features is None and chunk is None and not verify
        if plain and (core is None or core.holds()):
            return self._alone(fn, arrays)
        call: SharedCall | None = None
        with Attempt() as tried:
            call = SharedCall(fn, arrays, verify, self.rank)
            weights = call.cost_of(cost, features, self._model)
            most = 0 if chunk is None else checks.whole("chunk", chunk, 1)
        if tried.error is not None:
            self.fail(tried.error)
        assert call is not None
        if core is None:
            return self._alone(fn, arrays)
        try:
            figures = core.call(
                *(call.n, sum(call.sizes), call.kind, weights, most, False),
                *(call.own, call.pack, call.guest, call.take),
            )
        except StrategyError as failed:  # the core reports that another rank has failed
            raise RemoteError(f"share(): {failed}") from None
        self._calls.append(figures)
        if call.features is not None and len(seconds := core.seconds()):
            self._model = call.learned(self._model, seconds)
        if call.out is None:
            return self._answer(*self._results(fn, call.arrays, 0))
        return self._answer(call.single, call.out)


def rows_of(fn: Callable[..., Any], arrays: tuple[ArrayLike, ...]) -> tuple[Arrays, int]:
    """Check the arguments of `share`; return the arrays and the number of their rows."""
    if not callable(fn):
        raise DomainError(f"fn is {fn!r}: expected a function of arrays")
    if not arrays:
        raise DomainError("share() got no arrays: expected at least one")
    rows = list(map(np.asarray, arrays))
    n = len(rows[0]) if rows[0].ndim else 0
    for k, a in enumerate(rows):
        if a.ndim < 1 or a.dtype.hasobject:
            what = f"array {k} has dtype {a.dtype} and shape {a.shape}"
            raise DomainError(f"{what}: expected rows without Python objects")
        if len(a) != n:
            raise DomainError(f"array {k} has {len(a)} rows, array 0 has {n}: expected the same")
    return rows, n


def results_of(fn: Callable[..., Any], rows: Arrays, n: int) -> tuple[bool, Arrays]:
    """Return whether `fn` returns one array, not a tuple, and its results for n rows."""
    made = fn(*rows)
    single = not isinstance(made, tuple)
    arrays = list(map(np.asarray, (made,) if single else made))
    for k, a in enumerate(arrays):
        if a.ndim < 1 or len(a) != n or a.dtype.hasobject:
            got = f"{len(a)} rows" if a.ndim else "no rows"
            what = f"fn returned {got} of dtype {a.dtype} as result {k}"
            raise DomainError(f"{what}: expected {n} rows without Python objects")
    return single, arrays


class SharedCall:
    """One call of `Sharer.share`: it computes rows, packs them, and stores their results."""

    def __init__(
        self,
        fn: Callable[..., Any],
        arrays: tuple[ArrayLike, ...],
        verify: float,
        rank: int,
    ) -> None:
        self.fn, self.rank = fn, rank
        self.verify = checks.number("verify", verify) if verify else 0.0
        if not 0.0 <= self.verify <= 1.0:
            raise DomainError(f"verify is {verify}: expected 0 ... 1")
        self.arrays, self.n = rows_of(fn, arrays)
        self.sizes = [a.dtype.itemsize * math.prod(a.shape[1:]) for a in self.arrays]
        kinds = str([(a.dtype, a.shape[1:]) for a in self.arrays]).encode()
        self.kind = zlib.crc32(kinds) / 2.0**33  # hosts use their own dtypes
        self.out: Arrays | None = None
        self.single = True  # whether fn returns one array, not a tuple
        self.features: NDArray[np.float64] | None = None

    def cost_of(
        self, cost: ArrayLike | None, features: ArrayLike | None, model: LoadModel | None
    ) -> NDArray[np.float64] | None:
        """Return the program's estimate of the cost of each row, (n,); None: there is none."""
        if cost is not None and features is not None:
            raise DomainError("cost and features are both given: expected only one of them")
        if features is not None:
            self.features = features_of(features, "features")
            if len(self.features) != self.n:
                raise DomainError(f"features has {len(self.features)} rows: expected {self.n}")
            if model is None or len(model.sums) != self.features.shape[1]:
                return np.asarray(self.features.sum(axis=1))
            return np.asarray(self.features @ LoadModel.coefficients(model.sums))
        if cost is None:
            return None
        given = np.ascontiguousarray(cost, np.float64)
        if given.shape != (self.n,):
            raise DomainError(f"cost has shape {given.shape}: expected ({self.n},)")
        return given

    def learned(self, model: LoadModel | None, seconds: NDArray[np.float64]) -> LoadModel:
        """Return `model`, updated by the seconds of the rows in this call."""
        assert self.features is not None
        k = self.features.shape[1]
        if model is None or len(model.sums) != k:
            model = LoadModel(k)
        for part in np.array_split(np.arange(self.n), min(self.n, PARTS)):
            model = model.observe(self.features[part], float(seconds[part].sum()))
        return model

    def own(self, rows: Any) -> None:
        given = [a[rows] for a in self.arrays]
        self._keep(rows, self.computed(given, len(given[0])))

    def pack(self, rows: NDArray[np.int64], out: memoryview) -> None:
        at = 0
        for a, size in zip(self.arrays, self.sizes, strict=True):
            end = at + size * len(rows)
            to = np.frombuffer(out[at:end], a.dtype).reshape(len(rows), *a.shape[1:])
            np.take(a, rows, axis=0, out=to)
            at = end

    def guest(self, data: memoryview, n: int) -> tuple[bool, bytes]:
        try:
            given, at = [], 0
            for a, size in zip(self.arrays, self.sizes, strict=True):
                end = at + size * n
                rows = np.frombuffer(data[at:end], a.dtype).reshape(n, *a.shape[1:])
                given.append(rows.copy())  # fn may write to it, and it must outlive the message
                at = end
            made = self.computed(given, n)
            return False, parcel.freeze((self.single, made))
        except (Exception, SystemExit):
            return True, traceback.format_exc().encode()

    def take(self, rank: int, failed: bool, rows: NDArray[np.int64], data: memoryview) -> None:
        if failed:
            raise RemoteError(
                f"rank {rank} could not compute rows {_few(rows)} of rank {self.rank}:\n"
                f"{bytes(data).decode(errors='replace')}"
            )
        self.single, made = parcel.unpack([data])
        self._keep(rows, made)
        if self.verify:
            self._verify(rank, rows, made)

    def computed(self, given: Arrays, n: int) -> Arrays:
        self.single, made = results_of(self.fn, given, n)
        return made

    def _keep(self, rows: Any, made: Arrays) -> None:
        if self.out is None:
            if isinstance(rows, slice) and rows == slice(0, self.n):
                self.out = made
                return
            self.out = [np.empty((self.n, *a.shape[1:]), a.dtype) for a in made]
        kinds = [(a.dtype, a.shape[1:]) for a in self.out]
        if kinds != [(a.dtype, a.shape[1:]) for a in made]:
            raise DomainError(
                f"fn returned {[(str(a.dtype), a.shape[1:]) for a in made]} for some rows, "
                f"{[(str(d), s) for d, s in kinds]} for other rows: expected the same dtype and "
                "shape for every row"
            )
        for out, a in zip(self.out, made, strict=True):
            out[rows] = a

    def _verify(self, rank: int, rows: NDArray[np.int64], made: Arrays) -> None:
        """Compute some rows (at least one) of another rank's results again, and compare."""
        step = max(round(1.0 / self.verify), 1)
        some = np.arange(0, len(rows), step)
        again = self.computed([a[rows[some]] for a in self.arrays], len(some))
        for mine, theirs in zip(again, made, strict=True):
            same = mine == theirs[some]
            same |= (mine != mine) & (theirs[some] != theirs[some])  # both are NaN
            wrong = ~same.reshape(len(some), -1).all(axis=1)
            if wrong.any():
                what = f"ranks {rank} and {self.rank} computed different results for rows"
                bad = _few(rows[some][wrong])
                raise DomainError(f"{what} {bad}: expected a function of the rows alone")


def _few(rows: NDArray[np.int64]) -> str:
    text = ", ".join(map(str, rows[:5].tolist()))
    return f"{text}, ..." if len(rows) > 5 else text

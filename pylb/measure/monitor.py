"""Measure the speeds of the ranks while a program runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.model.checks import alike
from pylb.model.machine import Machine
from pylb.model.snapshot import F64, _array

SHORT = 1e-3  # a computation of fewer seconds gives no usable speed


class SpeedSample(NamedTuple):
    """What a `Monitor` measured between two updates, the same on all ranks.

    Examples
    --------
    >>> pylb.measure.monitor.SpeedSample(seconds=[2.0], cpu=[1.0], work=[10.0]).work
    [10.0]
    """

    seconds: F64  #: (p,) wall time of each rank in its timed blocks.
    cpu: F64  #: (p,) processor time in these blocks: the seconds in which the rank had a core.
    #: (p,) work done in these blocks, in the user's unit; NaN if the user did not give it.
    work: F64


class Monitor:
    """Follow the speeds of a machine's ranks while the program runs.

    If `timed` is given the work, a rank's speed is work divided by time.  Otherwise it is the
    measured speed of an unshared core, times the fraction of time in which the rank had a core
    (DRUM's utilisation, measured in the timed blocks only).  The constructor is collective.

    Parameters
    ----------
    machine : Machine
        A measured machine.
    comm : mpi4py communicator, VirtualComm or None

    Attributes
    ----------
    machine : Machine
        The machine with the speeds of the most recent update.
    history : list of SpeedSample

    Examples
    --------
    >>> monitor = pylb.measure.Monitor(pylb.Machine.parse("node:1 rank:1"), comm)
    >>> with monitor.timed(work=100.0):
    ...     total = np.arange(1000).sum()
    >>> monitor.update().part_sizes(), monitor.history[0].work
    (array([1.]), array([100.]))
    """

    def __init__(self, machine: Machine, comm: Any = None) -> None:
        if comm is None:
            _check(machine, 1)
        elif hasattr(comm, "allgather"):
            alike(comm, "Monitor()", lambda: _check(machine, comm.size))
        else:
            raise DomainError(f"comm is {comm!r}: expected a communicator, or None")
        self.machine, self.history, self._comm = machine, list[SpeedSample](), comm
        self._alone = machine.speed / np.maximum(1.0 - machine.busy, 1e-3)
        self._seconds, self._cpu, self._work, self._inside = 0.0, 0.0, 0.0, False

    @contextmanager
    def timed(self, work: float = float("nan")) -> Iterator[None]:
        """Time a block in which this rank computes and does not wait for other ranks.

        Parameters
        ----------
        work : float
            Work in the block, in any unit; give it on all ranks or on none.
        """
        if self._inside:
            raise StateError("timed() inside a timed() block: expected it after the block")
        if work == work and not checks.number("work", work) >= 0.0:  # nan: not given
            raise DomainError(f"work is {work!r}: expected 0 or more")
        self._inside, start, cpu = True, _core.clock(), _core.load_clock("cpu")
        try:
            yield
            self._seconds += _core.clock() - start
            self._cpu += _core.load_clock("cpu") - cpu
            self._work += work
        finally:
            self._inside = False

    def update(self) -> Machine:
        """Return the machine with the speeds of the blocks since the previous update.  Collective.

        If `timed` was not given the work, a rank that computed for a millisecond or less keeps its
        speed.  Otherwise such a rank, or one without work, keeps the ratio of its speed to that of
        the other ranks.
        """
        mine = self._seconds, self._cpu, self._work
        every = [mine] if self._comm is None else self._comm.allgather(mine)
        sample = SpeedSample(*np.array(every, float).T)
        self._seconds, self._cpu, self._work = 0.0, 0.0, 0.0
        self.history.append(sample)
        measured = (sample.seconds > SHORT) & (sample.work != 0.0)
        seconds = np.where(measured, sample.seconds, 1.0)
        used = np.where(measured, np.minimum(sample.cpu / seconds, 1.0), 1.0)
        speed, load = self.machine.speed, self.machine.busy
        if measured.any() and np.isfinite(sample.work[measured]).all():
            now = np.where(measured, sample.work / seconds, 0.0)
            scale = now[measured].sum() / max(speed[measured].sum(), 1e-300)
            speed = np.where(measured, now, speed * scale)
        else:
            speed = np.where(measured, self._alone * np.maximum(used, 1e-3), speed)
        self.machine = self.machine.with_speeds(speed, np.where(measured, 1.0 - used, load))
        return self.machine


def _check(machine: Machine, size: int) -> None:
    checks.instance("machine", machine, Machine)
    if machine.n_ranks != size:
        raise DomainError(f"machine has {machine.n_ranks} ranks: expected {size}")


class SpeedLearner:
    """Speeds of ranks, learned from one placement after another.

    The time of an object on a rank is its work divided by the rank's speed.  So an object that
    moves shows how much the speeds of its two ranks differ.  Speeds are fitted to the moves of the
    last seven intervals between placements; older ones count less.  Speeds are used only after they
    have predicted how the times of the objects that move next change, or if they explain nearly all
    changes of the last interval (`csrc/measure/measure.h`).  With `work`, they are used at once.

    Parameters
    ----------
    n_ranks : int

    Examples
    --------
    >>> learner, key = pylb.measure.SpeedLearner(2), np.arange(32)
    >>> for k in range(8):  # rank 1 is twice as fast
    ...     rank = (key + k * (key % 3)) % 2
    ...     speed = learner.observe(key, rank, (1.0 + key % 5) / (1.0 + rank))
    >>> round(float(speed[1] / speed[0]), 1)
    2.0
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = checks.whole("n_ranks", n_ranks, 1, "a number of ranks", 1 << 31)
        self._core = _core.SpeedLearner(self.n_ranks)

    @property
    def speed(self) -> F64 | None:
        """Speeds with geometric mean 1, (p,) float64; None: all ranks count as equally fast."""
        return self._core.speed

    @property
    def error(self) -> F64:
        """Standard error of the logarithms of the speeds, infinite if unknown; (p,)."""
        return self._core.error

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in the changes of log times between two placements."""
        return self._core.sigma

    @property
    def evidence(self) -> float:
        """The fraction of the changes in moved objects' times that the speeds predicted.

        Older intervals count less.  Negative: equal speeds predict better.
        """
        return self._core.evidence

    def observe(
        self, key: ArrayLike, rank: ArrayLike, seconds: ArrayLike, work: ArrayLike | None = None
    ) -> F64 | None:
        """Add the objects' times under one more placement, and return the new `speed`.

        Parameters
        ----------
        key, rank : (n,) int64, (n,) int32
            A unique key for each object, and the rank where the object was.
        seconds : (n,) float64
            The object's time per iteration on that rank, the mean of several iterations.  An object
            without a measured time (0 or nan) is ignored.
        work : (n,) float64, optional
            The user's own estimate of the object's work, in any unit; 0: no estimate.
        """
        n = (checks.array("key", key).size,)
        self._core.observe(
            _array("key", key, np.int64, n),
            _array("rank", rank, np.int32, n),
            _array("seconds", seconds, np.float64, n),
            None if work is None else _array("work", work, np.float64, n),
        )
        return self.speed

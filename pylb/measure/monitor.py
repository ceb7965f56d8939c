"""Measure the speeds of the ranks while a program runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.model.alike import alike
from pylb.model.machine import Machine
from pylb.model.snapshot import F64

SHORT = 1e-3  # a computation of fewer seconds gives no usable speed


class SpeedSample(NamedTuple):
    """What a `Monitor` measured between two updates, the same on all ranks.

    Examples
    --------
    >>> monitor = pylb.measure.Monitor(pylb.Machine.parse("node:1 rank:1"), comm)
    >>> with monitor.timed(work=100.0):
    ...     total = np.arange(1000).sum()
    >>> machine = monitor.update()
    >>> monitor.history[0].work
    array([100.])
    """

    seconds: F64  #: (p,) wall time of each rank in its timed blocks.
    cpu: F64  #: (p,) processor time in these blocks: the seconds in which the rank had a core.
    #: (p,) work done in these blocks, in the user's unit; NaN if the user did not give it.
    work: F64
    #: (p,) mean number of running processes of all users on the rank's node in the last minute;
    #: NaN: not known.
    node_load: F64


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
    >>> machine = pylb.Machine.parse("node:1 rank:1")
    >>> monitor = pylb.measure.Monitor(machine, comm)
    >>> for it in range(3):
    ...     with monitor.timed(work=100.0):
    ...         total = np.arange(1000).sum()
    >>> monitor.update().part_sizes()
    array([1.])
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
            raise StateError("timed() is called inside a timed() block: expected one at a time")
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
        mine = self._seconds, self._cpu, self._work, _load_average()
        every = [mine] if self._comm is None else self._comm.allgather(mine)
        sample = SpeedSample(*np.array(every, float).T)
        self._seconds, self._cpu, self._work = 0.0, 0.0, 0.0
        self.history.append(sample)
        measured = (sample.seconds > SHORT) & (sample.work != 0.0)
        used = np.where(
            measured, np.minimum(sample.cpu / np.where(measured, sample.seconds, 1.0), 1.0), 1.0
        )
        speed, load = self.machine.speed, self.machine.busy
        if measured.any() and np.isfinite(sample.work[measured]).all():
            speed = self._by_work(sample, measured)
        else:
            speed = np.where(measured, self._alone * np.maximum(used, 1e-3), speed)
        self.machine = self.machine.with_speeds(speed, np.where(measured, 1.0 - used, load))
        return self.machine

    def _by_work(self, sample: SpeedSample, measured: Any) -> F64:
        """Return the work per second; ranks without a measurement keep their relative speed."""
        before = self.machine.speed
        now = np.where(measured, sample.work / np.where(measured, sample.seconds, 1.0), 0.0)
        scale = now[measured].sum() / max(before[measured].sum(), 1e-300)
        out: F64 = np.where(measured, now, before * scale)
        return out


def _check(machine: Machine, size: int) -> None:
    checks.instance("machine", machine, Machine)
    if machine.n_ranks != size:
        raise DomainError(f"machine has {machine.n_ranks} ranks: expected {size}")


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return float("nan")

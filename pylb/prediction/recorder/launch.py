"""Run an MPI program with the recorder loaded; predict while it runs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pylb import optional
from pylb.comm.mpiexec import insert_before_programs, is_mpiexec
from pylb.errors import DomainError, PylbError
from pylb.prediction.prediction import Target, target
from pylb.prediction.recorder.monitor import TOKEN, RecordMonitor
from pylb.prediction.recorder.recording import Recording


class Online:
    """Simulations of a run while it is recorded, one for each target.

    `targets` has the arguments of `pylb.whatif` for each target.  ``say(line)`` is called for each
    target every `period` seconds, or less often if the simulations, which all begin at the start of
    the run, take more than a tenth of this time.
    """

    def __init__(
        self,
        monitor: RecordMonitor,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
        period: float = 1.0,
    ) -> None:
        self._monitor = monitor
        self._given = targets
        self._say = say
        self._period = period
        self._last = time.monotonic()
        self._failed = False
        self._aims: list[Target] = []

    def __call__(self) -> None:
        """Simulate the operations that have arrived, if a period has passed."""
        now = time.monotonic()
        if self._failed or now - self._last < self._period:
            return
        try:
            if self._begin_if_complete():
                for aim, given in zip(self._aims, self._given, strict=True):
                    self._simulate(aim, given)
                self._last = time.monotonic()
                self._period = max(self._period, 10.0 * (self._last - now))
        except PylbError as error:  # the program and its recording continue
            self._failed = True
            self._say(f"no more predictions while the program runs: {error}")

    def _begin_if_complete(self) -> bool:
        monitor = self._monitor
        if not self._aims and 0 < monitor.size == len(monitor.ranks):
            recording = monitor.recording([])
            self._aims = [target(recording, **given) for given in self._given]
        return bool(self._aims)

    def _simulate(self, aim: Target, given: Mapping[str, Any]) -> None:
        ranks = self._monitor.ranks
        ops = [ranks[number].ops() for number in range(len(ranks))]
        times = aim.simulate(ops, self._monitor.members)
        here = 0.0
        for number, one in enumerate(ops):
            done = int(times[number, 4])
            if done:
                last = one[done - 1]
                here = max(here, 1e-9 * int(last["begin"]) + float(last["inside"]))
        there = float(times[:, 0].max())
        if here > 0:
            words = ", ".join(
                f"{name} {','.join(f'{x:g}' for x in np.atleast_1d(value))}"
                for name, value in given.items()
            )
            self._say(
                f"{here:.1f} s so far would take {there:.1f} s ({there / here:.0%}) with {words}"
            )


# ---- the launch ---------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """The result of `record`: the command's exit code, and the recording."""

    code: int
    recording: Recording


def preloading(
    command: Sequence[str], name: str, words: Sequence[str] = (), more: Sequence[str] = ()
) -> list[str]:
    """Return `command`, changed so that each of its ranks loads a library of pylb first.

    `name` is "_record" (the recorder) or "_pmpi" (the clock "mpi").  `words` (``NAME=value``) go
    into the environment of the ranks.  `more` has paths of libraries to load after this one.
    """
    if not command:
        raise DomainError("command is empty: expected a program and its arguments")
    spec = importlib.util.find_spec(f"pylb.{name}")
    if spec is None or spec.origin is None:
        raise optional.missing_part("MPI")
    libraries = [spec.origin, *more, os.environ.get("LD_PRELOAD", "")]
    first = ["env", f"LD_PRELOAD={' '.join(filter(None, libraries))}", *words]
    if is_mpiexec(command[0]):
        return insert_before_programs(command, first)
    return [*first, *command]


def loaded(
    command: Sequence[str],
    address: str,
    *,
    only_time: bool = False,
    procedures: Sequence[str] = (),
) -> list[str]:
    """Return `command`, changed so that each of its ranks loads the recorder."""
    before = os.environ.get("LD_PRELOAD", "")
    words = [
        f"PYLB_RECORDER={address}",
        *([f"PYLB_RECORD_PRELOAD={before}"] if before else []),
        *(["PYLB_RECORD_ONLY=time"] if only_time else []),
        *([f"PYLB_PROCEDURES={','.join(procedures)}"] if procedures else []),
    ]
    return preloading(command, "_record", words)


@contextlib.contextmanager
def signals_end(child: subprocess.Popen[bytes] | None = None) -> Iterator[list[int]]:
    """Let the first SIGINT or SIGTERM end only the child, if there is one, but not the recording.

    Yields a list to which arriving signals are added.  The first signal raises no exception,
    because this could interrupt the reading of a frame, or be lost within NumPy.  A second signal
    raises KeyboardInterrupt.
    """
    came: list[int] = []

    def handle(number: int, frame: Any) -> None:
        came.append(number)
        if child is not None:
            child.send_signal(signal.SIGINT)
        if len(came) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _never_called(procedures: Sequence[str], recording: Recording) -> list[str]:
    return [
        f"procedure {name!r} was never called, or its program was not compiled with "
        "-finstrument-functions -rdynamic"
        for name in procedures
        if name not in recording.procedures
    ]


def record(
    command: Sequence[str],
    *,
    only_time: bool = False,
    procedures: Sequence[str] = (),
    host: str = "127.0.0.1",
    online: Sequence[Mapping[str, Any]] = (),
    say: Callable[[str], None] = print,
) -> Recorded:
    """Run an MPI program and record its operations.

    Parameters
    ----------
    command : sequence of str
        ``mpiexec ...``, or a program that runs as one rank.  The program is not changed; a library
        is loaded with it (``LD_PRELOAD``).
    only_time : bool
        Record only the wall time, from the end of MPI_Init to the beginning of MPI_Finalize.
    procedures : sequence of str
        Functions to mark, in a program compiled with ``-finstrument-functions``.
    host : str
        Address by which the ranks reach this process.  The default works if all ranks are on this
        machine.
    online : sequence of mappings
        Targets, each as arguments of `pylb.whatif`.  While the program runs, it is also simulated
        on each of them.
    say : callable
        With `online`, ``say(line)`` is called every second with a line for each target.

    Returns
    -------
    Recorded
        ``recording.warnings`` lists what the recording lacks.

    Examples
    --------
    >>> from pylb.prediction.recorder.launch import record
    >>> record(["mpiexec", "-n", "4", "python", "prog.py"]).recording.save("run")  # doctest: +SKIP
    """
    monitor = RecordMonitor(host)
    try:
        words = loaded(command, monitor.address, only_time=only_time, procedures=procedures)
        between = Online(monitor, online, say) if online else lambda: None
        env = {**os.environ, TOKEN: monitor.token}
        with subprocess.Popen(words, env=env) as child, signals_end(child):
            monitor.serve_until(lambda: child.poll() is not None, between=between)
            recording = monitor.recording(list(command))
            if recording.n_ops:
                recording.warnings += _never_called(procedures, recording)
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        return Recorded(code, recording)
    finally:
        monitor.close()

"""Run a command in the lab, and end it whatever happens."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pylb.errors import DomainError
from pylb.lab import shares as _shares
from pylb.lab.cgroup import Groups, parents
from pylb.lab.command import insert_before_programs, is_mpiexec
from pylb.lab.shares import Usage

JOIN = Path(__file__).with_name("join.py")
METRONOME = Path(__file__).with_name("metronome.py")
BEAT_US = 500  # between two looks at the quotas; it takes 3 to 5 % of each core
STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 5.0  # seconds between asking the command to end and killing it
TYPED = 2.0  # seconds in which a command may have got Ctrl-C from the terminal itself


class Lab:
    """Control groups that hold each rank of a command to a share of a core.

    Parameters
    ----------
    shares : iterable of float
        Cores for each rank, cyclic: one value serves all.
    period_us : int, optional
        Microseconds in which a share is given out; default 5 ms, more for shares below 0.2.

    Attributes
    ----------
    seconds : float
        Wall time of the last command.

    Raises
    ------
    DomainError
        A share or the period is out of range.
    NotAllowedError
        No control group may be made here; the message says where, and what would help.

    Examples
    --------
    >>> with Lab([0.25, 0.5]) as lab:
    ...     code = lab.run(["mpiexec", "-n", "4", "python", "prog.py"])
    ...     usage = lab.usage()
    """

    def __init__(self, shares: Iterable[float], *, period_us: int | None = None) -> None:
        self.limits = _shares.limits(shares, os.cpu_count() or 1, period_us)
        self.seconds = 0.0
        self._groups = Groups(
            parents(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
        )

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill what is left and remove the groups; twice is fine."""
        self._groups.remove()

    def held(self, command: Sequence[str]) -> list[str]:
        """`command` as it is started: each program behind the step into its rank's group."""
        if not command:
            raise DomainError("command is empty: expected a program and its arguments")
        if not is_mpiexec(command[0]):
            if len(self.limits) > 1:
                raise DomainError(
                    f"{len(self.limits)} shares for {command[0]!r}: expected one, or a command "
                    "that begins with mpiexec or mpirun"
                )
            return [*self._join("rank"), *command]
        return [*self._join("rest"), *insert_before_programs(command, self._join("rank"))]

    def _join(self, name: str) -> list[str]:
        bases = ":".join(map(str, self._groups.bases))
        limits = ",".join(f"{limit.quota_us}/{limit.period_us}" for limit in self.limits)
        return [sys.executable, "-I", "-S", str(JOIN), bases, name, limits]

    def run(self, command: Sequence[str]) -> int:
        """Run a command and return its exit code, 128 + n where signal n ended it.

        SIGINT, SIGTERM and SIGHUP end the command (a second one at once) and whatever it
        started; nothing of it is left when this returns.  Only in the main thread.
        """
        words = self.held(command)
        # mpiexec tells its ranks who they are; a program without it is rank 0.
        env = os.environ if is_mpiexec(command[0]) else {**os.environ, "PYLB_LAB_RANK": "0"}
        start = time.perf_counter()
        try:
            with (
                _metronomes(),
                _signals() as wake,
                subprocess.Popen(words, env=env) as child,
            ):
                stopped = _wait(child, wake)
                # Popen's own exit would wait without an end for a child that cannot be killed.
                self._groups.kill()
        finally:
            self.seconds = time.perf_counter() - start
        if stopped:
            return 128 + stopped
        return child.returncode if child.returncode >= 0 else 128 - child.returncode

    def usage(self) -> list[Usage]:
        """What each rank was allowed and what it took, by rank."""
        return self._groups.usage(self.limits)


@contextmanager
def _metronomes() -> Iterator[None]:
    """On each core a process that makes the kernel look at the quotas; where that is allowed."""
    beats = [
        subprocess.Popen([sys.executable, "-I", "-S", str(METRONOME), str(core), str(BEAT_US)])
        for core in sorted(os.sched_getaffinity(0))
    ]
    try:
        yield
    finally:
        for beat in beats:
            beat.kill()
            beat.wait()


@contextmanager
def _signals() -> Iterator[int]:
    """A file descriptor from which the signals of `STOP` are read, instead of their action."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    old_fd = signal.set_wakeup_fd(write)
    old = {number: signal.signal(number, lambda *_: None) for number in STOP}
    try:
        yield read
    finally:
        for number, action in old.items():
            signal.signal(number, action)
        signal.set_wakeup_fd(old_fd)
        os.close(read)
        os.close(write)


def _wait(child: subprocess.Popen[bytes], wake: int) -> int:
    """Wait for the child; the signal that stopped it early, or 0."""
    stopped = 0
    plan: list[tuple[float, int]] = []  # signals to send, and when
    ended = os.pidfd_open(child.pid)
    try:
        while True:
            pause = max(0.0, plan[0][0] - time.monotonic()) if plan else None
            ready = select.select([ended, wake], [], [], pause)[0]
            if ended in ready:
                child.wait()
                return stopped
            now = time.monotonic()
            if wake in ready:
                number = os.read(wake, 1)[0]
                if number in STOP:
                    plan = _plan(number, now) if not stopped else [(now, signal.SIGKILL)]
                    stopped = stopped or number
            elif plan:
                child.send_signal(plan.pop(0)[1])
    finally:
        os.close(ended)


def _plan(number: int, now: float) -> list[tuple[float, int]]:
    # A Ctrl-C that was typed has reached the command too, and Open MPI aborts the harder way when
    # it comes twice; one that was sent to this process alone is passed on after a while.
    first = now + (TYPED if number == signal.SIGINT else 0.0)
    return [(first, number), (first + GRACE, signal.SIGKILL)]

"""Tell the other ranks that this rank's program ends, and why.

After an uncaught exception, or at the end of the interpreter, the rank joins the collective step in
which the other ranks wait.  After an exception, the other ranks may never come to a step, e.g.
because they wait in a receive of the program.  This rank then aborts the program.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from typing import Any

from pylb import _core
from pylb.comm.agreement import NOBODY, Agreement, Contribution, Stats, Step
from pylb.comm.transport import Sends
from pylb.errors import DomainError, MPIError, PylbError

_mpi: Any = None  # the MPI of mpi4py; without mpi4py, what is used of it here
_agreements: list[ExitingAgreement] = []
_process = 0
_patience = 10.0  # seconds, the result of `abort_after` when `watch` was called
_guarded = False
MOST_NAMED = 20  # largest number of lost objects that an error names
FINALIZE = 5.0  # seconds that MPI_Finalize itself may take on a busy machine


def abort_after() -> float:
    """Return ``PYLB_ABORT_AFTER`` in seconds, see `leave`; raise DomainError if it is invalid."""
    text = os.environ.get("PYLB_ABORT_AFTER") or "10"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1e9:
        raise DomainError(f"PYLB_ABORT_AFTER is {text!r}: expected seconds, 0 ... 1e9")
    return value


class ExitingAgreement(Agreement):
    """An `Agreement` that tells the other ranks when this rank's program ends."""

    transport: Any  # an `MPITransport`

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        if transport.size > 1:
            _agreements.append(self)

    def free(self) -> None:
        if self.held or self.ended or self.transport.pending or self.running is not None:
            return
        self.ended = "it was freed"
        if self in _agreements:
            _agreements.remove(self)
        self.transport.free()

    def without_memory(
        self, sample: Contribution, error: Exception | None, why: MemoryError
    ) -> tuple[Any, Sends, Exception | None]:
        if self.transport.pending:  # the step has begun, and the other ranks wait: try once more
            answer = self.transport.wait(-1.0)
            assert answer is not None
            return *answer, error
        error = error or why
        failed = Contribution(*sample[:3], failed=True)
        return *self.transport.step(failed, self.messages_about(error)), error

    def tell(self, error: Exception) -> None:
        """Report an error of this rank, unless the others know it, in the next collective step.

        Waits for the other ranks at most `abort_after` seconds, because they may be waiting for a
        message from the program.
        """
        t = self.transport
        if self.ended or t.size == 1 or t.pending or self.knows(error):
            return
        if self.running is not None:
            self.running.give_up(True)
        t.begin(Contribution(Step.SYNC, 0, 0, True), self.messages_about(error, f" ({self.at})"))
        limit = time.monotonic() + _patience
        while t.wait(1e-3) is None and time.monotonic() < limit:
            if self.running is not None:
                self.running.serve(1e-3)

    def explained(self, error: MPIError) -> MPIError:
        dead = self.transport.died()
        lost = "; ".join(f"rank {rank} has died{self._loss(rank)}" for rank in dead)
        return MPIError(f"{lost} (noticed {self.at}: {error})") if dead else error

    def _loss(self, rank: int) -> str:
        """Return the known objects of a dead rank, in words."""
        objects_on = self.objects_on() if self.objects_on is not None else None
        keys = objects_on(rank).tolist() if objects_on is not None else []
        more = ", ..." if len(keys) > MOST_NAMED else ""
        shown = ", ".join(map(str, keys[:MOST_NAMED])) + more
        return f"; of its objects, this rank knows {len(keys)}: {shown}" if keys else ""

    def stop(self, error: BaseException | None) -> None:
        """Begin to end this rank: leave a loop with a lag, or join the step of the other ranks.

        After an error, do both, because the other ranks may be in a collective step of an LB step.
        """
        if self.running is not None:
            self.running.give_up(error is not None)
        for sharer in self.sharers:
            sharer.look(True)
        if not self.transport.pending and (self.running is None or error is not None):
            self.begin_exit(error)

    def begin_exit(self, error: BaseException | None) -> None:
        """Join the present or next step of the other ranks, and tell them that this rank ends."""
        self.last_step = (Step.EXIT, 0, "")
        sample = Contribution(Step.EXIT, 0, 0, error is not None)
        self.transport.begin(sample, self.messages_about(error) if error is not None else [])

    def wait_for_exit(self, error: BaseException | None, seconds: float) -> str | None:
        """Wait at most `seconds` for the other ranks to come to the step in which this rank ends.

        Returns a message to print (it may be empty), or None if they have not come yet.
        """
        if self.running is not None and self.running.serve(seconds):
            self.running = None
        if not self.transport.pending:  # the last step cannot begin before a loop with a lag ends
            if self.running is None:
                self.begin_exit(error)
            return None
        leaving = self.last_step[0] == Step.EXIT
        answer = self.transport.wait(seconds)
        if answer is None:
            return None
        stats = Stats._make(answer[0])
        if not leaving and not stats.mixed and stats.failed_rank == NOBODY:
            self.begin_exit(error)  # the step had begun before a signal interrupted this rank
            return None
        message = ""
        if stats.failed_rank != self.transport.rank and (
            stats.failed_rank != NOBODY or stats.mixed
        ):
            try:
                self.raise_for(stats, answer[1])
            except PylbError as why:
                message = str(why)
        self.ended = "this program has ended"
        for sharer in self.sharers:
            sharer.look(True)  # complete the reduction that `stop` has begun
        return message if error is None else ""


def watch(mpi: Any) -> None:
    """Call `leave` when this program ends.  mpi: the MPI of mpi4py, or what is used of it here.

    Call it before pylb makes a communicator: an error in that call would leave ranks waiting, too.
    """
    global _mpi, _process, _patience
    if _process:
        return
    _mpi, _process = mpi, os.getpid()
    original = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        original(kind, error, trace)
        leave(error)

    sys.excepthook = hook
    atexit.register(leave, None)
    _patience = abort_after()  # last, so that the other ranks learn of this error, too


def watch_job() -> None:
    """Call `watch` if this process is one of several ranks, before anything can fail."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return
    if module.COMM_WORLD.size > 1:
        watch(module)


def leave(error: BaseException | None) -> None:
    """Join the steps of the other ranks for the last time, on all communicators.

    After an error, wait at most `abort_after` seconds for the other ranks; then abort all ranks.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    if os.getpid() != _process or _mpi.Is_finalized():
        return
    waiting = [a for a in _agreements if not a.ended]
    try:
        for agreement in waiting:
            agreement.stop(error)
    except Exception as why:  # an MPI call has failed, so no more steps are possible
        _abort(f"{type(error or why).__name__}: {error or why}")
    # After an error of MPI itself, wait less: other ranks may be in an MPI call that never ends.
    patience = min(_patience, 2.0) if isinstance(error, MPIError) else _patience
    limit = time.monotonic() + patience
    shown = ""  # this message is printed once, not for each communicator
    while waiting:
        for agreement in list(waiting):
            try:
                message = agreement.wait_for_exit(error, 1e-3)
            except Exception as why:  # no more steps are possible
                _abort(f"{type(error or why).__name__}: {error or why}")
            if message is not None:
                waiting.remove(agreement)
                shown = shown or message
        if error is not None and waiting and time.monotonic() > limit:
            _abort(
                f"{type(error).__name__}: {error}; the other ranks did not come within "
                f"{patience:g} s (PYLB_ABORT_AFTER)"
            )
    if shown:
        print(f"pylb: rank {_mpi.COMM_WORLD.rank}: {shown}", file=sys.stderr)
    _guard(error)


def _guard(error: BaseException | None) -> None:
    """Print a message if MPI_Finalize takes too long; after an error, also abort all ranks.

    MPI_Finalize waits for all ranks, and another rank may wait for a message of this rank.
    """
    global _guarded
    world = _mpi.COMM_WORLD
    if world.size == 1 or _guarded:
        return
    # After an error, this function is called a second time at the end of the interpreter.
    _guarded = error is not None
    patience = _patience + FINALIZE
    why = then = ""
    if error is not None:
        why = f" by {type(error).__name__}: {str(error)[:200]}"
        then = " (PYLB_ABORT_AFTER); aborting all ranks"
    waits = f"for {patience:g} s it has waited in MPI_Finalize for the other ranks"
    text = f"pylb: rank {world.rank} has ended its program{why}; {waits}{then}"
    _core.last_words(patience, text, error is not None)


def _abort(text: str) -> None:
    rank = _mpi.COMM_WORLD.rank
    print(f"pylb: rank {rank}: {text}; aborting all ranks", file=sys.stderr, flush=True)
    time.sleep(0.2)  # time for MPICH's mpiexec to pass on the message
    _mpi.COMM_WORLD.Abort(1)

"""The end of a step if the advisor has a lag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pylb import _core
from pylb.comm.agreement import Agreement, Contribution, OpenLoop, Stats, Step
from pylb.comm.program_end import ABORT_AFTER
from pylb.errors import RemoteError, StateError


class LaggedSteps(OpenLoop):
    """A rank waits only for the statistics of the step `lag` steps ago.

    Nonblocking reductions compute them while the program continues.
    """

    def __init__(self, agreement: Agreement, lag: int) -> None:
        running = agreement.running
        if running is not None and not running.left:
            raise StateError("a loop of another Balancer or Advisor on this communicator is open")
        if running is not None:
            running.finish()
        self._core = _core.Steps(agreement.transport.reduction(lag + 2), lag)
        self._ready: list[Stats] = []  # statistics that `serve` has taken; `drain` yields them
        # Contributions of this rank to the steps whose statistics are not known yet.
        self._under_way: deque[tuple[Contribution, str]] = deque()
        self._next = 0  # number of the next step
        self._failed = False
        super().__init__(agreement)

    def end(self, mine: Contribution, words: str, error: Exception | None) -> Stats | None:
        """End a step; return the statistics of the step `lag` steps ago, or None if none exists.

        Parameters
        ----------
        mine : Contribution
            The measurements of this rank.
        words : str
            The arguments of `Advisor.advise`, in words.
        error : Exception or None
            An error of this rank.

        Raises
        ------
        Exception
            `error`, or the error of another rank.
        StateError, DomainError, RemoteError
            The ranks are in different steps or have different arguments, or one has ended.
        """
        self._agreement.last_step = (mine.kind, mine.iteration, words)
        self._next = mine.iteration + 1
        self._core.begin(mine)
        self._under_way.append((mine, words))
        if error is not None:
            self._fail(mine, words, error)
        record = self._core.take(-1.0)
        if record is None:
            return None
        mine, words = self._under_way.popleft()
        if self._core.broken:
            self._fail(mine, words, None)
        return Stats._make(record)

    def drain(self, step: int) -> Iterator[Stats]:
        """Complete the pending steps, and yield their statistics.  Collective."""
        if self._failed:
            return
        self._next = step
        self.give_up(False)
        self.serve(-1.0)
        broken = self._core.broken
        self.close()
        if broken:
            self._raise(Contribution(Step.ADVISED, step, 0), "", None)
        yield from self._ready

    def _fail(self, mine: Contribution, words: str, error: Exception | None) -> None:
        """Leave after an error of this or another rank, and raise it.

        A rank with an error of its own waits for at most `ABORT_AFTER` seconds, because the other
        ranks may be waiting for its messages.
        """
        if not self._core.leave(None, -1.0 if error is None else ABORT_AFTER):
            assert error is not None
            self.left = True
            raise error
        self.close()
        self._failed = True
        self._raise(mine, words, error)

    def _raise(self, mine: Contribution, words: str, error: Exception | None) -> None:
        """Take a step with all ranks, which raises the error of the rank that failed."""
        sample = mine._replace(failed=error is not None)
        self._agreement.take(sample, [], error, words)
        raise RemoteError("another rank has left the loop")

    # ---- when a rank leaves ------------------------------------------------------------------

    def give_up(self, failed: bool) -> None:
        if not self.left and not self._core.broken:
            self._core.end(Contribution(Step.ADVISED, self._next, 0, failed))
        self.left = True

    def serve(self, seconds: float) -> bool:
        while self._core.under_way and not self._core.broken:
            record = self._core.next(seconds)
            if record is None:
                return False
            stats = Stats._make(record)
            if not self._core.broken and stats.n_ended == 0:
                self._ready.append(stats)
        return self._core.leave(None, seconds)

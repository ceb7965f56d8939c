"""The end of an advisor's step: all ranks together, or with a lag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pylb import _core
from pylb.comm.agreement import Agreement, Contribution, Stats, Step
from pylb.comm.program_end import ABORT_AFTER
from pylb.errors import RemoteError, StateError


class JointSteps:
    """With ``lag=0``: the ranks wait for one another at the end of each step."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement

    def end(self, mine: Contribution, words: str, error: Exception | None) -> Stats | None:
        """End a step; return its statistics over all ranks.

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
        return self._agreement.take(mine, [], error, words)[0]

    def drain(self, step: int) -> Iterator[Stats]:
        """Yield nothing: no step is ever pending."""
        return iter(())

    def give_up(self, failed: bool) -> None:
        """Leave the loop; the other ranks do not wait for this one."""


class LaggedSteps:
    """With a lag: a rank waits only for the statistics of the step `lag` steps ago.

    Nonblocking reductions compute them while the program continues.

    Attributes
    ----------
    left : bool
        Whether this rank has left the loop; the others may still be in it.
    """

    def __init__(self, agreement: Agreement, lag: int) -> None:
        running = agreement.running
        if running is not None and not running.left:
            raise StateError("a loop of another Balancer or Advisor on this communicator is open")
        if running is not None:
            running.finish()
        self._agreement = agreement
        self._core = _core.Steps(agreement.transport.reduction(lag + 2), lag)
        self._ready: list[Stats] = []  # statistics that `serve` has taken; `drain` yields them
        # Contributions of this rank to the steps whose statistics are not known yet.
        self._under_way: deque[tuple[Contribution, str]] = deque()
        self._next = 0  # number of the next step
        self.left = self._failed = False
        agreement.running = self

    def end(self, mine: Contribution, words: str, error: Exception | None) -> Stats | None:
        """End a step like `JointSteps.end`; return the statistics of the step `lag` steps ago.

        None: there is no such step yet.
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

        A rank with an error of its own waits for a limited time only, because the other ranks may
        wait for its messages.
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

    # ---- when a rank leaves: see `pylb.comm.agreement.OpenLoop` ------------------------------

    def give_up(self, failed: bool) -> None:
        """Leave the loop; afterwards `serve` helps the other ranks.

        failed: this rank has failed, so the other ranks must leave the loop, too.
        """
        if not self.left and not self._core.broken:
            self._core.end(Contribution(Step.ADVISED, self._next, 0, failed))
        self.left = True

    def serve(self, seconds: float) -> bool:
        """Take part in the reductions of the other ranks; return whether none is pending.

        seconds: how long to wait at most; negative: until none is pending.
        """
        while self._core.under_way and not self._core.broken:
            record = self._core.next(seconds)
            if record is None:
                return False
            stats = Stats._make(record)
            if not self._core.broken and stats.n_ended == 0:
                self._ready.append(stats)
        return self._core.leave(None, seconds)

    def finish(self) -> None:
        """Take part in the reductions of the other ranks until none is pending."""
        self.serve(-1.0)
        self.close()

    def close(self) -> None:
        """Mark these steps as ended, so that another loop may begin on the communicator."""
        if self._agreement.running is self:
            self._agreement.running = None

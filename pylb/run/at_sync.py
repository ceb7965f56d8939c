"""Loops with a lag, on one rank: statistics are reduced while the program continues.

AtSync ("at the synchronisation point") is Charm++'s name for the call by which an object reports
that it has finished an iteration and may be moved now.
"""

from __future__ import annotations

import math
from enum import Enum

from pylb import _core
from pylb.comm.agreement import OpenLoop, Step
from pylb.decide.trigger import make
from pylb.run.object_store import Store
from pylb.run.run_state import RunState

NEVER = 10**9  # period of a trigger that never asks for an LB step


class AtSync(Enum):
    """The answer of `Balancer.at_sync`.

    Attributes
    ----------
    GO
        The object may begin its next iteration.
    PAUSE
        Not yet: ask again later, and handle your own messages meanwhile.
    BALANCE
        All objects of all ranks have stopped at the same iteration: call `Balancer.balance`.
    END
        Of an object: it has finished its last iteration.  Of a rank: the loop ended on all ranks.

    Examples
    --------
    >>> lb = pylb.Balancer(comm, lag=2)
    >>> lb.add(7, "an object")
    >>> lb.begin(3)  # three iterations
    >>> lb.at_sync(7)  # object 7 has finished its first iteration
    <AtSync.GO: 'go'>
    """

    GO = "go"
    PAUSE = "pause"
    BALANCE = "balance"
    END = "end"


ANSWERS = (AtSync.GO, AtSync.PAUSE, AtSync.BALANCE, AtSync.END, None)  # None: a rank has failed


class AtSyncProtocol(OpenLoop):
    """One loop with a lag on this rank; `core` does the work, see ``csrc/decide/consensus.h``.

    n: number of iterations; balances: whether to rebalance; each: whether each object reports the
    ends of its iterations (False: the rank reports the end of an iteration of all its objects).
    """

    def __init__(self, state: RunState, n: int, *, balances: bool, each: bool) -> None:
        lag, decider = state.options.lag, state.decider
        bounded = math.isfinite(lag)
        depth = (int(lag) if bounded else _core.ATSYNC_WINDOW) + 2
        self.each, self.started, self._facts = each, _core.clock(), state.options.facts
        self.core = _core.AtSync(
            state.agreement.transport.reduction(depth),
            decider.settings.trigger if balances else make(every=NEVER),
            decider.core if balances else None,
            ANSWERS,
            Step.SYNC,
            state.done,
            n,
            int(lag) if bounded else 0,
            balances,
        )

    def open(self, state: RunState) -> None:
        """Begin to take part in the reductions."""
        super().__init__(state.agreement)
        self.bind(state.objects.store)

    def bind(self, store: Store) -> None:
        """Tell the C core which objects this rank has now."""
        keys = tuple(store.keys.tolist()) if self.each else None
        arrays = store.seconds, store.window, store.estimates
        self.core.bind(keys, store.recorder, *arrays, self._facts.background)

    def give_up(self, failed: bool) -> None:
        if not self.left:
            self._agreement.at = f"in iteration {self.core.contributed}"
        self.left = True
        self.core.give_up(failed)

    def serve(self, seconds: float) -> bool:
        return self.core.serve(seconds)

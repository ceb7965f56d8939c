"""What LB steps have saved: the time of the same loads without them, minus the time as it was.

In an iteration without LB steps, each object would have run on the rank where it was created.  Each
rank sums its loads by these ranks; rank 0 gets the sums after some iterations, and computes how
long the iterations last with both placements, on ranks that may share cores
(csrc/model/sharing.h).  A replay of the recorded run as "unbalanced" gives the same number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pylb.comm.agreement import Agreement, Step
from pylb.comm.cores import Cores
from pylb.comm.parcel import gather_objects
from pylb.model.sharing import BEFORE, as_before, fractions, spans
from pylb.model.snapshot import F64, I32
from pylb.run.core_waits import CoreWaits
from pylb.run.iteration_log import IterationLog

EVERY = 256  # rank 0 gets the sums at the latest after so many iterations, unless there is a lag
# With a lag, rank 0 gets the sums in LB steps; a rank keeps those of fewer iterations.
MOST = 1 << 14


class Saved:
    """The seconds that LB steps have saved, without their cost.

    Attributes
    ----------
    total : float
        Seconds up to the most recent `update`, the same on all ranks; nan: not known.
    log : IterationLog
        On rank 0: seconds of each iteration from the first LB step on, (m, 1).
    waits : bool
        Whether the loads include the time for which a rank waited for a core.
    keyed : bool
        Whether it is known where an object was created.  If not, each rank is assumed to keep its
        share of the loads from before the first LB step.
    cores : Cores
        The ranks that share cores; none if the loads are not measured times.
    others : float
        Number of cores that other programs used, if ranks had to wait for these; else 0.
    """

    def __init__(self, agreement: Agreement, core_waits: CoreWaits) -> None:
        self._agreement, self._me = agreement, agreement.transport.rank
        self._core_waits = core_waits
        self.total, self.others, self.log = 0.0, 0.0, IterationLog(1)
        self.waits, self.keyed, self.cores = False, True, Cores()
        self._begun = False  # whether an LB step has taken place: before it, nothing can be saved
        self._recent: list[float] = []  # loads of this rank in the last iterations before that
        # (k, n) sums of loads for each n ranks where objects were created: (ranks, rows)
        self._parts: list[tuple[I32, list[F64]]] = []
        self._kept = 0  # number of rows of all parts
        self._homes: Any = None  # the array that `_slot` was made from
        self._slot: Any = None  # for each object, the index in the ranks of the last part
        self._until = 0  # number of iterations that `total` includes
        self._first = 0  # the first iteration of `log`

    def begin(self, done: int) -> None:
        """An LB step takes place after `done` iterations; call it on all ranks."""
        if not self._begun:
            self._begun, self._until, self._first = True, done, done

    def cancel(self) -> None:
        """Forget that LB steps have begun: the program did not carry out the first one."""
        self._begun, self._parts, self._kept = False, [], 0

    def keep(self, loads: F64, homes: Any, background: float) -> None:
        """Keep the loads of an iteration.  homes: where the objects were created; None: here."""
        if not self._begun:
            self._recent = [*self._recent[1 - BEFORE :], background + float(loads.sum())]
            return
        if not self._parts or homes is not self._homes:
            self._open(homes)
        ranks, rows = self._parts[-1]
        if self._kept >= MOST:  # what LB steps have saved is then not known
            self._parts[:-1] = []
            rows.clear()
            self._kept = 0
        if len(ranks) > 1:
            row: F64 = np.bincount(self._slot, loads, len(ranks))  # type: ignore[assignment]
        else:
            row = np.array([loads.sum()])
        row[-1] += background
        rows.append(row)
        self._kept += 1

    def _open(self, homes: Any) -> None:
        """Begin a part: the last one of its ranks is this rank."""
        self._homes, ranks = homes, np.array([self._me], np.int32)
        guests = None if homes is None else homes != self._me
        if guests is not None and guests.any():
            others, slot = np.unique(homes[guests], return_inverse=True)
            ranks = np.append(others, ranks).astype(np.int32)
            self._slot = np.full(len(guests), len(others))
            self._slot[guests] = slot
        self._parts.append((ranks, []))

    def is_due(self, done: int) -> bool:
        """Whether `update` is due after `done` iterations; the same on all ranks."""
        return self._begun and done % EVERY == 0

    def update(self, done: int, speed: float | None, learned: Sequence[float]) -> None:
        """Compute what was saved up to now.  Collective, if an LB step has taken place.

        speed: the speed that the user has given for this rank, if any.  learned: speeds that pylb
        has learned for all ranks; empty: none.
        """
        if not self._begun or done == self._until:
            return
        parts = [(ranks, np.array(rows)) for ranks, rows in self._parts]
        self._parts, self._kept = [], 0
        mine = parts, self._recent, speed
        used = self._core_waits.used()
        whole = gather_objects(self._agreement, Step.WORTH, done - 1, (mine, used))
        new = np.zeros(2)
        if whole:
            new[0] = self._evaluate([part for part, _ in whole.values()], learned, done)
            new[1] = self._core_waits.cores.others([used for _, used in whole.values()])
        self._agreement.transport.bcast(new, 0)
        self.total, self.others = self.total + float(new[0]), float(new[1])
        self._until = done

    def by_iteration(self, done: int) -> F64 | None:
        """On rank 0, return `log` with an entry for each of `done` iterations; None: not known."""
        if math.isnan(self.total):
            return None
        known = np.repeat(self.log.table()[:, 0], self.log.span)[: max(done - self._first, 0)]
        out = np.zeros(done)
        out[self._first : self._first + len(known)] = known
        return out

    def _evaluate(self, whole: list[Any], learned: Sequence[float], done: int) -> float:
        k, p = done - self._until, len(whole)
        if any(sum(map(len, (rows for _, rows in parts))) != k for parts, *_ in whole):
            return math.nan  # e.g. objects that ran at their own pace
        speed = np.array(learned or [own or 1.0 for *_, own in whole])
        sharing = (self.cores.group, self.cores.cores) if self.cores.shared else None
        now = np.array([np.concatenate([rows.sum(axis=1) for _, rows in x[0]]) for x in whole]).T
        worked = fractions(now, sharing if self.waits else None)
        was = np.zeros((k, p))  # sums of the loads by the ranks where objects were created
        for r, (parts, *_) in enumerate(whole):
            at = 0
            for ranks, rows in parts:
                here = slice(at, at := at + len(rows))
                was[here, ranks] += rows * worked[here, r, None] * (speed[r] / speed[ranks])
        if not self.keyed:
            n = min(len(recent) for _, recent, _ in whole)
            before = np.array([recent[len(recent) - n :] for _, recent, _ in whole]).T
            before *= fractions(before, sharing if self.waits else None)
            was = as_before(before, now * worked)
        gain = spans(was, sharing) - spans(now * worked, sharing)
        self.log.extend(gain[:, None].tolist())
        return float(gain.sum())

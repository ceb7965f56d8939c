"""Shadow mode: everything is decided, nothing moves, and what balancing would have saved is known.

As nothing moves, decisions may come late: the ranks keep the loads of their objects and hand them
to rank 0 every so many iterations, which goes through them one by one, as the run would have been.
Between two such hand-overs an iteration costs a rank the copy of its objects' loads.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import SerializationError
from pylb.machine import Network
from pylb.receipts import History, Receipt
from pylb.runtime import parcel
from pylb.runtime.agreement import Agreement, Kind
from pylb.runtime.deciding import Decider
from pylb.runtime.messages import Mailbox
from pylb.runtime.migration import Outcome
from pylb.runtime.objects import ESTIMATE_ROWS, Store
from pylb.runtime.placing import placed
from pylb.runtime.recording import Recording
from pylb.runtime.report import Log, Row
from pylb.runtime.transport import Stats
from pylb.snapshot import F64, I32, I64, Edges, Snapshot
from pylb.trace.record import Stretch


class Shadow:
    """The part of all ranks.

    Attributes
    ----------
    rows : Log
        Each iteration as it would have been; `share` brings it to all ranks.
    """

    def __init__(
        self, agreement: Agreement, store: Store, mailbox: Mailbox, decider: Decider
    ) -> None:
        self.recording = Recording(agreement, store, mailbox)
        self.rows = Log()
        self._agreement = agreement
        self._store = store
        self._mailbox = mailbox
        self._decider = decider
        self._mirror: Mirror | None = None
        self._packing = [0.0, 0]  # seconds, bytes

    def follow(self, rows: F64) -> None:
        """Go through the iterations since the last time.  Collective.

        rows: of all iterations, as they were.
        """
        self._size()
        stretches = self.recording.gather(len(rows), forget=True)
        error: Exception | None = None
        if self._agreement.transport.rank == 0:
            try:
                self._reflect(stretches, rows)
            except Exception as why:
                error = why
        self._agreement.step(Kind.RECORD, len(rows), error=error)

    def _reflect(self, stretches: list[Stretch], rows: F64) -> None:
        if self._mirror is None:
            n_ranks = self._agreement.transport.size
            self._mirror = Mirror(n_ranks, self._agreement.network(), self._decider)
        seconds, nbytes = self._packing
        self._mirror.packing = seconds / nbytes if nbytes else 0.0
        for stretch in stretches:
            self._mirror.run(stretch, rows[stretch.first : stretch.first + stretch.iterations])
        self._mirror.weigh()
        self._decider.settle()

    def _size(self) -> None:
        """What the migration of an object would send, where nobody has said."""
        for item in self._store.items.values():
            if item.nbytes == 0:
                start = _core.clock()
                try:
                    mail = self._mailbox.inbox.get(item.key, [])
                    item.nbytes = parcel.size_of(parcel.pack((item.value, mail)))
                except Exception as why:  # it could not migrate
                    raise SerializationError(
                        f"shadow mode: object {item.key} cannot be pickled: {why}"
                    ) from why
                self._packing[0] += _core.clock() - start
                self._packing[1] += item.nbytes

    def share(self) -> None:
        """All ranks know what rank 0 does.  Collective."""
        mine = b""
        if self._mirror is not None:
            receipts = [r.to_dict() for r in self._decider.history]
            mine = json.dumps([receipts, self._mirror.rows]).encode()
            self._mirror.rows = []
        receipts, rows = json.loads(self._agreement.transport.allgather(mine)[0])
        self.rows.extend(np.array(rows, np.float64).reshape(-1, len(Row._fields)))
        if self._mirror is None:
            self._decider.history = History(map(Receipt.from_dict, receipts))


class Place(NamedTuple):
    """The objects as they would be: in order of key."""

    key: I64
    rank: I32
    before: I32  # before the last balancing
    estimates: F64
    sums: F64  # loads since the last balancing


class Mirror:
    """The run as it would have been, on rank 0.

    Attributes
    ----------
    rows : list of Row
        Of each iteration that is not shared yet.
    packing : float
        Seconds a byte to pack an object, and again to unpack it.
    """

    def __init__(self, n_ranks: int, network: Network, decider: Decider) -> None:
        self.rows: list[Row] = []
        self.packing = 0.0
        self._done = 0  # iterations
        self._n_ranks = n_ranks
        self._network = network
        self._decider = decider
        none: Any = np.zeros(0, np.int32)
        self._place = Place(
            none.astype(np.int64), none, none, np.zeros((ESTIMATE_ROWS, 0)), np.zeros(0)
        )
        self._crossing = (0.0, 0.0)
        self._due = False

    def run(self, s: Stretch, rows: F64) -> None:
        """The iterations of a stretch; rows: as they were."""
        self._meet(s)
        for load, row in zip(s.load, rows.tolist(), strict=True):
            if self._due:
                self._balance(s)
            self._iteration(s, load, Row(*row))

    def _meet(self, s: Stretch) -> None:
        """Objects that are new begin where they are; those that were here keep their places."""
        p = self._place
        if not np.array_equal(s.key, p.key):
            at = np.minimum(np.searchsorted(p.key, s.key), max(len(p.key) - 1, 0))
            old = p.key[at] == s.key if len(p.key) else np.zeros(len(s.key), bool)
            rank, before, sums = s.rank.copy(), s.rank.copy(), np.zeros(len(s.key))
            estimates = np.zeros((ESTIMATE_ROWS, len(s.key)))
            rank[old], before[old], sums[old] = p.rank[at[old]], p.before[at[old]], p.sums[at[old]]
            estimates[:, old] = p.estimates[:, at[old]]
            fixed = ~s.migratable
            rank[fixed] = s.rank[fixed]
            self._place = Place(s.key, rank, before, estimates, sums)
        self._count_messages(s)

    def _count_messages(self, s: Stretch) -> None:
        rank = self._place.rank
        leaves = rank[s.src] != rank[s.dst]
        self._crossing = s.edge_messages[leaves].sum(), s.edge_bytes[leaves].sum()

    def _iteration(self, s: Stretch, load: F64, row: Row) -> None:
        p, decider = self._place, self._decider
        loads = np.bincount(p.rank, load, self._n_ranks)
        most = max(float(loads.max()), row.mean)
        least = float(loads.min())
        utilization = least / most if most > 0 else 1.0
        # all but the loads takes as long as it did
        time = max(row.time + most - row.max, 0.0)
        would_be = Row(time, most, row.mean, most - row.mean, utilization, least)
        self.rows.append(would_be)
        self._done += 1
        p.sums[:] += load
        _core.estimate(np.ascontiguousarray(load), p.estimates)
        asked = decider.observe(self._done - 1, self._stats(would_be, len(load)))
        if decider.judges(asked):
            decider.judge(self.weigh())
        self._due = decider.allows(asked)

    def _stats(self, row: Row, n_objects: int) -> Stats:
        messages, nbytes = self._crossing
        nothing = Stats._make([0] * len(Stats._fields))
        return nothing._replace(
            n_ranks=self._n_ranks,
            n_objects=n_objects,
            load_sum=row.mean * self._n_ranks,
            load_max=row.max,
            load_min=row.min,
            utilization_min=row.utilization,
            messages=round(messages),
            message_bytes=round(nbytes),
            time_max=row.time,
        )

    def weigh(self) -> float:
        """Seconds that the last balancing would have saved up to now, onto its receipt."""
        last = self._decider.last
        if last is None:
            return math.nan
        p = self._place
        then, now = (
            np.bincount(rank, p.sums, self._n_ranks).max(initial=0.0) for rank in (p.before, p.rank)
        )
        last.gain = float(then - now)
        last.iterations = self._done - 1 - last.iteration
        return last.gain

    # ---- a balancing ---------------------------------------------------------------------------

    def _balance(self, s: Stretch) -> None:
        self._due = False
        self.weigh()
        p = self._place
        receipt, chosen = self._decider.balance()
        snapshot = self._snapshot(s)
        made = placed(snapshot, chosen, receipt.seed, self._network)
        plan = made.plan
        moved = plan.rank != p.rank
        statistics, migration = self._gathering(s), self._moving(s, plan.rank)
        outcome = Outcome(
            before=plan.before.max_over_mean,
            predicted=plan.after.max_over_mean,
            before_with_messages=made.before,
            predicted_with_messages=made.after,
            passed_over=made.passed_over,
            idle_mean=plan.before.idle_mean,
            idle_max=plan.before.idle_max,
            predicted_idle_mean=plan.after.idle_mean,
            predicted_idle_max=plan.after.idle_max,
            migrations=int(moved.sum()),
            bytes=int(s.bytes[moved].sum()),
            seconds_statistics=statistics,
            seconds_strategy=made.seconds,
            seconds_migration=migration,
            cost=statistics + made.seconds + migration,
        )
        self._decider.balanced(receipt, chosen, outcome, moved=False)
        p.before[:], p.rank[:], p.sums[:] = p.rank.copy(), plan.rank, 0.0
        self._count_messages(s)

    def _snapshot(self, s: Stretch) -> Snapshot:
        return Snapshot(
            load=self._place.estimates[0],
            rank=self._place.rank,
            n_ranks=self._n_ranks,
            key=s.key,
            bytes=s.bytes,
            memory=np.maximum(s.memory, 0) if np.any(s.memory >= 0) else None,
            migratable=s.migratable,
            edges=Edges(s.src, s.dst, s.edge_bytes, s.edge_messages),
        )

    def _gathering(self, s: Stretch) -> float:
        """Seconds to bring the load database to rank 0 and the placement back."""
        there = 5 * 8 * len(s.key) + 4 * 8 * len(s.src)
        return self._network.seconds(2 * (self._n_ranks - 1), there + 4 * len(s.key))

    def _moving(self, s: Stretch, rank: I32) -> float:
        """Seconds that the rank with most to do packs, sends, receives and unpacks."""
        old, new = self._place.rank, rank
        moved = old != new
        seconds = np.zeros(self._n_ranks)
        for end in (old[moved], new[moved]):
            n = np.bincount(end, minlength=self._n_ranks)
            nbytes = np.bincount(end, s.bytes[moved], self._n_ranks)
            seconds += self._network.alpha * n + (self._network.beta + self.packing) * nbytes
        return float(seconds.max())

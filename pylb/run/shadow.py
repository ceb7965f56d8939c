"""Shadow mode: everything is decided, nothing moves, and what balancing would have saved is known.

As nothing moves, decisions may come late: the ranks keep the loads of their objects and hand them
to rank 0 every so many iterations, which replays them as they come.  Between two such hand-overs an
iteration costs a rank the copy of its objects' loads.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Kind
from pylb.decide.decider import Settings
from pylb.decide.receipts import History, Receipt
from pylb.errors import SerializationError
from pylb.io.run_record import Loop, Stretch
from pylb.model.snapshot import F64
from pylb.replay.recorded import trace_arrays
from pylb.replay.trace import Trace
from pylb.run.messages import Mailbox
from pylb.run.objects import Store
from pylb.run.recording import Recording
from pylb.run.report import Log, Row
from pylb.run.sizes import Sizes


class Shadow:
    """The part of all ranks.

    Attributes
    ----------
    recording : Recording
        What is not handed over yet.
    rows : Log
        Each iteration as it would have been; `share` brings it to all ranks.
    history : History
        The receipts, likewise.
    """

    def __init__(self, agreement: Agreement, store: Store, mailbox: Mailbox, sizes: Sizes) -> None:
        self.recording = Recording(agreement, store, mailbox)
        self.rows = Log()
        self.history = History()
        self._agreement = agreement
        self._sizes = sizes
        self._replay: Any = None  # on rank 0
        self._decider: Any = None
        self._keys = np.zeros(0, np.int64)  # of the objects so far, by number
        self._followed = self._shared = 0  # iterations
        self._remaining: Any = None  # whether each object is there after the last iteration
        self._lost = False  # iterations were not kept: what comes after them is not followed

    def begin(self, given: Settings, loop: Loop, lag: float) -> None:
        """A loop begins; the first one says what balancings cost."""
        if self._agreement.transport.rank or self._lost:
            return
        n_ranks = self._agreement.transport.size
        if self._replay is None:
            network = (loop.alpha, loop.beta)
            given.load()
            self._decider = given.decider(n_ranks, network if given.selects else (0.0, 0.0))
            self._replay = _core.Replay(
                n_ranks=n_ranks,
                decider=self._decider.core,
                lag=int(lag),
                as_recorded=False,
                foresight=False,
                moves=False,
                network=(0.0, 0.0),
                cost=float("nan"),
                model=(*network, loop.steps, loop.handling, loop.pace),
                per_move=0.0,
                per_byte=0.0,
                steps=[],
                keep_times=False,
                keep_ranks=False,
            )
        self._lost = loop.first != self._followed
        if not self._lost:
            self._replay.loop(int(loop.first), int(loop.n), loop.cost)

    def follow(self, rows: F64) -> None:
        """Go through the iterations since the last time.  Collective.

        rows: of all iterations, as they were.
        """
        stretches = self.recording.gather(len(rows), forget=True)
        error: Exception | None = None
        try:
            self._check()
            self._feed(stretches, rows)
        except Exception as why:
            error = why
        self._agreement.step(Kind.RECORD, len(rows), error=error)

    def _check(self) -> None:
        """What could not migrate would make the figures wrong."""
        if self._sizes.refused is not None:
            key, why = self._sizes.refused
            raise SerializationError(f"shadow mode: object {key} cannot be pickled: {why}") from why

    def _feed(self, stretches: list[Stretch], rows: F64) -> None:
        if self._replay is None or self._lost:
            return
        left = stretches.pop().key if stretches and not stretches[-1].iterations else None
        if stretches:
            self._run(stretches, rows)
        self._remaining = None if left is None else np.isin(self._keys, left)

    def _run(self, stretches: list[Stretch], rows: F64) -> None:
        first = stretches[0].first
        self._followed = stretches[-1].first + stretches[-1].iterations
        arrays = trace_arrays(stretches, self._keys)
        self._keys = arrays["entity_key"]
        figures = np.ascontiguousarray(rows[first : self._followed])
        self._replay.feed(Trace(self._agreement.transport.size, **arrays, figures=figures))

    def share(self) -> None:
        """A loop is over: all ranks know what rank 0 does.  Collective."""
        mine = b""
        if self._replay is not None:
            self._replay.settle(self._remaining)
            receipts = [r.to_dict() for r in self._decider.history]
            mine = json.dumps([receipts, self._new_rows()]).encode()
        receipts, rows = json.loads(self._agreement.transport.allgather(mine)[0])
        self.rows.extend(np.array(rows, np.float64).reshape(-1, len(Row._fields)))
        self.history = History(map(Receipt.from_dict, receipts))

    def _new_rows(self) -> list[Row]:
        metrics, seconds = self._replay.metrics(self._shared)
        self._shared += len(seconds)
        columns = (metrics[name].tolist() for name in ("max", "mean", "idle_mean", "min"))
        return [
            Row(time, most, mean, idle, least / most if most > 0 else 1.0, least)
            for time, most, mean, idle, least in zip(seconds.tolist(), *columns, strict=True)
        ]

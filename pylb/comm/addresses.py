"""Where objects are: a directory that follows them, distributed over the ranks.

Each object has a home, a rank that its key hashes to (`pylb.Directory` has the same).  The home
knows where the object is and which ranks have asked for it; it tells these ranks when the object
moves or is removed.  So a rank knows only its own objects, the addresses that are at home on it,
and those that it has asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends
from pylb.errors import DuplicateKeyError, UnknownKeyError
from pylb.model.snapshot import I32, I64

NO_KEYS: I64 = np.zeros(0, np.int64)


def by_rank(rank: Any, *columns: NDArray[Any]) -> dict[int, list[NDArray[Any]]]:
    """The rows of columns, grouped by the rank of each row and in their order."""
    order = np.argsort(rank, kind="stable")
    ranks, split = rank[order], [column[order] for column in columns]
    starts = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1])) if len(ranks) else ranks
    ends = [*starts[1:].tolist(), len(ranks)]
    return {
        int(ranks[a]): [column[a:b] for column in split]
        for a, b in zip(starts.tolist(), ends, strict=False)
    }


def _joined(parts: list[Any], n: int) -> list[I64]:
    """n columns of int64, each joined from all parts."""
    rows = [[np.frombuffer(column, np.int64) for column in part[:n]] for part in parts]
    return [np.concatenate([NO_KEYS, *(row[i] for row in rows)]) for i in range(n)]


def _distinct(first: I64, *more: I64) -> list[I64]:
    """Rows sorted by the first and second column, each pair once."""
    order = np.lexsort((more[0], first))
    columns = [column[order] for column in (first, *more)]
    new = np.ones(len(first), np.bool_)
    new[1:] = (columns[0][1:] != columns[0][:-1]) | (columns[1][1:] != columns[1][:-1])
    return [column[new] for column in columns]


def _told(rank: I64, key: I64, value: I64) -> dict[int, list[I64]]:
    """Keys and values for each rank, each key once."""
    return by_rank(*_distinct(rank, key, value))


class Addresses:
    """The addresses of the objects of all ranks, on one rank.

    Attributes
    ----------
    n_objects : int
        Number of objects of all ranks.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._rank, self._size = agreement.transport.rank, agreement.transport.size
        self._here = _core.Table(0)  # of the objects whose home this rank is
        self._asked = _core.Table(0)  # told by other homes
        self._asker_key, self._asker = NO_KEYS, np.zeros(0, np.int64)  # sorted pairs
        self._new_askers: list[tuple[I64, I64]] = []
        self.n_objects = 0

    def _home(self, keys: I64) -> I32:
        return _core.home(keys, self._size)

    def _exchange(
        self,
        kind: Step,
        iteration: int,
        parcels: dict[int, list[Any]],
        n: int,
        error: Exception | None = None,
        **figures: Any,
    ) -> tuple[Any, list[I64], list[I64]]:
        """Send n columns to each rank: the record, all columns that came, the rank of each row.

        Collective.
        """
        own = parcels.pop(self._rank, None)
        sends: Sends = [] if error else list(parcels.items())
        stats, came = self._agreement.step(kind, iteration, sends=sends, error=error, **figures)
        if own is not None:
            came = [*came, (self._rank, own)]
        parts = [parts for _, parts in came]
        lengths = [len(np.frombuffer(part[0], np.int64)) for part in parts]
        source = np.repeat(np.array([rank for rank, _ in came], np.int64), lengths)
        return stats, _joined(parts, n), [source]

    # ---- what exists -----------------------------------------------------------------------------

    def change(self, iteration: int, new: I64, gone: I64, n_here: int) -> I64:
        """Enter this rank's new objects, and forget the removed ones.  Collective.

        n_here: objects of this rank afterwards.  Returns the removed objects that this rank has
        owned or asked for.

        Raises
        ------
        DuplicateKeyError
            A key was added twice; the message names both ranks, and nothing has changed, on any
            rank.
        """
        keys = np.concatenate([new, gone])
        kind = np.concatenate([np.ones(len(new), np.int64), np.zeros(len(gone), np.int64)])
        parcels = by_rank(self._home(keys), keys, kind)
        _, (keys, kind), (source,) = self._exchange(Step.CHANGES, iteration, parcels, 2)
        lost, born, owner = keys[kind == 0], keys[kind == 1], source[kind == 1]
        error: Exception | None = None
        try:
            self._check_new(born, owner, lost)
        except DuplicateKeyError as why:
            error = why
        told = _told(*self._watched(lost, np.full(len(lost), -1)))
        stats, (removed, _), _ = self._exchange(
            Step.CHANGES, iteration, told, 2, error, n_objects=n_here
        )
        self.n_objects = stats.n_objects
        self._here.remove(lost)
        self._drop_askers(lost)
        self._enter(self._here, born, owner)
        self._asked.remove(removed)
        return np.concatenate([removed, gone])

    def _check_new(self, born: I64, owner: I64, lost: I64) -> None:
        order = np.lexsort((owner, born))
        born, owner = born[order], owner[order]
        known = self._here.find(born, None)[0].astype(np.int64)
        known[np.isin(born, lost)] = -1
        twice = np.flatnonzero((known >= 0) | np.append(born[1:] == born[:-1], False))
        if len(twice):
            i = twice[0]
            other = int(known[i]) if known[i] >= 0 else int(owner[i + 1])
            first, second = sorted((int(owner[i]), other))
            raise DuplicateKeyError(
                f"key {born[i]} was added twice: on rank {first} and on rank {second}"
            )

    def _enter(self, table: _core.Table, keys: I64, owner: NDArray[Any]) -> None:
        if len(keys):
            table.stage(keys)
            table.commit(owner.astype(np.int32), np.zeros(len(keys), np.int64), None)

    # ---- where objects are -----------------------------------------------------------------------

    def find(self, keys: I64) -> I32:
        """The rank of each object that is not here, as far as this rank knows it, else -1."""
        home = self._home(keys) == self._rank
        out = self._asked.find(keys, None)[0]
        out[home] = self._here.find(keys[home], None)[0]
        return out

    def route(self, keys: I64) -> tuple[I32, int]:
        """Where to send messages to objects that are not here: to the objects or to their homes.

        Returns the ranks, and the number of messages that homes must forward; -1: no such object.
        """
        home, to = self._home(keys), self.find(keys)
        unknown = (to < 0) & (home != self._rank)
        to[unknown] = home[unknown]
        return to, int(np.count_nonzero(unknown))

    def forward(self, keys: I64, source: I64) -> tuple[I32, dict[int, list[I64]]]:
        """The ranks of objects for which messages came from the ranks `source`, by their home.

        Also returns what to tell these ranks (`learn`).  -1: no such object.
        """
        return self._here.find(keys, None)[0], _told(*self._answers(keys, source))

    def learn(self, keys: I64, rank: I64) -> None:
        """Enter what a home has told."""
        self._enter(self._asked, keys, rank)

    def ask(self, keys: I64) -> None:
        """Learn where objects are, which may be anywhere.  Collective.

        Raises
        ------
        UnknownKeyError
            No such object, on every rank.
        """
        keys = np.unique(keys)
        known = self._asked.find(keys, None)[0] >= 0
        keys = keys[~known]
        _, (asked,), (source,) = self._exchange(
            Step.DIRECTORY, 0, by_rank(self._home(keys), keys), 1
        )
        owner, answers = self.forward(asked, source)
        error = None
        if np.any(owner < 0):
            error = UnknownKeyError(f"key {asked[np.argmax(owner < 0)]}: no such object")
        _, (keys, rank), _ = self._exchange(Step.DIRECTORY, 0, answers, 2, error)
        self.learn(keys, rank)

    def move(self, iteration: int, keys: I64, rank: I32, wanted: I64, by: I32) -> int:
        """Tell where objects of this rank have moved; return the number of all.  Collective.

        wanted, by: objects to which the ranks `by` will send, from now on.
        """
        rows = np.concatenate([keys, wanted]), np.concatenate([rank, by]).astype(np.int64)
        kind = np.repeat(np.array([1, 0]), [len(keys), len(wanted)])
        stats, (key, at, kind), _ = self._exchange(
            *(Step.MOVED, iteration, by_rank(self._home(rows[0]), *rows, kind), 3),
            n_changed=len(keys),
            messages=len(wanted),
        )
        if stats.n_changed or stats.messages:
            moved = kind == 1
            self._enter(self._here, key[moved], at[moved])
            told = self._watched(key[moved], at[moved])
            asked = self._answers(key[~moved], at[~moved])
            both = [np.concatenate(pair) for pair in zip(told, asked, strict=True)]
            _, (key, at), _ = self._exchange(Step.MOVED, iteration, _told(*both), 2)
            self.learn(key, at)
        return int(stats.n_changed)

    # ---- who has asked ---------------------------------------------------------------------------

    def _answers(self, keys: I64, asker: I64) -> tuple[I64, I64, I64]:
        """Note who asks for keys that are at home here: (asker, key, rank) of those that exist."""
        owner = self._here.find(keys, None)[0].astype(np.int64)
        known = owner >= 0
        self._new_askers.append((keys[known], asker[known]))
        return asker[known], keys[known], owner[known]

    def _watched(self, keys: I64, value: I64) -> tuple[I64, I64, I64]:
        """Who has asked for these keys: (asker, key, value)."""
        if self._new_askers:
            key = np.concatenate([self._asker_key, *(k for k, _ in self._new_askers)])
            rank = np.concatenate([self._asker, *(r for _, r in self._new_askers)])
            self._new_askers = []
            self._asker_key, self._asker = _distinct(key, rank)
        begin = np.searchsorted(self._asker_key, keys, "left")
        count = np.searchsorted(self._asker_key, keys, "right") - begin
        at = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
        return self._asker[at], np.repeat(keys, count), np.repeat(value, count)

    def _drop_askers(self, keys: I64) -> None:
        """Forget who has asked for removed objects."""
        if len(keys):
            stays = ~np.isin(self._asker_key, keys)
            self._asker_key, self._asker = self._asker_key[stays], self._asker[stays]

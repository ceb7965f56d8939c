"""A distributed directory of objects, which follows their migrations.

Each object has a home: the rank that its key hashes to, as in `pylb.Directory`.  The home knows
where the object is and which ranks have asked where it is.  The home tells these ranks when the
object moves or is removed.  So a rank knows only its own objects, the objects of which it is the
home, and the objects for which it has asked.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Attempt, Stats, Step
from pylb.comm.transport import Sends
from pylb.errors import DuplicateKeyError, UnknownKeyError
from pylb.model.objects import NO_KEYS
from pylb.model.snapshot import I32, I64

NO_TRIPLES: I64 = np.zeros((0, 3), np.int64)
# The third entry of a row (key, rank, kind), which tells the home of an object what has changed.
# MOVES: the object has moved to the rank.  WANTS: the rank must know from now on where the object
# is.  LEAVES: the rank no longer needs to know where the object is.
MOVES, WANTS, LEAVES = range(3)
FEW = 64  # a rank forgets addresses only if it knows more than this number of them


def _distinct(rows: I64) -> I64:
    """Sort rows by the first two columns, and keep one row for each pair of their values."""
    if len(rows) < 2:
        return rows
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
    return rows[new]


def _pairs(rows: I64) -> NDArray[Any]:
    """Return (n, 2) rows as n pairs, which NumPy can compare as a whole."""
    return np.ascontiguousarray(rows).view("i8,i8").ravel()


def rows_to(rank: I32, n_ranks: int, columns: tuple[NDArray[Any], ...]) -> dict[int, I64]:
    """Group rows by the rank that gets them: row i has element i of each column, for rank[i]."""
    ranks, start, order = _core.route(rank, n_ranks)
    rows = np.stack(columns, 1).astype(np.int64, copy=False)
    rows = np.ascontiguousarray(rows if order is None else rows[order])
    pairs = zip(ranks.tolist(), start.tolist(), start[1:].tolist(), strict=False)
    return {r: rows[a:b] for r, a, b in pairs}


class Addresses:
    """The addresses that one rank knows; the address of an object is the rank where it is."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._rank, self._size = agreement.transport.rank, agreement.transport.size
        self._here = _core.Table()  # ranks of the objects whose home is this rank
        self._asked = _core.Table()  # ranks of other objects, as reported by their homes
        # Rows (key of an object whose home is here, rank that asked), sorted.
        self._asker: I64 = np.zeros((0, 2), np.int64)
        self._new_askers: list[I64] = []
        self._asked_for = NO_KEYS  # objects for which `ask` was called on this rank
        self._most = FEW  # if `_asked` has more entries, this rank forgets unused ones
        self.n_objects = 0  # number of objects on all ranks
        agreement.objects_on = WeakMethod(self.on)  # for errors about a dead rank

    def on(self, rank: int) -> I64:
        """Return the keys, sorted, of those objects on a rank that this rank knows."""
        tables = self._here, self._asked
        return np.unique(np.concatenate([t.ids()[t.find(t.ids()) == rank] for t in tables]))

    @property
    def nbytes(self) -> int:
        """Bytes that the addresses take on this rank."""
        askers = self._asker.nbytes + sum(rows.nbytes for rows in self._new_askers)
        return self._here.nbytes + self._asked.nbytes + self._asked_for.nbytes + askers

    def _home(self, keys: I64) -> I32:
        return _core.home(keys, self._size)

    def _to_homes(self, *columns: NDArray[Any]) -> dict[int, I64]:
        """Group rows by the home of their object, whose key is in the first column."""
        return rows_to(self._home(columns[0]), self._size, columns)

    def _by_rank(self, rows: I64) -> dict[int, I64]:
        """Split rows (rank, key, value) by rank; return (key, value) rows, each key once a rank."""
        if not len(rows):  # most often
            return {}
        rank, key, value = _distinct(rows).T
        return rows_to(rank.astype(np.int32), self._size, (key, value))

    def _exchange(
        self,
        kind: Step,
        iteration: int,
        parcels: dict[int, I64],
        n: int,
        error: Exception | None = None,
        **figures: Any,
    ) -> tuple[Stats, I64, I64]:
        """Exchange rows of `n` integers, given for each rank.  Collective.

        Returns the statistics of the step, the received rows, and the rank that sent each row.
        """
        own = parcels.pop(self._rank, np.zeros((0, n), np.int64))
        sends: Sends = [] if error else [(rank, [rows]) for rank, rows in parcels.items()]
        stats, came = self._agreement.step(kind, iteration, sends=sends, error=error, **figures)
        parts = [np.frombuffer(part, np.int64).reshape(-1, n) for _, (part,) in came]
        ranks = np.array([*(rank for rank, _ in came), self._rank], np.int64)
        source = np.repeat(ranks, [len(part) for part in (*parts, own)])
        return stats, np.concatenate([*parts, own]), source

    # ---- added and removed objects ---------------------------------------------------------------

    def change(self, iteration: int, new: I64, gone: I64, n_here: int) -> I64:
        """Register this rank's new objects, and forget its removed ones.  Collective.

        `n_here` is the number of objects on this rank after the change.  Returns the keys of the
        removed objects that were on this rank, that it had asked for, or whose home it was.  If a
        key was added twice, all ranks raise DuplicateKeyError, and nothing changes.
        """
        parcels: dict[int, I64] = {}
        with Attempt() as tried:
            keys = np.concatenate([new, gone])
            parcels = self._to_homes(keys, np.arange(len(keys)) < len(new))
        _, rows, source = self._exchange(Step.CHANGES, iteration, parcels, 2, tried.error)
        is_new = rows[:, 1] == 1
        lost, born, owner = rows[~is_new, 0], rows[is_new, 0], source[is_new]
        told: dict[int, I64] = {}
        with Attempt() as tried:
            self._check_new(born, owner, lost)
            told = self._by_rank(self._rows_for_askers(lost, np.full(len(lost), -1)))
        stats, removed, _ = self._exchange(
            Step.CHANGES, iteration, told, 2, tried.error, n_objects=n_here
        )
        self.n_objects = stats.n_objects
        if len(lost):
            self._here.remove(lost)
            self._asker = self._asker[~np.isin(self._asker[:, 0], lost)]
        self._here.put(born, owner.astype(np.int32))
        self._asked.remove(removed[:, 0])
        if len(removed) and len(self._asked_for):
            self._asked_for = np.setdiff1d(self._asked_for, removed[:, 0])
        return np.concatenate([removed[:, 0], gone, lost])

    def _check_new(self, born: I64, owner: I64, lost: I64) -> None:
        known = self._here.find(born)
        if len(lost):
            known[np.isin(born, lost)] = -1
        keys = np.sort(born)
        twice = np.concatenate([born[known >= 0], keys[1:][keys[1:] == keys[:-1]]])
        if len(twice):
            key = twice.min()
            same = born == key
            first, second, *_ = sorted([*owner[same], *known[same & (known >= 0)]])
            also = f" and on rank {second}" if first != second else ""
            raise DuplicateKeyError(f"key {key} was added twice: on rank {first}{also}")

    # ---- addresses -------------------------------------------------------------------------------

    def find(self, keys: I64) -> I32:
        """Return the ranks of objects that are on other ranks; -1: not known to this rank."""
        home = self._home(keys) == self._rank
        out = self._asked.find(keys)
        out[home] = self._here.find(keys[home])
        return out

    def route(self, keys: I64) -> tuple[I32, int]:
        """Return the ranks to which to send messages, and how many of these homes must forward.

        ``keys[i]`` is the target of message i, an object of another rank.  If this rank does not
        know where the target is, the message goes to its home; -1: there is no such object.
        """
        home, to = self._home(keys), self.find(keys)
        unknown = (to < 0) & (home != self._rank)
        to[unknown] = home[unknown]
        return to, int(np.count_nonzero(unknown))

    def forward(self, keys: I64) -> I32:
        """Return the ranks of objects whose home is this rank; -1: there is no such object."""
        return self._here.find(keys)

    def answer(self, keys: I64, source: I64) -> dict[int, I64]:
        """Record that rank ``source[i]`` sends messages to object ``keys[i]`` if its home is here.

        Returns the rows (key, rank) that each sender should `learn`.
        """
        asked = (source != self._rank) & (self._home(keys) == self._rank)
        return self._by_rank(self._answers(keys[asked], source[asked]))

    def learn(self, rows: I64) -> None:
        """Store the rows (key, rank) by which homes have answered where objects are."""
        self._asked.put(rows[:, 0], rows[:, 1].astype(np.int32))

    def ask(self, keys: I64) -> None:
        """Ask the homes of objects where the objects are.  Collective.

        If an object does not exist, all ranks raise UnknownKeyError.
        """
        unknown = np.unique(keys[self._asked.find(keys) < 0])
        _, asked, source = self._exchange(Step.DIRECTORY, 0, self._to_homes(unknown), 1)
        owner = self.forward(asked[:, 0])
        answers = self._by_rank(self._answers(asked[:, 0], source))
        error = None
        if np.any(owner < 0):
            error = UnknownKeyError(f"key {asked[np.argmax(owner < 0), 0]}: no such object")
        self.learn(self._exchange(Step.DIRECTORY, 0, answers, 2, error)[1])
        self._asked_for = np.union1d(self._asked_for, keys)

    def move(
        self, iteration: int, keys: I64, rank: I32, wanted: I64, by: I32, used: I64 = NO_KEYS
    ) -> int:
        """Tell the homes where objects have moved; return how many moved, over all ranks.

        Collective.  The objects `keys` have left this rank for the ranks `rank`.  From now on, rank
        ``by[i]`` must know where object ``wanted[i]`` is.  This rank has sent messages to the
        objects `used`; it may forget where other objects are, except those given to `ask`.
        """
        left = self._leave(used)
        about = np.concatenate([keys, wanted, left])
        where = np.concatenate([rank, by, np.full(len(left), self._rank)])
        what = np.repeat([MOVES, WANTS, LEAVES], [len(keys), len(wanted), len(left)])
        stats, rows, _ = self._exchange(
            *(Step.MOVED, iteration, self._to_homes(about, where, what), 3),
            n_changed=len(keys),
            messages=len(wanted),
        )
        moved, asked, gone = (rows[rows[:, 2] == kind, :2] for kind in (MOVES, WANTS, LEAVES))
        if len(gone):
            self._gather_askers()
            self._asker = self._asker[~np.isin(_pairs(self._asker), _pairs(gone))]
        if stats.n_changed or stats.messages:
            key, at = moved.T
            self._here.put(key, at.astype(np.int32))
            told = np.concatenate([self._rows_for_askers(key, at), self._answers(*asked.T)])
            self.learn(self._exchange(Step.MOVED, iteration, self._by_rank(told), 2)[1])
        return stats.n_changed

    def _leave(self, used: I64) -> I64:
        """Forget where unused objects are, if this rank knows more than `_most`; return their keys.

        Then change `_most`, so that this rank does not search for unused objects too often.
        """
        if len(self._asked) <= self._most:
            return NO_KEYS
        known = self._asked.ids()
        gone: I64 = known[~np.isin(known, np.concatenate([used, self._asked_for]))]
        self._asked.remove(gone)
        self._most = max(FEW, 2 * len(self._asked))
        return gone

    def _answers(self, keys: I64, asker: I64) -> I64:
        """Record which rank asks for each key, whose home is this rank.

        Returns rows (asker, key, rank of the object); a key that does not exist has no row.
        """
        if not len(keys):
            return NO_TRIPLES
        owner = self._here.find(keys)
        rows = np.stack([asker, keys, owner], 1)[owner >= 0]
        self._new_askers.append(rows[:, 1::-1])
        return rows

    def _gather_askers(self) -> None:
        if self._new_askers:
            self._asker = _distinct(np.concatenate([self._asker, *self._new_askers]))
            self._new_askers = []

    def _rows_for_askers(self, keys: I64, value: I64) -> I64:
        """Return rows (asker, key, value) for all ranks that have asked for one of these keys."""
        self._gather_askers()
        if not len(keys) or not len(self._asker):
            return NO_TRIPLES
        known = np.ascontiguousarray(self._asker[:, 0])
        begin = np.searchsorted(known, keys, "left")
        count = np.searchsorted(known, keys, "right") - begin
        at = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
        return np.stack([self._asker[at, 1], np.repeat(keys, count), np.repeat(value, count)], 1)

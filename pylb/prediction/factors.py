"""The critical path of a recorded run, and how moving a procedure would change it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.console import percent
from pylb.errors import DomainError, FormatError, OutOfRangeError, UnknownKeyError, nearest, warn
from pylb.model import checks
from pylb.model.network import Network
from pylb.model.snapshot import F64
from pylb.prediction.prediction import comm_arrays
from pylb.prediction.recorder.recording import OpKind, Recording

NOTHING, MOVED, ZEROED = range(3)  # a plb_path_change_t (csrc/whatif/whatif.h)
STRETCH = np.dtype([("rank", "i8"), ("first", "i8"), ("last", "i8"), ("ns", "i8")])
# Where the longest path to an operation comes from (``plb_path_hop_t``); rank -1: the same rank.
HOP = np.dtype([("op", "i8"), ("rank", "i4"), ("pad", "i4")])


@dataclass(frozen=True, eq=False, repr=False)
class CriticalPath:
    """The longest path through a run's operations and messages.

    Examples
    --------
    >>> path = pylb.prediction.critical_path("run")
    >>> bool(np.isclose(path.by_rank.sum(), path.time))
    True
    """

    #: Length of the path in seconds: the time of the run if each rank had its own processor.
    time: float
    finish: F64  #: (p,) length of the longest path to the end of each rank, in seconds.
    by_rank: F64  #: (p,) seconds of the critical path on each rank.
    #: Seconds of the critical path in each procedure, without the procedures that it calls;
    #: ``""`` is the time outside all procedures.
    by_procedure: dict[str, float]
    #: (k,) the segments of the path, in order: the ``rank`` of the segment, its ``first`` and
    #: ``last`` operation, and its length in nanoseconds, ``ns``.
    stretches: NDArray[Any]

    def __repr__(self) -> str:
        ranks = len(set(self.stretches["rank"].tolist()))
        return (
            f"<CriticalPath: {self.time:.4g} s in {len(self.stretches)} segments on {ranks} of "
            f"{len(self.finish)} ranks>"
        )


@dataclass(frozen=True)
class ProcedureFactor:
    """The effect of a procedure on the time of a run.

    Examples
    --------
    >>> one = pylb.prediction.procedures("run")["servBusy2"]
    >>> one.zeroed < one.moved
    True
    """

    name: str
    #: Processor time in the procedure on all ranks, including the procedures that it calls.
    seconds: float
    time: float  #: Length of the critical path of the recorded run, in seconds.
    #: Length of the critical path if the procedure ran on the rank at the other end of its
    #: messages: the procedure load balancing factor (Eom and Hollingsworth 1998, figure 2).
    moved: float
    #: Length of the critical path if the procedure took no time: critical path zeroing.
    zeroed: float

    @property
    def gain(self) -> float:
        """Fraction of the time that moving the procedure saves; negative: it takes longer."""
        return 1 - self.moved / self.time if self.time else 0.0

    @property
    def most(self) -> float:
        """Fraction of the time that would be saved if the procedure took no time."""
        return 1 - self.zeroed / self.time if self.time else 0.0

    def row(self) -> list[Any]:
        """Return `moved`, `gain`, `zeroed` and `most`, the fractions as percentages."""
        return [self.moved, percent(self.gain), self.zeroed, percent(self.most)]


class Procedures(Sequence[ProcedureFactor]):
    """The marked procedures of a run; the one whose move to another rank saves most comes first.

    Examples
    --------
    >>> found = pylb.prediction.procedures("run")
    >>> len(found), found[0].name
    (2, 'servBusy2')
    """

    def __init__(self, factors: Sequence[ProcedureFactor]) -> None:
        self._factors = sorted(factors, key=lambda one: (one.moved, one.name))

    def __len__(self) -> int:
        return len(self._factors)

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._factors[which]
        known = {one.name: one for one in self._factors}
        if which not in known:
            raise UnknownKeyError(f"no procedure {which!r}" + nearest(which, known))
        return known[which]

    def __repr__(self) -> str:
        lines = [
            f"  {p.name}: {p.seconds:.4g} s, moved {p.moved:.4g} s ({percent(p.gain)}), "
            f"zeroed {p.zeroed:.4g} s ({percent(p.most)})"
            for p in self
        ]
        of = f", critical path {self[0].time:.4g} s" if self else ""
        return "\n".join([f"<Procedures: {len(self)}{of}>", *lines])


def critical_path(
    run: Recording | str | os.PathLike[str], *, network: tuple[float, float] = (0.0, 0.0)
) -> CriticalPath:
    """Find the longest path through the operations of a recorded run.

    The path consists of messages, and of the processor time and pauses of a rank between two
    operations.  A send takes no time.

    Parameters
    ----------
    run : Recording or path
    network : (alpha, beta)
        Seconds per message and per byte.  By default messages cost nothing.

    Examples
    --------
    >>> path = pylb.prediction.critical_path("run")
    >>> path.by_rank.shape, sorted(path.by_procedure)
    ((4,), ['', 'servBusy1', 'servBusy2'])
    """
    recording = Recording.given(run)
    ops, names = recording.ops, recording.procedures
    hops = [np.zeros(len(mine), HOP) for mine in ops]
    query: Any = (NOTHING, -1, -1, -1, False, *Network.of(network))
    lengths, stuck = _core.path_lengths(ops, *comm_arrays(recording.comms), [query], hops)
    if stuck[0]:
        raise DomainError(
            f"{stuck[0]} of {recording.n_ranks} ranks wait for messages that the recording lacks: "
            "there is no complete path"
        )
    took = [mine["compute"] + mine["bytes"] * (mine["kind"] == OpKind.PAUSE) for mine in ops]
    last = int(lengths[0].argmax()) if len(ops) else -1
    stretches = np.array(_path_to_end(took, hops, last), STRETCH)
    by_rank, by_procedure = np.zeros(len(ops)), np.zeros(len(names) + 1)
    np.add.at(by_rank, stretches["rank"], stretches["ns"])
    for rank in np.unique(stretches["rank"]).tolist():
        mine = stretches[stretches["rank"] == rank]
        on = np.zeros(len(ops[rank]) + 1, np.int64)
        np.add.at(on, mine["first"], 1)
        np.add.at(on, mine["last"] + 1, -1)
        on = np.flatnonzero(np.cumsum(on[:-1]))
        inner = _innermost(ops[rank], len(names), rank)
        by_procedure += np.bincount(inner[on], took[rank][on], len(names) + 1)
    by = dict(zip([*names, ""], (by_procedure * 1e-9).tolist(), strict=True))
    finish: F64 = lengths[0] * 1e-9
    by_rank *= 1e-9
    return CriticalPath(float(finish.max(initial=0.0)), finish, by_rank, by, stretches)


def _path_to_end(took: list[Any], hops: list[NDArray[Any]], rank: int) -> list[tuple[int, ...]]:
    """Return the segments of the longest path to the last operation of a rank, in order.

    ``took[r]`` has the nanoseconds of each operation of rank r.
    """
    jumps = [np.flatnonzero(mine["rank"] >= 0) for mine in hops]
    until = [np.concatenate([[0], np.cumsum(mine)]) for mine in took]
    rows: list[tuple[int, ...]] = []
    at = len(took[rank]) - 1 if rank >= 0 else -1
    while at >= 0:
        # the rank's operations before a jump from another rank are not on the path
        known = int(np.searchsorted(jumps[rank], at, side="right"))
        jump = int(jumps[rank][known - 1]) if known else -1
        rows.append((rank, jump + 1, at, int(until[rank][at + 1] - until[rank][jump + 1])))
        rank, at = (hops[rank][name][jump].item() for name in ("rank", "op")) if known else (0, -1)
    return rows[::-1]


def _innermost(ops: NDArray[Any], n: int, rank: int) -> NDArray[np.int64]:
    """Return the innermost procedure, 0 ... n - 1, in which each operation begins; n if none."""
    marks = np.flatnonzero((ops["kind"] == OpKind.ENTER) | (ops["kind"] == OpKind.LEAVE))
    open_, after = [n], [n]
    pairs = zip(
        (ops["kind"][marks] == OpKind.ENTER).tolist(), ops["tag"][marks].tolist(), strict=True
    )
    for i, (enters, tag) in zip(marks.tolist(), pairs, strict=True):
        if enters and not 0 <= tag < n:
            raise FormatError(
                f"operation {i} of rank {rank} enters procedure {tag}: expected one of the {n} "
                "procedures of the recording, numbered from 0"
            )
        if enters:
            open_.append(tag)
        elif len(open_) > 1:
            open_.pop()
        after.append(open_[-1])
    return np.repeat(after, np.diff(marks, prepend=-1, append=len(ops) - 1))


def procedures(
    run: Recording | str | os.PathLike[str],
    *,
    source: int | None = None,
    target: int | None = None,
    network: tuple[float, float] = (0.0, 0.0),
) -> Procedures:
    """Compute the load balancing factor and critical path zeroing of each marked procedure.

    As in the paper (Eom and Hollingsworth 1998), work of a procedure moves from the sender of a
    message to its receiver, e.g. from a server to its clients.  This work is what the sender did in
    the procedure since it last sent or received a message.

    With `source` or `target`, only messages from `source` to `target` move work, namely the work
    since the previous such message.  Time that the source would have waited anyway is then no gain.

    If the recording lacks messages for which ranks wait, a warning says that the results cover only
    a part of the run.

    Parameters
    ----------
    run : Recording or path
    source, target : int, optional
        The rank from which procedures move, and the rank to which they move.  Default: all ranks.
    network : (alpha, beta)
        Seconds per message and per byte.

    Examples
    --------
    >>> found = pylb.prediction.procedures("run")
    >>> sorted(one.name for one in found), found["servBusy2"].gain > 0.0
    (['servBusy1', 'servBusy2'], True)
    """
    recording = Recording.given(run)
    if not recording.procedures:
        raise DomainError(
            "no procedure is marked in the recording: mark some by @pylb.procedure in Python, or "
            "by PYLB_PROCEDURE or --procedures in C"
        )
    for name, rank in (("source", source), ("target", target)):
        if rank is not None and not 0 <= checks.integer(name, rank) < recording.n_ranks:
            raise OutOfRangeError(f"{name} is {rank}: expected 0 ... {recording.n_ranks - 1}")
    kept = source is not None or target is not None
    between = (-1 if source is None else source, -1 if target is None else target)
    costs = Network.of(network)
    queries: list[Any] = [
        (change, i, *between, kept, *costs)
        for i in range(len(recording.procedures))
        for change in (MOVED, ZEROED)
    ]
    queries.append((NOTHING, -1, -1, -1, False, *costs))
    lengths, stuck = _core.path_lengths(recording.ops, *comm_arrays(recording.comms), queries)
    if stuck.any():
        warn(
            f"{stuck.max()} of {recording.n_ranks} ranks wait for messages that the recording "
            "lacks, so the results cover only a part of the run"
        )
    times = (lengths.max(axis=1, initial=0) * 1e-9).tolist()
    factors = [
        ProcedureFactor(name, _seconds(recording, i), times[-1], *times[2 * i : 2 * i + 2])
        for i, name in enumerate(recording.procedures)
    ]
    return Procedures(factors)


def _seconds(recording: Recording, number: int) -> float:
    """Return the processor time of all ranks between the procedure's outermost ENTER and LEAVE."""
    ns = 0
    for ops in recording.ops:
        mine = ops["tag"] == number
        step = (mine & (ops["kind"] == OpKind.ENTER)).astype(int)
        step -= mine & (ops["kind"] == OpKind.LEAVE)
        before = np.cumsum(step) - step
        ns += int(ops["compute"][before > 0].sum())
    return ns * 1e-9

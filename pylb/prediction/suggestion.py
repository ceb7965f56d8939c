"""Search for better placements of the ranks of a recorded program, by simulation."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb.console import count, percent
from pylb.errors import PylbError, warn
from pylb.model import checks
from pylb.model.snapshot import I32, Edges, Snapshot
from pylb.placing.placement import place
from pylb.prediction.factors import procedures
from pylb.prediction.prediction import Prediction, whatif
from pylb.prediction.recorder.recording import OpKind, Recording

STRATEGIES = ("BestFitLB", "GreedyLB", "RefineCommLB", "CommAwareRefineLB", "ScotchLB", "MetisLB")
NEAR = 1e-4  # predictions with a smaller relative difference count as equal
TRIES, SIMULATED = 40, 10_000_000  # default limits of simulated changes and operations


@dataclass(frozen=True, eq=False)
class Suggestion:
    """One suggested change of a recorded run.

    Examples
    --------
    >>> best = pylb.prediction.suggest("run", placement=[0, 0, 1, 1], best=1)[0]
    >>> best.procedure, best.placement
    ('servBusy2', None)
    """

    time: float  #: Predicted seconds.
    #: Fraction of the time that the change saves, compared with the present placement.
    saves: float
    placement: I32 | None  #: (p,) processor of each rank; None if a procedure moves.
    #: The procedure that moves to the rank at the other end of its messages; None if a placement
    #: changes.
    procedure: str | None
    reason: str  #: Why the changed run is faster.

    def __str__(self) -> str:
        return f"{self.time:.4g} s ({percent(self.saves)} saved): {self.reason}"


def suggest(
    run: Recording | str | os.PathLike[str],
    *,
    placement: ArrayLike,
    best: int = 3,
    tries: int | None = None,
    **target: Any,
) -> list[Suggestion]:
    """Suggest placements and moves of procedures that make a recorded run faster.

    The candidates are:

    - placements by pylb's strategies: ranks are the objects, with their processor time as load and
      their messages as edges;
    - placements in which ranks of the busiest processor are moved or swapped;
    - moves of each marked procedure to the rank at the other end of its messages.

    `pylb.whatif` simulates each placement; for a procedure, `pylb.prediction.procedures` computes
    the critical path.  Eom and Hollingsworth (1998) leave this search to future work.

    Parameters
    ----------
    run : Recording or path
    placement : (p,) array of int
        Present processor of each rank.
    best : int
        Largest number of suggestions; candidates that save nothing are left out.
    tries : int, optional
        Largest number of moves and swaps to simulate, besides the strategies' placements.  Default:
        40, or fewer if more than ten million operations would be simulated.
    **target
        The machine, as for `pylb.whatif`: ``speed``, ``node``, ``network`` and so on.

    Returns
    -------
    list of Suggestion
        The fastest first.  For a procedure, the predicted time is reduced by the same fraction as
        the critical path.

    Examples
    --------
    >>> best = pylb.prediction.suggest("run", placement=[0, 0, 1, 1], best=1)[0]
    >>> best.saves > 0.0
    True
    """
    recording = Recording.given(run)
    if tries is None:
        tries = min(TRIES, SIMULATED // max(recording.n_ops, 1))
    best, tries = checks.whole("best", best, 1), checks.whole("tries", tries, 0)
    search = _Search(recording, checks.array("placement", placement), target)
    for text in search.now.warnings:
        warn(text)
    for which, candidate in search.candidates():
        search.attempt(candidate, which)
    search.improve(tries)
    found = list(map(search.suggestion, search.tried))
    if recording.procedures and recording.closed.all():
        found += [
            Suggestion(
                search.now.time * (1 - one.gain),
                one.gain,
                None,
                one.name,
                f"{one.name} at the other end of its messages: the critical path is "
                f"{one.moved:.4g} s instead of {one.time:.4g} s",
            )
            for one in procedures(recording)
        ]
    worth = [one for one in found if one.saves > NEAR]
    return sorted(worth, key=lambda one: one.time)[:best]


class _Search:
    """The placements that were tried, and the moves that lead to further ones."""

    def __init__(self, recording: Recording, now: NDArray[Any], target: dict[str, Any]) -> None:
        self.recording, self.target = recording, target
        # By the bytes of each simulated placement: its prediction, and how it was found (name of a
        # strategy, "step by step" or "unchanged").
        self.tried: dict[bytes, tuple[Prediction, str]] = {}
        sums: list[tuple[NDArray[Any], ...]] = [
            (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
        ]
        for rank, ops in enumerate(recording.ops):
            sends = ops[(ops["kind"] == OpKind.SEND) | (ops["kind"] == OpKind.ISEND)]
            peers, where = np.unique(sends["peer"], return_inverse=True)
            nbytes = np.bincount(where, sends["bytes"], len(peers))
            some = nbytes > 0
            sums.append((np.full(some.sum(), rank, np.int32), peers[some], nbytes[some]))
        self.edges: Any = Edges(*(np.concatenate(column) for column in zip(*sums, strict=True)))
        self.now = self.simulate(now)
        self.present = self.now.target.placement

    def simulate(self, candidate: NDArray[Any]) -> Prediction:
        with warnings.catch_warnings():
            # Each candidate would repeat the warnings that `suggest` shows once.
            warnings.simplefilter("ignore")
            return whatif(self.recording, placement=candidate, **self.target)

    def attempt(self, candidate: NDArray[Any], which: str) -> float:
        key = candidate.astype(np.int32).tobytes()
        if key not in self.tried:
            self.tried[key] = (self.simulate(candidate), which)
        return self.tried[key][0].time

    def candidates(self) -> Iterator[tuple[str, I32]]:
        """Yield (strategy, placement) for each of `STRATEGIES`, from the present placement."""
        aim = self.now.target
        snap = Snapshot(
            self.now.busy * aim.speed[aim.placement],
            aim.placement,
            n_ranks=len(aim.speed),
            speed=aim.speed,
            node=aim.node,
            edges=self.edges,
        )
        for name in STRATEGIES:
            try:
                yield name, place(snap, name).rank
            except PylbError:  # the library is absent, or cannot use this graph
                continue

    def improve(self, tries: int) -> None:
        """Improve the fastest placement: simulate at most `tries` moves and swaps of ranks."""
        if not self.tried:
            self.attempt(self.present, "unchanged")
        while tries > 0:
            _, _, top = min((run.time, key, run) for key, (run, _) in self.tried.items())
            for candidate in self.neighbours(top):
                tries -= 1
                if self.attempt(candidate, "step by step") < top.time or tries == 0:
                    break
            else:
                return

    def neighbours(self, found: Prediction) -> Iterator[NDArray[np.int32]]:
        """Yield placements that differ from that of `found` by one move or one swap of ranks.

        The most balanced ones come first.  A placement is left out if the work of one processor
        alone would take as long as the whole run of `found`.
        """
        at, speed = found.target.placement, found.target.speed
        time = found.processor_busy
        busiest = int(time.argmax())
        work = found.busy * speed[at]
        mine = np.flatnonzero(at == busiest)
        changes: list[tuple[float, int, int, int]] = []
        for rank in mine[np.argsort(-work[mine], kind="stable")][:16].tolist():
            for to in np.argsort(time, kind="stable")[:8].tolist():
                if to == busiest:
                    continue
                rest = np.delete(time, [busiest, to]).max(initial=0.0)
                for other in [-1, *np.flatnonzero(at == to)[:8].tolist()]:
                    given = work[rank] - (work[other] if other >= 0 else 0.0)
                    both = time[busiest] - given / speed[busiest], time[to] + given / speed[to]
                    if max(*both, rest) < found.time * (1 - NEAR):
                        changes.append((float(max(*both, rest)), rank, to, other))
        for _, rank, to, other in sorted(changes):
            candidate = at.copy()
            candidate[rank] = to
            if other >= 0:
                candidate[other] = busiest
            yield candidate

    def suggestion(self, key: bytes) -> Suggestion:
        found, which = self.tried[key]
        now = self.now
        moved = int(np.sum(found.target.placement != self.present))
        busy, was = found.processor_busy.max(), now.processor_busy.max()
        reason = (
            f"{count(moved, 'rank')} moved ({which}): the busiest processor computes {busy:.3g} s "
            f"instead of {was:.3g} s"
        )
        node = now.target.node
        away = [
            self.edges.nbytes[node[at[self.edges.src]] != node[at[self.edges.dst]]].sum()
            for at in (found.target.placement, self.present)
        ]
        if max(away) > 0:
            reason += f", {away[0]:,.0f} bytes go between nodes instead of {away[1]:,.0f}"
        saves = 1 - found.time / now.time if now.time else 0.0
        return Suggestion(found.time, saves, found.target.placement, None, reason)

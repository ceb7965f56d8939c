"""Feed the C replay with a recorded run: its phases, and the changes between them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from pylb.io.phases import Phases
from pylb.io.run_record import OF_RANKS, Loop, Stretch
from pylb.replay.trace_conversion import Entities, one_phase, or_zeros, stretch_of


def feed(core: Any, trace: Phases, first: int, last: int) -> None:
    """Run the phases `first` to `last` - 1, which are in one loop.

    If sizes, positions or other properties of objects changed in a phase, a decision before this
    phase uses the earlier values, if the record lists them (`RunFacts.remaining`).
    """
    listed = trace.recorded.remaining if trace.recorded else {}
    ends = {i for i in listed if first < i < last and _is_changed(trace, listed[i], i)}
    for begin, end in parts(trace, first, last, ends):
        core.feed(trace if end - begin == len(trace) else trace[begin:end])
        if end in ends:
            settle(core, trace, end, True)


def parts(trace: Phases, first: int, last: int, ends: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Cut the phases `first` to `last` - 1 at `ends` and `_changes`; return (begin, end) pairs."""
    inner = {*ends, *_changes(trace)}
    cuts = [first, *sorted(i for i in inner if first < i < last), last]
    return list(itertools.pairwise(cuts))


def _changes(trace: Phases) -> set[int]:
    """Return the phases before which the user's functions returned new properties of the ranks."""
    answers = trace.recorded.answers[1:] if trace.recorded else []
    return {moment // 2 for moment, _ in answers}


def _is_changed(trace: Phases, objects: Stretch, i: int) -> bool:
    """Say whether any property of these objects is different in phase i of the trace."""
    tasks = slice(*trace.task_ptr[i : i + 2].tolist())
    pairs: list[tuple[Any, Any]] = [
        (objects.bytes, trace.task_bytes),
        (np.maximum(objects.memory, 0), trace.task_memory),
        (objects.coords, trace.task_coords),
    ]
    work = None if trace.task_work is None else trace.task_work[tasks]
    n, m = len(objects.key), tasks.stop - tasks.start
    changed = not np.array_equal(or_zeros(objects.work, n), or_zeros(work, m))
    changed |= any(b is not None and not np.array_equal(a, b[tasks]) for a, b in pairs)
    return changed or not np.array_equal(objects.migratable, trace.movable(tasks))


def start(core: Any, trace: Phases, first: int) -> None:
    """If the loop begins with an LB step, start it with the objects that the record lists."""
    if trace.recorded and (objects := trace.recorded.starting.get(first)) is not None:
        core.start(_listed(trace, objects, 2 * first + 1))


def _listed(trace: Phases, objects: Stretch, moment: int) -> Phases:
    """Return a trace with one phase, in which these objects exist; moment: see `ranks_at`."""
    facts = {name: getattr(trace, name) for name in OF_RANKS}
    if trace.recorded and trace.recorded.answers:
        facts |= trace.recorded.ranks_at(moment)
    phase = one_phase(trace.n_ranks, objects, Entities.of(trace), facts)
    return (
        phase if trace.task_seconds is not None else dataclasses.replace(phase, task_seconds=None)
    )


def settle(core: Any, trace: Phases, end: int, early: bool) -> None:
    """Decide after `end` phases, with the objects that exist then.

    early: the loop has more planned iterations.  The record lists the objects if they differ from
    those of the next phase.  If it lists none and `early` is True, the replay decides when it gets
    the next phase, if there is one.
    """
    left = trace.recorded.remaining.get(end) if trace.recorded else None
    if left is None and early and end in _changes(trace):
        left = stretch_of(trace, end - 1)
    if left is not None:
        core.settle(_listed(trace, left, 2 * end), early)
    elif not early or end == trace.n_phases:
        core.settle(None, early)


def loops(trace: Phases) -> list[tuple[Loop, int]]:
    """Return the loops of the run, each with the number of its last phase plus 1."""
    loops = trace.recorded.loops if trace.recorded else []
    if len(loops) < 2:
        n = max(loops[0].n, trace.n_phases) if loops else trace.n_phases
        return [((loops[0]._replace(n=n) if loops else Loop(0, n)), trace.n_phases)]
    return list(zip(loops, [*(int(loop.first) for loop in loops[1:]), trace.n_phases], strict=True))

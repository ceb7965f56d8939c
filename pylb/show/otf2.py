"""Write a run as an OTF2 archive, for Vampir, Scalasca's tools and ``otf2-print``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pylb import optional
from pylb.console import clip
from pylb.decide.receipts import Receipt
from pylb.errors import DomainError
from pylb.show import timeline
from pylb.show.course import Course, Migrations

NANO = 1_000_000_000  # ticks of the clock per second
LATEST = 1.8e10  # seconds; later times have more than 64 bits


def write(course: Course, folder: str | os.PathLike[str]) -> Path:
    """Write the archive, and return its anchor file ``traces.otf2`` in `folder`.

    Regions of the archive are the iterations, the computing in them, and the LB steps.  Migrations
    are messages between ranks in an LB step, with the number of objects as an attribute.  max/mean
    is a metric of rank 0.
    """
    library = optional.require("otf2")
    from otf2 import writer

    path = Path(folder)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise DomainError(f"folder is {str(path)!r}: expected a new or an empty folder")
    if course.seconds > LATEST:
        raise DomainError(f"the run takes {course.seconds:.3g} s: expected at most {LATEST:.3g} s")
    with writer.open(str(path), timer_resolution=NANO) as trace:
        _Archive(library, trace, course).write()
    return path / "traces.otf2"


class _Archive:
    """Writes the definitions of the archive, and its events in order of time."""

    def __init__(self, library: Any, trace: Any, course: Course) -> None:
        define, self._course = trace.definitions, course
        machine = define.system_tree_node(clip(course.title) or "run", class_name="machine")
        locations = []
        for r in range(course.n_ranks):
            process = define.location_group(f"rank {r}", system_tree_parent=machine)
            locations.append(define.location(f"rank {r}", group=process))
        self._ranks = [trace.event_writer_from_location(place) for place in locations]
        self._iteration, self._compute = (define.region(x) for x in ("iteration", "compute"))
        strategies = sorted({r.strategy for r in course.balancings})
        self._steps = {name: define.region(f"LB step: {clip(name)}") for name in strategies}
        integer = library.Type.UINT64
        self._number = define.attribute("iteration", "number of the iteration", integer)
        self._objects = define.attribute("objects", "objects of a migration", integer)
        self._everybody = self._communicator(library, define, locations)
        member = define.metric_member(
            "max/mean", "load of the slowest rank / mean load", value_type=library.Type.DOUBLE
        )
        self._ratio = define.metric_class([member])

    @staticmethod
    def _communicator(library: Any, define: Any, locations: list[Any]) -> Any:
        groups = library.GroupType.COMM_LOCATIONS, library.GroupType.COMM_GROUP
        mpi: Any = {"paradigm": library.Paradigm.MPI, "members": tuple(locations)}
        whole = [define.group("all ranks", group_type=kind, **mpi) for kind in groups]
        return define.comm("all ranks", whole[1])

    def write(self) -> None:
        course = self._course
        begins = timeline.begins(course)
        steps = {r.iteration: r for r in course.balancings}
        moves = {m.iteration: m for m in course.moves}
        if -1 in steps:
            self._step(steps[-1], 0.0, float(begins[0]), moves.get(-1))
        for i, (begin, end) in enumerate(pairwise(begins.tolist())):
            done = begin + float(course.elapsed[i])
            self._run(i, begin, done)
            if i in steps:
                self._step(steps[i], done, end, moves.get(i))

    def _run(self, i: int, begin: float, end: float) -> None:
        """Write an iteration on every rank."""
        course = self._course
        mean = float(course.mean[i])
        ratio = float(course.max[i]) / mean if mean > 0 else 1.0
        self._ranks[0].metric(_ticks(begin), self._ratio, ratio)
        for rank, seconds in zip(self._ranks, course.times[i].tolist(), strict=True):
            rank.enter(_ticks(begin), self._iteration, {self._number: i})
            rank.enter(_ticks(begin), self._compute)
            rank.leave(_ticks(begin + seconds), self._compute)
            rank.leave(_ticks(end), self._iteration)

    def _step(self, r: Receipt, begin: float, end: float, moves: Migrations | None) -> None:
        """Write an LB step on every rank, with its migrations as messages."""
        region = self._steps[r.strategy]
        for rank in self._ranks:
            rank.enter(_ticks(begin), region)
        for source, target, objects, nbytes in _rows(moves):
            send = (target, self._everybody, 0, nbytes, {self._objects: objects})
            self._ranks[source].mpi_send(_ticks(begin), *send)
        for source, target, objects, nbytes in _rows(moves):
            receive = (source, self._everybody, 0, nbytes, {self._objects: objects})
            self._ranks[target].mpi_recv(_ticks(end), *receive)
        for rank in self._ranks:
            rank.leave(_ticks(end), region)


def _rows(moves: Migrations | None) -> Iterator[tuple[int, int, int, int]]:
    return iter(()) if moves is None else zip(*(a.tolist() for a in moves[1:]), strict=True)


def _ticks(seconds: float) -> int:
    return round(seconds * NANO)

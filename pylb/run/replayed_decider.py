"""A decider that repeats the LB steps of a recorded run."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from pylb.decide.decider import Decider, settings
from pylb.decide.receipts import Receipt
from pylb.decide.trigger import Cycle
from pylb.errors import DomainError
from pylb.io import h5
from pylb.model.snapshot import Snapshot
from pylb.place.registry import find
from pylb.run.local_objects import LocalObjects


class ReplayedDecider(Decider):
    """Repeats the LB steps of a record: the same iterations, the same placements."""

    def __init__(self, path: str | os.PathLike[str], n_ranks: int) -> None:
        self.run = h5.read(path)
        if self.run.n_ranks != n_ranks:
            raise DomainError(
                f"replay is {self.run.path!r}, a run on {self.run.n_ranks} ranks: expected one on "
                f"{n_ranks}"
            )
        self._recorded = {
            r.iteration: r
            for r in self.run.history.balancings
            if r.iteration + 1 < self.run.n_iterations and r.moved
        }
        self._iteration = -1  # the most recent iteration that the trigger was asked about
        given = settings(replace(find(self._place), name="recorded"), trigger=self._asks)
        super().__init__(replace(given, gives_up=False), n_ranks, (0.0, 0.0), keep=0)

    def _asks(self, cycle: Cycle) -> bool:
        self._iteration = cycle.iteration
        return cycle.iteration in self._recorded

    def _place(self, snapshot: Snapshot) -> Any:
        return self.run.at(self._iteration + 1).rank

    def receipt(self, row: dict[str, Any]) -> Receipt:
        """Convert a receipt of the C core, and take its reasons from the record."""
        receipt = super().receipt(row)
        recorded = self._recorded[receipt.iteration]
        receipt.reason = f"the recorded run did an LB step here, because {recorded.reason}"
        receipt.why = f"the recorded run used {recorded.strategy}"
        return receipt

    def check_length(self, end: int) -> None:
        """Raise DomainError unless the record has `end` iterations or more."""
        if end > self.run.n_iterations:
            raise DomainError(
                f"replay is {self.run.path!r}, a run of {self.run.n_iterations} iterations: "
                f"expected {end} or more"
            )

    def check_objects(self, iteration: int, objects: LocalObjects, ranks: bool) -> None:
        """Check that the recorded run had this rank's objects in that iteration.

        ranks=True: also check that each object was on this rank.  ranks=False: check this only for
        objects that may not migrate, because an LB step now moves the other objects.
        """
        if iteration >= self.run.n_iterations:
            return
        there, mine = self.run.at(iteration), objects.store.keys
        name = f"replay is {self.run.path!r}, a record of another program: in iteration {iteration}"
        odd = mine[~np.isin(mine, there.key)]
        if len(odd) or len(there.key) != objects.n_objects:
            extra = f"; only this program has object {odd[0]}" if len(odd) else ""
            raise DomainError(
                f"{name} it has {len(there.key)} objects, but this program has "
                f"{objects.n_objects}{extra}"
            )
        was = there.rank[np.searchsorted(there.key, mine)]
        moves = was != objects.rank
        if not ranks:
            moves &= ~objects.store.properties["migratable"]
        if np.any(moves):
            i = np.argmax(moves)
            here = "but here it is on" if ranks else "but here it may not migrate from"
            raise DomainError(
                f"{name} object {mine[i]} is on rank {was[i]}, {here} rank {objects.rank}"
            )

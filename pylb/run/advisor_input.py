"""Check what a program gives to `Advisor.advise`: seconds, cells, cost of a redistribution."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.measure.load_model import LoadModel, features_of
from pylb.model import checks
from pylb.model.snapshot import F64
from pylb.run.advice import Advice
from pylb.run.advising_mode import AdvisorState, Measured
from pylb.run.cells import OPTIONAL, Cells, cells_of, loads_of
from pylb.run.stopwatch import Stopwatch

log = logging.getLogger("pylb")
WAYS = ("loads", "weights", "features")  # arguments that give the loads of cells
ARRAYS = ("keys", *OPTIONAL, "edges", "coords")


class AdvisorInput:
    """Turns the arguments of `Advisor.advise` into a `Measured`."""

    def __init__(self, state: AdvisorState, watch: Stopwatch) -> None:
        self._state, self._watch = state, watch
        self._said = False  # whether `_rebalanced` has logged its warning

    @property
    def coefficients(self) -> F64 | None:
        """Seconds per unit of each feature, from this rank's own steps."""
        model = self._state.model
        return None if model is None else LoadModel.coefficients(model.sums)

    def measure(
        self,
        advice: Advice | None,
        seconds: Any,
        loads: Any,
        weights: Any,
        features: Any,
        **arrays: Any,
    ) -> Measured:
        """Check the arguments; return the measurements of this rank in the step that ends."""
        watch = self._watch
        watch.check_closed("advise()")
        is_given = [x is not None for x in (loads, weights, features)]
        if sum(is_given) > 1:
            raise DomainError(
                "more than one of loads, weights and features is given: expected only one of them"
            )
        form, words = _form(is_given, arrays)
        model: LoadModel | None = None
        self._state.check(places=any(is_given))
        time = watch.elapsed() if watch.work.used else 0.0
        if not any(is_given):
            extra = [name for name in ARRAYS if arrays[name] is not None]
            if extra:
                raise DomainError(
                    f"{extra[0]} is given without cells: expected loads, weights or features, too"
                )
            spent = self._seconds(seconds)
            cells = Cells(np.array([spent]), spent)
        elif loads is not None:
            if seconds is not None:
                raise DomainError(
                    "seconds and loads are both given: expected loads only, which add up to seconds"
                )
            mine, spent = loads_of(loads)
            cells = cells_of(mine, spent, **arrays)
        else:
            given = ("weights", weights) if features is None else ("features", features)
            features = features_of(given[1], given[0])
            form, words = (
                form + (features.shape[1] << 16),
                f"{words} of {features.shape[1]} columns",
            )
            spent = self._seconds(seconds)
            model, k = self._state.model, features.shape[1]
            if model is None or len(model.sums) != k:
                model = LoadModel(k)
            model = model.observe(features, spent)
            cells = cells_of(_shares(model, features, spent), spent, **arrays)
        changed = any(is_given) and self._state.cells.changed(cells)
        sent = self._state.cells.sent
        if changed:  # edges are checked only then, because the check is slow
            sent = self._state.cells.messages_of(cells)
        return Measured(
            form,
            words,
            cells,
            changed,
            sent,
            features,
            model,
            time,
            watch.move.seconds,
            advice is not None and self._rebalanced(advice, cells),
        )

    def _seconds(self, seconds: Any) -> float:
        """Return the seconds of this rank's work: timed or given."""
        if seconds is None:
            if not self._watch.work.used:
                raise DomainError(
                    "the step has no seconds: expected `with lb.timed()`, seconds= or loads="
                )
            return self._watch.work.seconds
        if self._watch.work.used:
            raise DomainError(
                f"seconds is {seconds!r}, but the step was timed: expected only one of the two"
            )
        return checks.seconds("seconds", seconds)

    def _rebalanced(self, advice: Advice, now: Cells) -> bool:
        """Say whether this rank followed the advice and timed the redistribution.

        If the rank did only one of the two, warn once.  If it is not known whether the rank
        followed the advice, only the timing counts.
        """
        timed = self._watch.move.used
        done = advice.was_carried_out(self._state.cells.keys, now.keys)
        if done is None or (done and timed):
            return timed
        if not self._said and (timed or done):
            what = (
                "was carried out, but not timed: expected `with lb.rebalancing()`"
                if done
                else "was not carried out: most cells are where they were"
            )
            log.warning("pylb: rank %d: the plan of step %d %s", advice.here, advice.step, what)
            self._said = True
        return False


def _shares(model: LoadModel, features: F64, seconds: float) -> F64:
    """Divide the rank's seconds between its cells, in proportion to what the model predicts."""
    share = features @ LoadModel.coefficients(model.sums)
    total = share.sum()
    return share / total * seconds if total > 0 else share


def _form(is_given: list[bool], arrays: dict[str, Any]) -> tuple[int, str]:
    """Return which arguments the program gave: as a code (0: no cells), and in words."""
    given = [*is_given, *(arrays[name] is not None for name in ARRAYS)]
    words = [name for name, there in zip((*WAYS, *ARRAYS), given, strict=True) if there]
    return sum(1 << i for i, there in enumerate(given) if there), f"advise({', '.join(words)})"

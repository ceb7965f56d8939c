"""The decider for Python: checked settings, and receipts in words.

The C core decides (``csrc/decide/decider.h``), in running programs, shadow mode and replays.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from pylb import _core
from pylb.console import seconds
from pylb.decide.receipts import Alternative, Dropped, History, Receipt
from pylb.decide.registry import Cycle, Trigger, of_arguments
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.network import Network
from pylb.model.snapshot import Snapshot
from pylb.partitioning import libraries
from pylb.placing.placement import CHOOSERS
from pylb.placing.registry import AUTO, Strategy, answer_of, find, strategies

log = logging.getLogger("pylb")
NOTHING, JUDGE, PREVIEW, BEGIN, BALANCE = _core.ASKS
ASKED_FOR = ("periodic", "python")  # triggers, by default obeyed even if LB steps do not pay
LEDGER = [row[1] for row in _core.ledger()]
FIGURES = _core.FIGURES  # names of the metrics of a placement, csrc/decide/decider.h
# Fields that only a receipt of the C core has; in `Receipt`, `choice` and `reason` say the same.
OF_THE_CORE = ("kind", "paid", "saved", "found", "off_until", "placed_by")

TriggerLike = str | Trigger | Callable[[Cycle], bool] | None
StrategyLike = str | Strategy | Callable[..., Any]


@dataclass(frozen=True)
class Settings:
    """The checked arguments of a decider."""

    strategy: Strategy  #: The strategy, or "auto".
    strategies: tuple[Strategy, ...]  #: The strategies to choose from; one if there is no choice.
    trigger: Trigger  #: A new trigger, which has observed no iteration.
    gives_up: bool  #: Whether LB steps are switched off when they do not pay.
    learns: bool  #: Whether the speeds of the ranks are learned.
    #: Whether pylb checks that the most recent LB step achieves the max/mean that it predicted.
    watches: bool
    #: An LB step moves only some objects, and further LB steps follow at once, if the next
    #: iteration would otherwise be longer by more than this fraction; 0: never.
    move_at_most: float = 0.0
    #: Whether the strategy, a Python function, may run in a thread during the next iteration.
    beside: bool = False
    seed: int = 0
    #: Variables that override the program's arguments, each as ``name=value``.
    environment: tuple[str, ...] = ()

    def said_by(self, word: str) -> str:
        """Return e.g. " (PYLB_TRIGGER)" if this variable sets the argument `word`, else ""."""
        name = f"PYLB_{word.upper()}"
        return f" ({name})" if any(row.startswith(f"{name}=") for row in self.environment) else ""

    @property
    def selects(self) -> bool:
        """Whether a strategy is chosen for each LB step."""
        return self.strategy.name == "auto"

    @property
    def foresees(self) -> bool:
        """Whether the expected cost of the first LB step is used, by the trigger or for slices."""
        return self.trigger.name not in ASKED_FOR or self.move_at_most > 0

    def load(self, distances: bool = False) -> None:
        """Load now the libraries that LB steps may need, so that loading them delays no LB step.

        Zoltan starts MPI, so with "auto" it is loaded only when it is chosen for the first time, or
        if there are `distances`, for which "auto" compares all strategies.
        """
        for s in self.strategies:
            if s.library and not (self.selects and s.library == "Zoltan" and not distances):
                libraries.load(s.library)

    def decider(
        self, n_ranks: int, network: tuple[float, float] = (0.0, 0.0), keep: int = 0
    ) -> Decider:
        """Make a decider that has observed no iteration; for the arguments see `Decider`."""
        return Decider(self, n_ranks, network, keep)


def settings(
    strategy: StrategyLike = "auto",
    *,
    every: int | None = None,
    trigger: TriggerLike = None,
    lag: float = 0,
    gives_up: bool | None = None,
    learn_speeds: bool | None = None,
    move_at_most: float = 0.0,
    beside: bool = False,
    seed: int = 0,
    environment: tuple[str, ...] = (),
    distributed: bool = False,
) -> Settings:
    """Check the arguments of a `Balancer` and fill in its defaults.

    With `beside`, a strategy in Python may run beside an iteration.  With `distributed`, "auto" may
    use a distributed strategy.
    """
    for name_of_flag, flag in (("pause_if_useless", gives_up), ("learn_speeds", learn_speeds)):
        if flag is not None:
            checks.flag(name_of_flag, flag, "True, False or None")
    when = of_arguments(every, "auto" if every is None and trigger is None else trigger)
    entry = find(strategy, auto=True)
    selects, freely = entry.name == "auto", when.name == "auto" and not lag
    candidates = registered() if selects else [entry]
    if selects and distributed:  # strategies that need to know the nodes run only if named
        every_one = strategies().values()
        candidates += [s for s in every_one if s.distributed and "nodes" not in s.looks_at]
    learns = bool(freely and selects if learn_speeds is None else learn_speeds)
    return Settings(
        strategy=entry,
        strategies=tuple(candidates),
        trigger=when,
        gives_up=when.name not in ASKED_FOR if gives_up is None else bool(gives_up),
        learns=learns,
        # A trigger that the user chose is never overruled.
        watches=learns and freely and not candidates[0].distributed,
        move_at_most=move_at_most if selects and not lag else 0.0,
        beside=beside and entry.call is not None and not lag,
        seed=seed,
        environment=environment,
    )


def registered() -> list[Strategy]:
    """Return the strategies from which "auto" chooses by default (Menon 2012, section 3.7)."""
    some = {"load", "communication"}
    return [s for s in strategies().values() if s.selectable and some & set(s.looks_at)]


def learns(learn_speeds: bool | None, speed: Any) -> bool | None:
    """Return whether to learn speeds: `learn_speeds`, or False if the user gives `speed`."""
    if speed is not None and learn_speeds:
        raise DomainError("learn_speeds is True and speed is given: expected only one of them")
    return learn_speeds if speed is None else False


class Ahead:
    """A strategy written in Python, which may run in a thread while the next iterations compute.

    Then the LB step comes after one or more of them, and uses the placement if the objects are the
    same.
    If the strategy fails in the thread, all objects stay in this LB step, and the program goes on.
    """

    def __init__(self, name: str, call: Callable[[Snapshot], Any]) -> None:
        self.__name__, self._call = name, call  # errors contain the name
        self._failed = False  # whether it has failed in a thread, which is reported once
        # The snapshot, and the placement that a thread makes; None: no thread has begun.
        self.begun: tuple[Snapshot, Future[Any]] | None = None

    def begin(self, snapshot: Snapshot) -> None:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(answer_of(self._call, snapshot))
            except BaseException as why:
                future.set_exception(why)

        self.begun = snapshot, future
        threading.Thread(target=run, name="pylb strategy", daemon=True).start()

    def __call__(self, snapshot: Snapshot) -> Any:
        begun, self.begun = self.begun, None
        if begun is None:
            return self._call(snapshot)
        then, future = begun
        why = future.exception()
        the_same = ("key", "rank", "migratable")
        if not all(np.array_equal(getattr(then, x), getattr(snapshot, x)) for x in the_same):
            return self._call(snapshot)
        if not isinstance(why, Exception):
            return future.result()
        if not self._failed:
            log.warning("pylb: %s; so this LB step moves nothing, and the program goes on", why)
        self._failed = True
        return snapshot.rank


class Decider:
    """Decides when to rebalance, and with which strategy; stores the receipts.

    `network` is (alpha, beta), seconds per message and per byte.  At most `keep` receipts are
    stored, 8 or more; 0: no limit.
    """

    # Receipts of LB steps before a checkpoint that the C core does not know, e.g. because the
    # number of ranks was different.
    before: Sequence[Receipt] = ()
    # The cost of an LB step in earlier runs (nan: not known), and a text that names the source.
    told: tuple[float, str] = (math.nan, "")

    def __init__(
        self, given: Settings, n_ranks: int, network: tuple[float, float], keep: int
    ) -> None:
        self.settings = given
        candidates = tuple(s.candidate for s in given.strategies)
        self.ahead: Ahead | None = None  # the strategy, if it may run beside an iteration
        if given.beside:
            call, name, *others = candidates[0]
            self.ahead = Ahead(name, call)
            candidates = ((self.ahead, name, *others),)
        self.core = _core.Decider(
            n_ranks=n_ranks,
            candidates=candidates,
            trigger=given.trigger,
            selects=given.selects,
            selection=(given.strategy if given.selects else AUTO).numbers,
            ledger=LEDGER,
            gives_up=given.gives_up,
            learns=given.learns,
            watches=given.watches,
            move_at_most=given.move_at_most,
            beside=given.beside,
            network=network,
            seed=given.seed,
            keep=keep,
        )

    def choose(self, reason: int = -1, n_objects: int = 0) -> Strategy:
        """Begin an LB step: choose its strategy, and load the libraries that the strategy needs.

        `reason` is the id of the trigger's reason (``plb_reason_t`` in csrc/decide/trigger.h), or
        -1: the most recent one.  `n_objects` is the number of objects on all ranks; 0: not known,
        so "auto" uses a central strategy.
        """
        indices = self.core.choose(reason, n_objects)
        for i in indices:
            if i >= 0 and (library := self.settings.strategies[i].library) is not None:
                libraries.load(library)
        return self.settings.strategies[indices[0]]

    @property
    def history(self) -> History:
        """The receipts so far; repeated decisions to wait share a receipt (`Receipt.times`)."""
        out = History([*self.before, *map(self.receipt, self.core.receipts())])
        out.dropped = Dropped(*self.core.dropped.values())
        return out

    @property
    def last(self) -> Receipt | None:
        """The receipt of the most recent LB step; None: there was none."""
        rows = self.core.receipts(True)
        if rows:
            return self.receipt(rows[0])
        return next((r for r in reversed(self.before) if r.balanced), None)

    def receipt(self, row: dict[str, Any]) -> Receipt:
        given = self.settings
        names = [s.name for s in given.strategies]
        out = receipt_of(row, names, given.trigger.name, given.seed)
        if (source := given.said_by("strategy")) and out.strategy and not out.why:
            out.why = f"the environment says so{source}"
        cost, words = self.told
        if out.figures.get("cost") == cost:
            out.reason += f"; an LB step is expected to cost {seconds(cost)} ({words})"
        return out


def receipt_of(row: dict[str, Any], strategies: Sequence[str], trigger: str, seed: int) -> Receipt:
    """Convert a receipt of the C core, which names strategies by their index in `strategies`."""
    fields = {k: v for k, v in row.items() if k not in OF_THE_CORE}
    kind, which = row["kind"], row["strategy"]
    if kind == "off":
        fields["reason"] = why_switched_off(row["paid"], row["saved"], row["off_until"])
    elif kind == "speeds":
        fields["reason"] = (
            "the trigger asked for no LB step, but better estimates of the ranks' speeds show that "
            f"one saves {seconds(row['found'])} per iteration"
        )
    fields["choice"] = "balance" if kind == "speeds" else kind
    fields["strategy"] = strategies[which] if which >= 0 else ""
    expected = [("", (0.0, 0.0)), *zip(strategies, row["alternatives"], strict=True)]
    fields["alternatives"] = tuple(Alternative(name, *figures) for name, figures in expected)
    return Receipt(**fields, trigger=trigger, seed=seed)


def why_switched_off(paid: float, saved: float, until: int) -> str:
    spent = f"the last LB steps cost {seconds(paid)} and saved {seconds(saved)}"
    return f"{spent}; they are switched off until iteration {until} at the latest"


def choose_and_place(
    snapshot: Snapshot, strategy: Strategy, seed: int, network: Network
) -> tuple[Any, ...]:
    """Place the objects by the strategy that `Balancer` would choose in its first LB step.

    Return the fields of a `Placement` up to `seconds`, the name of the strategy, and its reason.
    """
    given = settings(strategy, every=1, seed=seed, learn_speeds=False)
    decider = given.decider(snapshot.n_ranks, network)
    decider.core.see(snapshot)
    if snapshot.near is not None:
        given.load(distances=True)
    decider.choose()
    figures = np.zeros(len(FIGURES))
    speed = np.zeros(snapshot.n_ranks)
    rank = np.zeros(snapshot.n_objects, np.int32)
    decider.core.place(snapshot, None, None, figures, speed, rank)
    rank.flags.writeable = False
    moved = rank != snapshot.rank
    nbytes = 0 if snapshot.nbytes is None else int(snapshot.nbytes[moved].sum())
    seconds = float(figures[FIGURES.index("seconds_strategy")])
    decider.core.placed(figures, speed)
    decider.core.balanced(int(moved.sum()), nbytes, 0.0, seconds, True)
    r = decider.history[-1]
    metrics = (x.metrics._asdict() for x in (snapshot, snapshot.with_rank(rank)))
    return rank, *metrics, r.migrations, nbytes, seconds, r.strategy, r.why


CHOOSERS["auto"] = choose_and_place

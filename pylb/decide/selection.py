"""Select the strategy of an LB step (Menon 2012, section 3.7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.placing.registry import (
    AUTO,
    LOOKS_AT,
    Strategy,
    find,
    strategies,
    values_of,
)

PARAMS = AUTO.params
"""The parameters of the selection, with default, range, unit, and a help text with the source."""


class Choice(NamedTuple):
    """The strategy that the selection would use now, and why.

    Examples
    --------
    >>> selector = pylb.decide.Selector(alpha=2e-6, beta=1e-10)
    >>> choice = selector.observe(1.02, 1.0, total=8.0, utilization=0.9, messages=100, nbytes=10**6)
    >>> choice.needed
    False
    """

    #: Whether a strategy can help: the load is imbalanced, or ranks are idle and communication is
    #: intensive.  A `strategy` is chosen in any case, because a trigger may ask for an LB step.
    needed: bool
    strategy: str
    family: str  #: "comprehensive" or "refinement".
    kind: str  #: "computation" or "communication": which cost should be reduced.
    #: The kind of cost that the strategy reduces; not `kind` if no strategy reduces that.
    used: str
    #: Why a strategy is needed or not, and why it is of this family.
    need: str
    lead: str
    max_over_mean: float  #: max/mean of the ranks' loads; 1 if there is no load.
    utilization: float  #: Utilization of the least utilized rank, 0 ... 1.
    #: Cost of the messages in seconds (Menon 2012, eq. 3.6), and as a fraction of the total load.
    communication_s: float
    communication: float

    @property
    def reason(self) -> str:
        """Return the choice as a sentence."""
        instead = f"no {self.kind} strategy is registered, so a {self.used} one is used; "
        return f"{self.need}; {'' if self.used == self.kind else instead}{self.lead}"


class Experience(NamedTuple):
    """What the selector remembers about a strategy.

    Examples
    --------
    >>> selector = pylb.decide.Selector(alpha=2e-6, beta=1e-10)
    >>> selector.balanced("GreedyLB", before=1.5, after=1.02, cost=0.1, migrations=12)
    >>> selector.history()["GreedyLB"]
    Experience(n=1, before=1.5, after=1.02, cost=0.1, migrations=12)
    """

    n: int  #: Number of LB steps with this strategy.
    #: max/mean before and after the last LB step with this strategy; 0 if n is 0.
    before: float
    after: float
    #: Seconds of an LB step: the mean of the newest measurement and of the previous value.
    cost: float
    migrations: int  #: Migrations in the last LB step with this strategy.


class Selector:
    """Chooses the strategy of each LB step, as in Menon 2012, section 3.7 and figure 3.8.

    It reads no clock and sends nothing, so that the same calls give the same choices on all ranks,
    in a replay and in a simulation.

    Parameters
    ----------
    alpha, beta : float
        Cost of a message (seconds) and of a byte (seconds per byte), eq. 3.6.
    strategies : iterable of str, Strategy or callable, optional
        Strategies to choose from, the preferred ones first.  Default: the `selectable` ones of
        `pylb.strategies()` that look at load or communication.  A Python function is selectable if
        it was registered with `looks_at`.
    **params
        Parameters of the selection, see `pylb.decide.selection.PARAMS`.

    Raises
    ------
    DomainError
        There is no strategy to choose from, a strategy occurs twice, or a value is out of range.
    UnknownStrategyError
        There is no strategy of that name.

    Examples
    --------
    >>> selector = pylb.decide.Selector(alpha=2e-6, beta=1e-10)
    >>> choice = selector.observe(1.5, 1.0, total=8.0, utilization=0.6, messages=100, nbytes=10**6)
    >>> choice.strategy, choice.kind
    ('GreedyLB', 'computation')
    """

    def __init__(
        self,
        alpha: float,
        beta: float,
        *,
        strategies: Iterable[Any] | None = None,
        **params: float,
    ) -> None:
        alpha, beta = checks.seconds("alpha", alpha), checks.seconds("beta", beta)
        chosen = (
            registered()
            if strategies is None
            else [find(s) for s in checks.several("strategies", strategies, "a list of strategies")]
        )
        self.strategies = {s.name: s for s in chosen}
        if len(self.strategies) < len(chosen):
            raise DomainError(f"strategies are {[s.name for s in chosen]}: expected each once")
        self._names = list(self.strategies)
        values = values_of("selection", PARAMS, params)
        self.params = dict(zip((p.name for p in PARAMS), values, strict=True))
        self._core = _core.Selector([_row(s) for s in chosen], alpha, beta, values)

    def observe(
        self,
        max: float,
        mean: float,
        *,
        total: float,
        utilization: float,
        messages: int,
        nbytes: int,
    ) -> Choice:
        """Observe the measurements of an iteration, and return the choice after it.

        Parameters
        ----------
        max, mean, total : float
            Seconds: load of the most loaded rank, mean load, total load.
        utilization : float
            The lowest load / (load + idle) of a rank, 0 ... 1 (Menon 2012, section 3.4.3; eq. 3.2
            there calls the fraction of idle time utilization).
        messages, nbytes : int
            Messages between objects on different ranks, and their bytes.

        Raises
        ------
        DomainError
            A value is impossible.  The selector has not changed.
        """
        messages = checks.whole("messages", messages, 0, "a number")
        nbytes = checks.whole("nbytes", nbytes, 0, "a number")
        self._core.observe(max, mean, total, utilization, messages, nbytes)
        return self.choice

    @property
    def choice(self) -> Choice:
        """The choice after all iterations and LB steps observed so far."""
        state = self._core.choice()
        return Choice(strategy=self._names[state.pop("candidate")], **state)

    def balanced(
        self, strategy: str, *, before: float, after: float, cost: float, migrations: int
    ) -> None:
        """Record an LB step, with the chosen strategy or with another one.

        Parameters
        ----------
        strategy : str
            Name of the strategy that was used.
        before, after : float
            Time of the slowest rank divided by the mean load, before and after: 1 or more.  For a
            communication strategy, include the time of messages, which shows its gain.
        cost : float
            Seconds of the whole LB step.
        migrations : int
            Objects that changed their rank.

        Raises
        ------
        DomainError
            The selector does not know the strategy, or a value is impossible.  The selector has not
            changed.
        """
        if strategy not in self.strategies:
            raise DomainError(f"strategy is {strategy!r}: expected one of {', '.join(self._names)}")
        migrations = checks.whole("migrations", migrations, 0, "a number")
        self._core.balanced(self._names.index(strategy), before, after, cost, migrations)

    def history(self) -> dict[str, Experience]:
        """Return what the selector remembers about each strategy, by name."""
        rows = (Experience(*row) for row in self._core.records())
        return dict(zip(self._names, rows, strict=True))


def registered() -> list[Strategy]:
    """Return the strategies from which the selection chooses by default."""
    some = {"load", "communication"}
    return [s for s in strategies().values() if s.selectable and some & set(s.looks_at)]


def in_rounds() -> list[Strategy]:
    """Return the distributed strategies that "auto" uses if there are many objects.

    Strategies that need to know the nodes are left out; they run only if the user names them.
    """
    return [s for s in strategies().values() if s.distributed and "nodes" not in s.looks_at]


def _row(s: Strategy) -> tuple[bool, int]:
    return s.family == "refinement", sum(LOOKS_AT[word] for word in s.looks_at)

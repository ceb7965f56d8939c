"""The best schedule of LB steps for a recorded run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pylb import _core
from pylb.decide.registry import triggers
from pylb.decide.selection import registered
from pylb.errors import DomainError
from pylb.io.phases import Phases, check_trace
from pylb.model import checks
from pylb.placing.registry import Strategy, find
from pylb.replaying.replayed import Optimum, Replay, replay

PERIODS = (1, 2, 3, 5, 10, 20, 50)  # phases from one LB step to the next, see `_known`


def optimum(
    trace: Phases,
    strategy: str | Strategy | Callable[..., Any] | Iterable[Any] = "GreedyLB",
    *,
    cost: float,
    seed: int = 0,
    width: int = 64,
) -> Optimum:
    """Find the best schedule of LB steps for a recorded run.

    An LB step works as in `Trace.replay`: at the end of phase i it places the objects of phase
    i + 1 by the estimates of their loads at that time.  If there is one strategy, a replay of the
    schedule found takes exactly the time of the result.

    With GreedyLB, which ignores the present placement, the result is the best schedule, found by
    dynamic programming, unless loads depend on the rank or objects come back to their last rank.
    With other strategies, a beam search forward over the phases finds a schedule and a lower bound
    (csrc/replay/replay.h).  The schedule is the best one if the beam dropped no placement, i.e. if
    `width` is large enough.  No trigger and none of some fixed periods is better.

    Parameters
    ----------
    trace : Trace
    strategy : str, callable, `pylb.strategy`, or several of them
        As in `pylb.place`.  If there are several, each LB step may use a different one; ``"auto"``
        means all strategies from which `Balancer` chooses.
    cost : float
        Seconds of each LB step.
    seed : int
        Seed of strategies that draw random numbers.
    width : int
        For strategies that depend on the present placement: at the end of each phase, an LB step is
        tried from this number of placements, those that are reached in the shortest time.  A larger
        number finds better schedules and takes longer.

    Raises
    ------
    InfeasibleError, StrategyError
        The strategy found no placement, raised an error, or returned no placement.

    Examples
    --------
    >>> best = pylb.replaying.optimum(trace, "GreedyLB", cost=0.5)
    >>> best.exact, len(best.iterations)
    (True, 1)
    """
    entries = _entries(strategy)
    check_trace(trace)
    cost = checks.seconds("cost", cost)
    seed, width = checks.whole("seed", seed, 0), checks.whole("width", width, 1)
    auto = ["auto"] if isinstance(strategy, str) and strategy == "auto" else []
    options = {"cost": cost, "seed": seed}
    known = _known(trace, [*entries, *auto], options)
    alone = [e.name for e in entries] == ["GreedyLB"] and trace.measured is None
    best = None if alone else min(known, key=lambda run: run.time)
    # With several strategies, each one is tried alone first: the result bounds the joint search.
    for some in [*([e] for e in entries if len(entries) > 1), entries]:
        upper = math.inf if best is None else best.time
        time, when, bound, exact, steps = _core.trace_optimum(
            trace,
            tuple(e.candidate for e in some),
            cost,
            seed,
            width,
            upper,
        )
        if best is None or time < upper:
            names = tuple(some[k].name for k in (() if steps is None else steps))
            best = Optimum(time, when, cost, bound, True, names)
    assert best is not None
    if alone and not exact:
        best = min(best, *known, key=lambda run: run.time)
    # A run with "auto" learns the speeds of the ranks, so it can be faster than the bound, which
    # the search computes without them.
    return best._replace(bound=min(bound, best.time), exact=exact and best.exact)


def _entries(strategy: Any) -> list[Strategy]:
    if isinstance(strategy, str) and strategy == "auto":
        return registered()
    one = isinstance(strategy, str | Strategy) or not isinstance(strategy, Iterable)
    out = [find(s) for s in ([strategy] if one else strategy)]
    names = [e.name for e in out]
    if not out or len(set(names)) < len(names):
        raise DomainError(f"strategy is {names}: expected one or more names, each once")
    return out


def _known(trace: Phases, strategies: Iterable[Any], options: dict[str, Any]) -> Iterator[Optimum]:
    """Yield runs with fixed `PERIODS` and with each trigger, to compare with the found schedule."""
    for s in strategies:
        for every in PERIODS:
            yield _as_schedule(replay(trace, s, every=every, **options), options["cost"])
        for trigger in triggers():
            for tell in (True, False):
                run = replay(trace, s, trigger=trigger, tell=tell, **options)
                yield _as_schedule(run, options["cost"])


def _as_schedule(run: Replay, cost: float) -> Optimum:
    # `run.time` is not used: its sum of the costs has rounding errors.
    time = run.iteration_seconds + cost * len(run.lb_steps)
    when = np.array(run.lb_step_iterations, dtype=np.int64)
    names = tuple(r.strategy for r in run.lb_steps)
    return Optimum(time, when, cost, 0.0, run.strategy != "auto", names)

"""The Advisor: the class for a program that owns its data and its loop."""

from __future__ import annotations

import itertools
import logging
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.comm.agreement import Agreement, Attempt, Contribution, Step
from pylb.comm.connect import agreement_of
from pylb.comm.transport import Together
from pylb.decide.decider import StrategyLike, TriggerLike
from pylb.errors import DomainError, StateError, suggesting
from pylb.measure.load_model import LoadModel, features_of
from pylb.model import checks
from pylb.model.machine import NetworkLike
from pylb.model.snapshot import F64
from pylb.run.advice import Advice, Stopwatch
from pylb.run.cells import OPTIONAL, Cells, cells_of, loads_of
from pylb.run.loops import AdvisorLoop
from pylb.run.modes import AdvisingMode, AdvisorShadow, AdvisorState, Measured, MeasuringMode
from pylb.run.options import checked_count, loop_is_open, options_of
from pylb.run.results import RunResults

log = logging.getLogger("pylb")
WAYS = ("loads", "weights", "features")  # arguments that give the loads of cells
ARRAYS = ("keys", *OPTIONAL, "edges", "coords")


MODES: dict[str, type[Any]] = {"on": AdvisingMode, "shadow": AdvisorShadow, "off": MeasuringMode}


class Advisor(RunResults):
    """Advises a program with its own data and loop when to rebalance, and where cells should go.

    At the end of each step, the ranks call `advise` with the time of their work.  If rebalancing
    pays, `advise` returns an `Advice`.  The program then redistributes its data, and times this
    (`rebalancing`).

    - *When only*: a rank gives its seconds, and the program redistributes in its own way.
    - *When and where*: a rank also gives its cells, and the advice contains their new ranks.  If
      pylb chooses the strategy, the advisor measures in the first step what an LB step may cost.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, VirtualComm or torch.distributed.ProcessGroup, optional
        The ranks; pylb uses a duplicate of it (of a process group: a new group with gloo, which
        needs no GPU).  Only with MPI does `share` lend rows, and may `lag` be > 0.  None: one rank.
        These need no mpi4py: a communicator of any other module that has a method ``py2f()`` or an
        attribute ``handle``, and "world": all ranks of the MPI that the program has started.
    ranks : int, optional
        Number of ranks for which this process alone, e.g. the scheduler of a server, calls
        `advise`, without MPI.  It gives the seconds of all of them, and gets the advice that they
        would get under MPI.  Only for "when only", without `comm`.
    cost : float, optional
        With `ranks`: expected seconds of the first redistribution; pylb measures the later ones.
        Without `cost`, pylb must try an LB step first, which may cost more than it saves.
    strategy : str or callable
        How to place cells: a name of `pylb.strategies()`, a method of `pylb.partition` (e.g. "rcb",
        "hsfc", "scotch"; rank 0 calls it on all cells), or a function of a snapshot.  "auto":
        pylb chooses a strategy for each LB step (Menon 2012, 3.7).  Without cells, only "auto".
    mode : {"on", "shadow", "off"}
        "shadow" gives no advice, but computes what LB steps would have saved; only with cells.
        "off" only measures.
    lag : int
        0: at the end of each step all ranks wait for one another.  D > 0: a rank waits only for the
        statistics of D steps ago.
    clock : {"auto", "mpi", "wall", "cpu"}
        The clock of `timed`, as for `Balancer`.  "mpi" also measures the work of steps in which
        nothing is timed and no seconds are given.  Only in a program started by `pylb run`; there,
        "auto" is "mpi".
    learn_speeds : bool, optional
        As for `Balancer`; only with `loads`.
    memory_limit, node_memory_limit : optional
        As for `Balancer`.  A limit applies to the sum of the cells' `memory`, or, if `memory` is
        not given, to the sum of their `nbytes`.
    every, trigger, seed, pause_if_useless, speed, background, network, record, experience
        As for `Balancer`, with steps in place of iterations.

    Notes
    -----
    As with a `Balancer`, all ranks raise the error of one.  Environment variables such as
    ``PYLB_STRATEGY`` and ``PYLB_TRIGGER`` (a name, or a value of `every`) override the program's
    arguments.

    Examples
    --------
    When only (the two lines with ``with`` are not needed if `pylb run` starts the program):

    >>> lb, mesh = pylb.Advisor(comm), np.zeros(100)
    >>> for step in lb.iterate(20):
    ...     with lb.timed():
    ...         mesh += 1.0
    ...     if lb.advise():
    ...         with lb.rebalancing():
    ...             mesh = mesh.copy()  # here the code redistributes its data

    A server decides for other processes, whose seconds it knows:

    >>> lb = pylb.Advisor(ranks=4, cost=0.2)
    >>> for step in range(20):
    ...     if lb.advise(seconds=[1.0, 1.0, 1.0, 1.5]):
    ...         lb.rebalanced(0.2)  # seconds of the redistribution
    >>> lb.n_lb_steps
    1

    When and where:

    >>> lb, ids = pylb.Advisor(comm, every=5), np.arange(8)
    >>> for step in lb.iterate(20):
    ...     if plan := lb.advise(loads=1.0 + ids, keys=ids):
    ...         ids = plan.migrate(ids)
    >>> lb.n_lb_steps
    4
    """

    _state: AdvisorState
    _words = "cells", "steps"
    _loop: AdvisorLoop
    #: ``seconds()`` reads `clock`, in seconds, and never decreases.  The time of a cell is the
    #: difference of two readings.
    seconds: Callable[[], float]

    @suggesting
    def __init__(
        self,
        comm: Any = None,
        *,
        ranks: int | None = None,
        cost: float | None = None,
        strategy: StrategyLike = "auto",
        every: int | None = None,
        trigger: TriggerLike = None,
        mode: str = "on",
        lag: int = 0,
        clock: str = "auto",
        seed: int = 0,
        pause_if_useless: bool | None = None,
        learn_speeds: bool | None = None,
        speed: Any = None,
        background: Any = None,
        memory_limit: Any = None,
        node_memory_limit: Any = None,
        network: NetworkLike | None = None,
        record: bool | str | os.PathLike[str] = True,
        experience: str | os.PathLike[str] | None = None,
    ) -> None:
        arguments = {**locals()}
        agreement = agreement_of(comm)  # first, so that the other ranks learn of a later error
        del arguments["ranks"], arguments["cost"]
        if ranks is not None:
            if comm is not None:
                raise DomainError(f"ranks is {ranks!r}, and comm is given: expected only one")
            if lag:
                raise DomainError(f"lag is {lag!r}: expected 0 with ranks=, where no rank waits")
            agreement = Agreement(
                Together(checks.whole("ranks", ranks, 1, "a number of ranks", 1 << 31))
            )
            arguments["record"] = False
        elif cost is not None:
            raise DomainError(f"cost is {cost!r}: expected cost only together with ranks=")
        options = options_of(agreement, arguments, "Advisor")
        if not np.isfinite(options.lag):
            raise DomainError("lag is inf: expected a finite number of steps")
        for s in options.settings.strategies:
            if s.distributed:
                what = f"strategy is {s.name!r}, in which each rank decides on its own"
                raise DomainError(f"{what}: expected a strategy that sees all cells")
        self._state = AdvisorState(agreement, options)
        if cost is not None:
            self._state.cost = checks.seconds("cost", cost)
        self._mode: MeasuringMode = MODES[options.mode](self._state)
        self._watch = Stopwatch(options.clock)
        self.seconds = self._watch.clock.seconds
        self._comm = comm
        self._loop = AdvisorLoop(self._state, self._mode, self._watch)
        self._said = False  # whether `_rebalanced` has logged its warning

    def iterate(self, n: int) -> Iterator[int]:
        """Run `n` steps: ``for step in lb.iterate(n)``, with one `advise` in each.  Collective.

        In the first loop, the advisor knows how many steps remain.  A later call continues the
        count of steps.  A program with its own loop does not need `iterate`: each `advise` ends a
        step.
        """
        count = checked_count(n, self._state.options.lag)
        if self._loop.in_loop:
            raise loop_is_open()
        return self._loop.iterate(count)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Begin a phase of a step: ``with lb.phase("push"):`` around blocks of `timed`.

        All ranks wait for one another between two phases, so a step takes as long as the slowest
        rank of each phase, one after the other.  This rank's work in the phase is what is timed in
        the block; if nothing is timed and the clock is "mpi", it is the whole block.  To place
        cells by phases, give ``loads=`` of shape (n, d) to `advise`; otherwise their sums count.

        All ranks run the same phases, at most 8, in the same order and in every step; a phase that
        is entered several times in a step counts as one.  Then all timed work must be in a phase.

        Examples
        --------
        >>> lb = pylb.Advisor()
        >>> for step in lb.iterate(2):
        ...     for name in ("push", "deposit"):
        ...         with lb.phase(name), lb.timed():
        ...             pass
        ...     plan = lb.advise()
        >>> list(lb.phases)
        ['push', 'deposit']
        """
        return self._watch.phase(name)

    def timed(self) -> AbstractContextManager[None]:
        """Time this rank's work: ``with lb.timed(): ...``; the blocks of a step are added up.

        Do not include waiting for other ranks, e.g. the halo exchange.  A block that raises an
        error does not count.
        """
        return self._watch.work

    def advise(
        self,
        *,
        seconds: ArrayLike | None = None,
        loads: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        features: ArrayLike | None = None,
        keys: ArrayLike | None = None,
        nbytes: ArrayLike | None = None,
        memory: ArrayLike | None = None,
        migratable: ArrayLike | None = None,
        edges: tuple[ArrayLike, ...] | None = None,
        coords: ArrayLike | None = None,
        shared: tuple[ArrayLike, ...] | None = None,
        step: int | None = None,
        ahead: bool = False,
        partial: bool = False,
    ) -> Advice | None:
        """End a step: give its time, and get an `Advice` to rebalance, or None.  Collective.

        Redistribute the data at once, before the next step (`ahead`: before the step after it).

        There are four ways to give the time of this rank's work: `timed` or `seconds` alone ("when
        only"); `loads`; `weights` together with `timed` or `seconds`; `features` together with
        `timed` or `seconds`.  With the clock "mpi", neither `timed` nor `seconds` is needed.  All
        ranks give the same arguments, each for its own cells; a rank without cells gives empty
        arrays.  Arrays are only read.  They are sent to rank 0 only when all cells are needed
        there, e.g. for an LB step or for `save`.

        Parameters
        ----------
        seconds : float or (d,) array_like of float, optional
            Seconds of this rank's work in the step, instead of `timed`; (d,): in each of d phases
            (see `phase`).  With ``Advisor(ranks=p)``: (p,), the seconds of each rank.
        loads : (n,) or (n, d) array_like of float, optional
            Seconds of each cell in the step, or in each of d phases, e.g. measured by
            ``lb.seconds()``.  Their sum is the time of the rank's work.
        weights : (n,) array_like of float, optional
            Estimated work of each cell, in any unit; pylb converts it to seconds.
        features : (n, k) array_like of float, optional
            Features of each cell, e.g. its number of particles and the constant 1.  Its load is a
            sum of features times coefficients, 0 or more, fitted to the seconds of all ranks.
        keys : (n,) array_like of int, optional
            A unique 64-bit key for each cell, which it keeps when it moves.  Default: the key
            depends on rank and index, so a cell has another key after it has moved.
        nbytes, memory : (n,) array_like of int, optional
            Bytes that a migration of the cell sends, and that the cell occupies.
        migratable : (n,) array_like of bool, optional
            False: the cell stays on this rank.
        edges : (source keys, target keys, bytes[, messages]), optional
            Arrays (m,).  Each edge is what a cell of this rank sends to any cell in a step: bytes,
            and a whole number of messages (default: 1).  Needs `keys`.
        coords : (n, 1 ... 3) array_like of float, optional
            Position of each cell.
        shared : (ids, bytes) or (ids, bytes, home ranks), optional
            Arrays (n,): data that several cells share, as in `Balancer.add`; id -1: no data.
        step : int, optional
            The program's own index of the step; an error if it differs between ranks.
        ahead : bool
            True: if this call advises to rebalance, the data move while the next step computes
            (`Advice.migrate_begin`).  That step runs on the old placement: its `advise` describes
            the old cells, and returns None.  It must be the same in all steps.
        partial : bool
            True: the program's own redistribution removes only a part of the imbalance, e.g.
            because data go only to neighbours.  Then pylb advises one in each of several steps, as
            long as they repay their cost, and judges all of them as one.

        Examples
        --------
        >>> lb, ids = pylb.Advisor(comm), np.arange(4)
        >>> plan = lb.advise(loads=[1.0, 2.0, 1.0, 1.0], keys=ids, nbytes=[800] * 4)
        >>> print(plan)  # no LB step is due
        None
        """
        given, loop, measured = locals(), self._loop, None
        number = loop.step
        with Attempt() as tried:
            if step is not None:
                number = checks.whole("step", step, 0)
            loop.check_twice()
            measured = self._measured(given)
        with loop.telling():
            return loop.advice if loop.end_step(measured, tried.error, number) else None

    def _measured(self, given: dict[str, Any]) -> Measured:
        """Check the arguments of `advise`; return the measurements of this rank in the step."""
        step, advice = self._loop.step, self._loop.advice
        watch, seconds, arrays = self._watch, given["seconds"], {x: given[x] for x in ARRAYS}
        ahead = checks.flag("ahead", given["ahead"])
        partial = checks.flag("partial", given["partial"])
        watch.check_closed("advise()")
        loads, _, features = ways = [given[name] for name in WAYS]
        is_given = [x is not None for x in ways]
        if any(is_given) and isinstance(self._state.agreement.transport, Together):
            raise DomainError("cells are given with ranks=: expected only seconds= (or pylb.place)")
        if any(is_given) and partial:
            raise DomainError("partial is True, and cells are given: expected only one of them")
        if sum(is_given) > 1:
            raise DomainError("two of loads, weights and features: expected only one of them")
        # `form` encodes which arguments are given (0: no cells); `words` lists them in errors.
        names = (*WAYS, *ARRAYS, "ahead", "partial")
        there = [*is_given, *(x is not None for x in arrays.values()), ahead, partial]
        form = sum(1 << i for i, one in enumerate(there) if one)
        words = f"advise({', '.join(itertools.compress(names, there))})"
        model: LoadModel | None = None
        self._state.check(any(is_given), ahead)
        time, delay = watch.elapsed() if watch.work.used or watch.measures else (0.0, 0.0)
        if not any(is_given):
            extra = [name for name in ARRAYS if arrays[name] is not None]
            if extra:
                raise DomainError(f"{extra[0]} without cells: expected loads, weights or features")
            spent, parts = self._seconds(seconds)
            cells = Cells(np.array([spent]), spent, parts=parts[:, None], totals=parts)
        elif loads is not None:
            if seconds is not None:
                raise DomainError("seconds and loads are both given: expected only loads")
            seconds_of_cells, of_cells = loads_of(loads)
            if watch.parts and len(watch.parts) != len(of_cells):
                what = f"loads has shape {np.shape(loads)} in a step of {len(watch.parts)} phases"
                raise DomainError(f"{what}: expected (n, d), a load for each cell and phase")
            totals = np.array([_core.load_sum(part) for part in of_cells])
            cells = cells_of(seconds_of_cells, _core.load_sum(seconds_of_cells), **arrays)
            cells = cells._replace(parts=of_cells, totals=totals)
        else:
            way = "weights" if features is None else "features"
            features = features_of(given[way], way)
            model, k = self._state.model, features.shape[1]
            form, words = form + (k << 16), f"{words} of {k} columns"
            spent, parts = self._seconds(seconds)
            if model is None or len(model.sums) != k:
                model = LoadModel(k)
            model = model.observe(features, spent)
            # Each cell gets a part of the rank's seconds, in proportion to what the model predicts.
            share = features @ LoadModel.coefficients(model.sums)
            if (total := share.sum()) > 0:
                share = share / total * spent
            cells = cells_of(share, spent, **arrays)
            if len(parts):  # assume that a cell has the same share of the work in every phase
                of_cells = np.outer(parts, share / spent if spent > 0 else share)
                cells = cells._replace(parts=of_cells, totals=parts)
        phases = tuple(watch.parts) or tuple(map(str, range(len(cells.totals))))
        known = self._state.cells
        checks.same_phases(phases, known.phases, known.rank, "step", step)
        if phases:
            form += zlib.crc32(repr(phases).encode()) >> 1 << 32
            words += f" with the phases {', '.join(phases)} in step {step}"
        changed = any(is_given) and self._state.cells.changed(cells)
        sent = self._state.cells.sent
        if changed:  # other steps do not check the edges, because the check is slow
            sent = self._state.cells.messages_of(cells)
        if seconds is not None or loads is not None:
            delay = 0.0  # loads that the program has measured may include waits for a core
        sample = Contribution(
            *(Step.ADVISE, step, form),
            n_objects=len(cells.loads),
            loads=np.array([cells.seconds]),
            idle=time - delay - cells.seconds,
            messages=sent.messages,
            message_bytes=sent.nbytes,
            time=time,
            n_changed=int(changed),
            phases=cells.totals,
            n_phases=len(cells.totals),
            **({} if advice is None else self._outcome(advice, cells, changed)),
        )
        return Measured(sample, words, cells, sent, features, model, ahead, partial, phases)

    def _outcome(self, advice: Advice, now: Cells, changed: bool) -> dict[str, Any]:
        """Return how the redistribution went, as fields of a `Contribution`."""
        move = self._watch.move
        if advice.ahead:  # the redistribution goes on during the next step
            if changed:
                what = f"the cells are not those of step {advice.step}, which had ahead=True"
                raise DomainError(f"{what}: expected the same cells")
            return {}
        if advice.moves:
            raise StateError("advise() while cells are on their way: expected wait() before that")
        n_rebalanced = int(self._rebalanced(advice, now))
        return {"cost": move.seconds, "n_rebalanced": n_rebalanced, "hidden": move.hidden}

    def _seconds(self, seconds: Any) -> tuple[float, F64]:
        """Return the seconds of this rank's work, given or measured; and (d,), those by phase."""
        watch, none = self._watch, np.zeros(0)
        together = self._state.agreement.transport
        if isinstance(together, Together):
            n = together.size
            if watch.work.used or seconds is None:
                expected = f"one number for each of {n} ranks"
                raise DomainError(f"seconds is {seconds!r}: expected {expected}")
            told = checks.vector("seconds", seconds, n)
            checks.amounts("seconds", told)
            together.loads = told
            return float(told[0]), none
        watch.check_outside()
        if seconds is None:
            if watch.parts:
                parts = np.array(list(watch.parts.values()))
                return float(parts.sum()), parts
            if not watch.work.used and watch.measures:
                watch.work.add(watch.worked())
            if not watch.work.used:
                expected = "timed(), seconds= or loads=, or a program that `pylb run` has started"
                raise DomainError(f"the step has no seconds: expected {expected}")
            return watch.work.seconds, none
        if watch.work.used or watch.parts:
            raise DomainError(f"seconds is {seconds!r}, but the step was timed: expected only one")
        if np.ndim(seconds) == 0:
            return checks.seconds("seconds", seconds), none
        parts = checks.vector("seconds", seconds)
        checks.amounts("seconds", parts)
        if not 1 <= len(parts) <= _core.MOST_PHASES:
            expected = f"one for each of at most {_core.MOST_PHASES} phases"
            raise DomainError(f"seconds has {len(parts)} numbers: expected {expected}")
        return float(parts.sum()), parts

    def _rebalanced(self, advice: Advice, now: Cells) -> bool:
        """Return whether this rank followed the advice and timed the redistribution.

        If it did only one of the two, warn once.  If it is not known whether the rank followed the
        advice, only the timing counts.
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

    @staticmethod
    def inherit(
        loads: ArrayLike, parents: ArrayLike, children: ArrayLike, *, split: bool = True
    ) -> F64:
        """Return the expected loads, (m,) or (m, d), of the m cells of a changed mesh.

        After a mesh refinement, the seconds of the old cells give the loads of the new ones, so
        `advise` can balance these before they were computed.

        Parameters
        ----------
        loads : (n,) or (n, d) array_like of float
            Seconds of each old cell of this rank, or in each of d phases.
        parents, children : (k,) array_like of int
            Old cell ``parents[i]`` became, or became a part of, new cell ``children[i]``: indices
            of cells of this rank.  A cell that stays is in one pair; a cell that was refined, or
            that was merged from several, in several pairs.
        split : bool
            True: a parent's seconds are divided equally among its children, and what a child gets
            from several parents adds up.  False: a child takes as long as its parent, or the mean
            of several, e.g. if a cell costs the same at every level of refinement.

        Examples
        --------
        Cell 1 is refined, cells 2 and 3 are merged:

        >>> pylb.Advisor.inherit([1.0, 4.0, 2.0, 3.0], [0, 1, 1, 2, 3], [0, 1, 2, 3, 3])
        array([1., 2., 2., 5.])
        """
        loads_of(loads)  # checks the shape
        old = np.asarray(loads, np.float64)
        of = checks.integers("parents", parents, np.int64)
        to = checks.integers("children", children, np.int64)
        n = int(np.max(to, initial=-1)) + 1
        if of.shape != to.shape or np.any(to < 0) or np.any((of < 0) | (of >= len(old))):
            raise DomainError(
                f"parents and children have shapes {of.shape} and {to.shape}, and indices "
                f"{np.min(of, initial=0)} ... {np.max(of, initial=-1)} and "
                f"{np.min(to, initial=0)} ... {n - 1}: expected pairs of 0 ... {len(old) - 1} and "
                "0 ... number of new cells - 1"
            )
        for b in np.setdiff1d(np.arange(min(n, to.size + 1)), to)[:1]:
            raise DomainError(f"new cell {b} has no parent: expected each one in children")
        parts = np.bincount(of)[of] if checks.flag("split", split) else np.bincount(to)[to]
        out = np.zeros((n, *old.shape[1:]))
        np.add.at(out, to, (old[of].T / parts).T)
        return out

    def share(self, fn: Callable[..., Any], *arrays: ArrayLike, **options: Any) -> Any:
        """Return ``fn(*arrays)``; other ranks may compute some of the rows.  Collective.

        See `Sharer.share` for the arguments.  What this rank computes, its own rows and those of
        others, counts as its work in this step.
        """
        self._watch.check_closed("share()")
        sharer, began = self._sharer, self.seconds()
        out = sharer.share(fn, *arrays, **options)
        self._watch.shared(began, sharer.worked)
        return out

    def rebalancing(self) -> AbstractContextManager[None]:
        """Time the redistribution that was advised: ``with lb.rebalancing(): ...``.

        The time of the block is the cost of the LB step.  If the block raises an error, it does not
        count, and the advice was not followed.  With the clock "mpi" and without cells, no block is
        needed: the cost is estimated from the lengths of the next two steps.
        """
        self._check_advised("rebalancing()")
        return self._watch.move

    def rebalanced(self, seconds: float) -> None:
        """Report, instead of `rebalancing`, that this rank's redistribution took `seconds`."""
        self._check_advised("rebalanced()")
        self._watch.move.add(checks.seconds("seconds", seconds))
        self._watch.resume()

    def _check_advised(self, what: str) -> None:
        if self._loop.advice is None:
            raise StateError(f"{what}: the previous advise() has not advised to rebalance")

    def finish(self) -> None:
        """End the program's own loop: complete its pending steps and the record.  Collective.

        With `iterate`, it is needed only after ``break``.  Further steps may follow.  All ranks
        call `finish` for several advisors in the same order; otherwise they wait forever.
        """
        self._loop.close()

    @property
    def iteration(self) -> int:
        """Index of the present step; the first is 0."""
        return self._loop.step

    @property
    def coefficients(self) -> F64 | None:
        """Seconds per unit of each feature or weight, (k,), fitted to the steps of this rank only.

        (LB steps use a fit to all ranks.)  None if `advise` was given neither features nor weights.
        """
        model = self._state.model
        return None if model is None else LoadModel.coefficients(model.sums)

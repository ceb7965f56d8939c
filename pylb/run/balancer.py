"""The Balancer: the class for a program whose objects belong to pylb."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.comm.agreement import Attempt, Step
from pylb.comm.connect import agreement_of
from pylb.console import count
from pylb.decide.decider import StrategyLike, TriggerLike
from pylb.errors import DomainError, DuplicateKeyError, StateError, UnknownKeyError, suggesting
from pylb.model import checks
from pylb.model.machine import Machine, NetworkLike
from pylb.model.objects import checked
from pylb.model.snapshot import I32
from pylb.run import progress as bar
from pylb.run.checkpoint import checkpoint, restore
from pylb.run.clocks import phase_clock
from pylb.run.local_objects import LocalObjects, key_of
from pylb.run.loops import AtSync, BalancerLoop, LaggedLoop
from pylb.run.modes import BalancingMode, MeasuringMode, ReplayingMode, RunState, ShadowMode
from pylb.run.options import checked_count, no_messages, options_of
from pylb.run.results import RunResults


class NoMessages:
    """Replaces `_core.Mail` if the Balancer has a lag: all calls raise StateError."""

    def __init__(self, lag: float) -> None:
        self._lag = lag

    def __getattr__(self, name: str) -> NoReturn:
        raise no_messages("send" if name == "post" else name, self._lag)


MODES: dict[str, type[MeasuringMode]] = {
    "on": BalancingMode,
    "replay": ReplayingMode,
    "shadow": ShadowMode,
    "off": MeasuringMode,
}


class Balancer(RunResults):
    """The objects of a parallel program, their messages, and their load balancing.

    A program adds its objects (`add`), runs its iterations by ``for it in lb.iterate(n)``, and
    within an iteration its objects by ``for key, block in lb.local()``.  The time of the inner
    loop's body is the object's load.  At the end of an iteration, the ranks exchange messages of
    the objects, and statistics, in one collective step.  If the trigger then asks for an LB step,
    the objects get new ranks and migrate.

    Results do not depend on the placement if objects communicate only by messages: an object's
    inbox is sorted by source, then by the order of sending, wherever the sender lives.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or VirtualComm, optional
        The ranks; pylb uses a duplicate of it.  None: one rank, without MPI.  For programs without
        mpi4py see `Advisor`.
    strategy : str or callable
        How to place objects: a name of `pylb.strategies()`, or a function of a snapshot.  "auto":
        pylb chooses a strategy for each LB step (Menon 2012, 3.7).
    every : int, optional
        Number of iterations from one LB step to the next.
    trigger : str, callable or Trigger, optional
        When to rebalance: a name of `pylb.triggers()`, or a function of a `Cycle` that returns the
        same on all ranks.  Default: ``"auto"``.
    mode : {"on", "shadow", "off"}
        "shadow" moves nothing, and computes what LB steps would have saved.  "off" only measures.
    lag : int or inf
        0: at the end of each iteration all ranks wait for one another, and messages are delivered.
        D > 0: a rank waits only for the statistics of D iterations ago, and the program does its
        own communication; sensible values are 2 to 8.  inf: see `AsyncBalancer`.
    clock : {"auto", "wall", "cpu", "mpi"}
        The clock that times objects.  "wall": elapsed time.  "auto": elapsed time without waits
        for a core that other processes had, if the system can tell.  "cpu": processor time.  "mpi":
        like "auto", also without MPI calls; only in a program that `pylb run` has started.
    load : callable, optional
        ``load(key, block)`` returns the load of an object in the iteration, in any unit; it is used
        instead of the object's time.
    seed : int
        Seed for strategies that draw random numbers.
    learn_speeds : bool, optional
        Learn the speeds of the ranks from the times of objects on different ranks, in a few LB
        steps, for the strategies; not in shadow mode.  Default: True if pylb chooses both the
        strategy and when to rebalance, `lag` is 0, and no `speed` is given.
    speed : float, (p,) array_like, Machine or callable, optional
        Relative speeds of the ranks, if they are known: the speed of this rank, that of each rank,
        or a function that returns the speed of this rank and is called before each LB step.
    background : float, (p,) array_like or callable, optional
        Seconds per iteration that a rank spends on other work than its objects; they are part of
        the rank's load.  A function is called at the start of each loop and before each LB step.
    memory_limit : int, (p,) array_like, callable or "auto", optional
        Bytes that the objects of a rank may occupy; `add` says how much each occupies.  "auto":
        the rank's share of the memory of the machine, or of the control group of the process, minus
        the memory that the process uses now.  If no placement respects the limits, rank 0 warns
        once, and no rank above its limit gets more bytes than it already has.
    node_memory_limit : int, (p,) array_like or callable, optional
        Bytes that the objects of all ranks of a node may occupy together, given on each rank of the
        node.  A distributed strategy divides them equally among the ranks.
    pause_if_useless : bool, optional
        Stop LB steps as long as they cost more than they save, and try again from time to time.
        Default: True, unless `every` or a function of yours decides when to rebalance.
    network : (alpha, beta), "measure", Machine or path, optional
        Seconds per message and per byte, for "auto" and other strategies with these parameters.
        Default: measured in the first loop, for "auto" only.  "measure": call `Machine.measure`
        before the first iteration; a `pylb.Machine`, or a file of `Machine.save`, has earlier
        measurements.  Then strategies that read communication know that nodes are distant.
    overlap : {"auto", True, False}
        Whether objects migrate while the program goes on: they are in the store of their new rank
        at once, with their messages, but their data arrive during the next iteration, while the
        other objects compute.  "auto": if a rank sends another one at least 1 MiB, and at least
        4 KiB for each of its objects, and `lag` is 0.  Until the end of that iteration, the
        program must not change data of an object that has left this rank.  A slow strategy written
        in Python then also runs in a thread, and the LB step comes when the following iterations
        have taken as long as the strategy usually does.
    move_at_most : float
        If objects migrate while the program goes on, with strategy "auto": the largest fraction by
        which an iteration may become longer than the one before the LB step.  If all migrations
        would take longer, an LB step moves only those objects that save the most time per byte, and
        further LB steps follow at once (`Receipt.slice`, `Receipt.moves_left`).
    record : bool or path
        True: store the loads of all iterations in memory (at most 64 MiB per rank) for `save`.  A
        path: write them to that file during the run, which needs lag=0.
    experience : path, optional
        A file in which runs of the program store what they learn (mode "on"), for later runs on as
        many ranks.  Each balancer of a program needs its own.
    replay : path, optional
        File of a run, written by `save` or `record`: repeat the LB steps of that run at the same
        iterations and with the same placements, whatever the present loads are.  Needs lag=0.

    Notes
    -----
    A method is collective (all ranks must call it) if its description says "Collective".  If the
    program of one rank raises, ends or leaves the loop early, the other ranks raise, too.

    Examples
    --------
    >>> lb = pylb.Balancer(comm, strategy="GreedyLB", every=10)
    >>> for key in range(lb.rank, 64, lb.n_ranks):
    ...     lb.add(key, [0.0])
    >>> for it in lb.iterate(100):
    ...     for key, block in lb.local():
    ...         block[0] += len(lb.inbox(key))
    ...         lb.send((key + 1) % 64, key, block)
    >>> lb.report().n_objects, lb.report().iterations
    (64, 100)
    """

    _loop: BalancerLoop

    @suggesting
    def __init__(
        self,
        comm: Any = None,
        *,
        strategy: StrategyLike = "auto",
        every: int | None = None,
        trigger: TriggerLike = None,
        mode: str = "on",
        lag: float = 0,
        clock: str = "auto",
        load: Callable[[int, Any], float] | None = None,
        seed: int = 0,
        pause_if_useless: bool | None = None,
        learn_speeds: bool | None = None,
        speed: ArrayLike | Machine | Callable[[], float] | None = None,
        background: ArrayLike | Callable[[], float] | None = None,
        memory_limit: ArrayLike | Callable[[], int] | str | None = None,
        node_memory_limit: ArrayLike | Callable[[], int] | None = None,
        network: NetworkLike | None = None,
        overlap: bool | str = "auto",
        move_at_most: float = 0.05,
        record: bool | str | os.PathLike[str] = True,
        experience: str | os.PathLike[str] | None = None,
        replay: str | os.PathLike[str] | None = None,
    ) -> None:
        arguments = {**locals()}
        agreement = agreement_of(comm)  # first, so that the other ranks learn of a later error
        options = options_of(agreement, arguments, "Balancer")
        given = options.settings
        obeys = all(candidate.call is None for candidate in given.strategies)
        objects = LocalObjects(agreement, options.clock, load, given.learns, obeys)
        self._objects, self._lag = objects, options.lag
        no_mail = NoMessages(options.lag)
        self._mail = cast(_core.Mail, no_mail) if options.lag else objects.mail
        self._state = RunState(agreement, options, objects)
        self._mode = MODES["replay" if replay is not None else options.mode](self._state)
        self._loop = (LaggedLoop if options.lag else BalancerLoop)(self._state, self._mode)
        self._comm = comm

    # ---- objects and messages --------------------------------------------------------------------

    def add(
        self,
        key: int,
        block: Any,
        *,
        nbytes: int = 0,
        memory: int | None = None,
        migratable: bool = True,
        work: float | None = None,
        coords: ArrayLike | None = None,
        shared: tuple[int, ...] | None = None,
    ) -> None:
        """Add an object to this rank; within ``iterate``, it takes part from the next iteration on.

        Parameters
        ----------
        key : int
            A unique 64-bit integer that identifies the object on all ranks.  If it exists on
            another rank, all ranks raise DuplicateKeyError before the next iteration.
        block : object
            Any value; if it cannot be pickled, it stays on this rank.  It belongs to the balancer
            from now on: a migration replaces it by a copy.
        nbytes : int
            Bytes that a migration sends.  0: pylb measures them by packing some of the objects.
        memory : int, optional
            Bytes that the object occupies.  Default: the bytes that a migration sends.
        migratable : bool
            False: the object stays on this rank.
        work : float, optional
            Your own estimate of the object's work, above 0, in any unit.  With
            ``learn_speeds=True``, the speeds of the ranks can then be estimated before any object
            has moved.
        coords : (1 ... 3,) array_like of float, optional
            The object's position, for strategies that read it (RCBLB, HSFCLB); missing dimensions
            are 0.  Give it for all objects, or for none.
        shared : (id, bytes) or (id, bytes, home rank), optional
            Data that several objects share, e.g. a part of a mesh: the id of the data, their bytes,
            which each rank with such objects stores once, and the rank where the data are at home.
            ``memory_limit`` counts the bytes (not distributed strategies); CCMLB also counts the
            communication with the home.  The program moves these data itself.
        """
        objects, key = self._objects, key_of(key)
        if objects.has(key):
            raise DuplicateKeyError(f"key {key} was added twice on rank {self.rank}")
        properties = {"nbytes": nbytes or None, "memory": memory, "work": work, "coords": coords}
        properties |= {"shared": shared}
        if migratable is not True:
            properties["migratable"] = checks.flag("migratable", migratable)  # also None
        objects.add(key, block, checked(properties))

    def update(
        self,
        key: int,
        *,
        nbytes: int | None = None,
        memory: int | None = None,
        migratable: bool | None = None,
        work: float | None = None,
        coords: ArrayLike | None = None,
        shared: tuple[int, ...] | None = None,
    ) -> None:
        """Change properties of an object of this rank, see `add`.  None: no change."""
        key = self._key_here(key)
        properties = {"nbytes": nbytes, "memory": memory, "migratable": migratable, "work": work}
        self._objects.update(key, checked({**properties, "coords": coords, "shared": shared}))

    def remove(self, key: int) -> Any:
        """Remove an object of this rank, and the messages to it; return the object.

        Within ``iterate``, it is removed at the end of the iteration.
        """
        return self._objects.remove(self._key_here(key))

    def _key_here(self, key: int) -> int:
        """Check that this rank has the object, and return its key as an int."""
        key = key_of(key)
        if not self._objects.has(key):
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        return key

    def _again(self, why: UnknownKeyError, call: Callable[..., Any], *arguments: Any) -> Any:
        """Repeat a failed call of the mail if objects came or went between two loops."""
        if self._objects.in_loop or not self._objects.arrange():
            raise UnknownKeyError(f"{why} {self.rank}") from None
        return call(*arguments)

    def local(self) -> Iterator[tuple[int, Any]]:
        """Yield (key, object) for the objects of this rank, ascending by key; time each loop body.

        The times of several loops in one iteration are added up.  In the first loop after an LB
        step, large objects that have come to this rank are last, because their data arrive while
        the other objects compute.
        """
        objects = self._objects
        if not objects.in_loop:
            objects.arrange()
        elif objects.stale and objects.join is not None:
            objects.join()
        return objects.local()

    def phase(
        self, name: str, *, clock: Callable[[], float] | str | None = None
    ) -> AbstractContextManager[None]:
        """Begin a phase of an iteration: ``with lb.phase("push"):`` around loops over `local`.

        All ranks wait for one another between two phases, e.g. because they exchange data there.
        So an LB step should balance each phase, not only their sum.  With ``strategy="auto"``, it
        does so where this is at least 5 % better than the sum (`Receipt.by_sum`).  "VectorLB" and
        your own functions get the loads of all phases, (n, d); other strategies place by the sum.

        Parameters
        ----------
        name : str
            All ranks run the same phases, at most 8, in the same order and in every iteration; a
            phase that is entered several times in an iteration counts as one.  Then every loop over
            `local` must be in a phase.
        clock : callable or "cuda", optional
            Times the loop bodies of this phase.  A function without arguments returns seconds, e.g.
            how long a device has computed so far.  "cuda": CuPy, PyTorch or Numba (the one that
            the program has imported) records an event before and after each body on its present
            stream; pylb reads the seconds between the events at the end of the iteration.
        """
        objects = self._objects
        if objects.load is not None:
            raise StateError(f"phase() with load={objects.load!r}: expected a Balancer without it")
        if not objects.in_loop or objects.join is not None:  # `join`: a loop of `begin`
            raise StateError("phase() outside iterate(): expected it within an iteration")
        return objects.phase(name, phase_clock(clock))

    def load(self, key: int, /, **seconds: float) -> None:
        """Give the seconds of an object, measured by the program itself, e.g. on a device.

        The name of an argument is a phase that has begun in this iteration; the seconds replace the
        time that `local` measures for the object in this phase.  The seconds of several calls are
        added up.

        Examples
        --------
        >>> lb = pylb.Balancer()
        >>> lb.add(0, "an object")
        >>> for it in lb.iterate(2):
        ...     with lb.phase("cpu"):
        ...         for key, block in lb.local():
        ...             pass  # also begins work on a device
        ...     with lb.phase("gpu"):
        ...         lb.load(0, gpu=0.5)  # when the device has finished
        >>> lb.phases["gpu"].max
        array([0.5, 0.5])
        """
        place = self._objects.places.find(key_of(key))
        if place < 0:
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        self._objects.give(key, place, seconds)

    def rank_of(self, key: int) -> int:
        """Return the rank where an object lives, if this rank knows it, or raise UnknownKeyError.

        A rank knows its own objects, those to which it has sent messages, and those for which it
        has called `ranks_of`.  Migrations update this knowledge.  In an LB step, a rank may forget
        objects to which it has sent no message since the previous LB step, except those for which
        it has called `ranks_of`.
        """
        objects, key = self._objects, key_of(key)
        if objects.has(key):
            return self.rank
        rank = int(objects.addresses.find(np.array([key]))[0])
        if rank < 0:
            what = f"no such object known on rank {self.rank}"
            raise UnknownKeyError(f"key {key}: {what}; ranks_of() asks all ranks")
        return rank

    def ranks_of(self, keys: ArrayLike) -> I32:
        """Return the ranks, (n,), of the objects with these `keys`, (n,).  Collective.

        Each rank asks for any keys, or none; from then on, its `rank_of` knows these objects, even
        after they have migrated.  If there is no such object, every rank raises UnknownKeyError.
        An object that was added on another rank is known only from the next loop or iteration on.
        """
        return self._objects.ranks_of(checks.integers("keys", keys, np.int64))

    def send(self, target: int, source: int, data: Any, *, copy: bool = True) -> None:
        """Send `data` from object `source` on this rank to object `target` on any rank.

        The message is in the target's inbox in the next iteration, or after the next `exchange`.
        Between two loops, it comes in addition to the messages of the last iteration.  If the
        target does not exist, all ranks raise UnknownKeyError at the next exchange of messages, and
        the messages of that iteration are dropped.

        `data` is any value that can be pickled; later changes do not affect the message.  With
        ``copy=False``, `data` are not copied, and the caller promises that neither sender nor
        receiver modifies them.  If they cannot be pickled, then all ranks raise at that exchange.
        """
        if copy is not True:
            checks.flag("copy", copy)
        try:
            self._mail.post(target, source, data, copy)
        except UnknownKeyError as why:
            self._again(why, self._mail.post, target, source, data, copy)

    def multicast(
        self, targets: Iterable[int], source: int, data: Any, *, copy: bool = True
    ) -> None:
        """Send `data` from object `source` on this rank to several objects on any ranks.

        The receivers get the same messages as from a `send` to each of `targets`, which may include
        the source; an object that is named twice gets the data twice.  But this rank copies and
        packs the data only once, and sends them only once to each rank with receivers.  There, each
        receiver gets a copy; with ``copy=False``, they share the data, and the caller promises that
        neither sender nor receivers modify them.

        LB steps take this into account: the cost of a multicast grows with the number of ranks that
        it reaches (`pylb.model.Multicasts`).  If this rank does not know where a receiver is, the
        data go to the receiver's home, the rank that always knows; so they can reach a rank twice,
        but the receiver gets them once.

        Examples
        --------
        >>> lb = pylb.Balancer()
        >>> for key in range(4):
        ...     lb.add(key, None)
        >>> for it in lb.iterate(2):
        ...     got = [lb.inbox(key) for key, _ in lb.local()]
        ...     lb.multicast([1, 2, 3], 0, "halo")
        >>> got
        [[], [(0, 'halo')], [(0, 'halo')], [(0, 'halo')]]
        """
        checks.flag("copy", copy)
        try:
            self._mail.multicast(targets, source, data, copy)
        except UnknownKeyError as why:
            self._again(why, self._mail.multicast, targets, source, data, copy)

    def inbox(self, key: int) -> list[tuple[int, Any]]:
        """Return the messages, (source, data), that were delivered last to an object of this rank.

        They are sorted by source; the messages of one source are in the order of sending.
        """
        try:
            return self._mail.inbox(key)
        except UnknownKeyError as why:
            return cast(list[tuple[int, Any]], self._again(why, self._mail.inbox, key))

    # ---- the loop ----------------------------------------------------------------------------

    def iterate(self, n: int, *, progress: bool = False) -> Iterator[int]:
        """Run `n` iterations: ``for it in lb.iterate(n)``.  Collective, with the same `n`.

        A later call continues the count of iterations.  With `progress`, rank 0 shows the progress
        on standard error: a bar on a terminal, else a line for each tenth of the iterations.
        """
        number = checked_count(n, self._lag)
        checks.flag("progress", progress)
        passes = self._loop.iterate(number)
        return bar.shown(self._said, passes, number) if progress and self.rank == 0 else passes

    def _said(self) -> str:
        """Return the text of the progress bar."""
        self._loop.take()
        row = self._state.records.figures.last
        ratio = row.max / row.mean if row and row.mean > 0 else 1.0
        return f"max/mean {ratio:.2f}, {count(self.n_lb_steps, 'LB step')}" if row else ""

    def exchange(self) -> None:
        """Deliver all messages sent so far, in the middle of an iteration.  Collective.

        Call it if the second part of an iteration reads messages that the first one has sent.  The
        loads of the parts are added up.  Raises StateError outside ``iterate`` or with a lag.
        """
        self._loop.exchange()

    def share(
        self,
        fn: Callable[..., Any],
        *arrays: ArrayLike,
        keys: ArrayLike | None = None,
        **options: Any,
    ) -> Any:
        """Return ``fn(*arrays)``; other ranks may compute some of the rows.  Collective.

        Call it outside ``local()``.  What this rank computes, its own rows and those of others,
        counts as the load of its objects, so LB steps see the imbalance after lending.

        `keys`, (n,), is the object of this rank to which each row belongs: the rank's seconds are
        divided among these objects, by the times of their rows; by default, among all its objects,
        equally.  With `load`, `keys` is an error.  For the other arguments see `Sharer.share`.
        """
        sharer, objects = self._sharer, self._objects
        if not objects.in_loop:
            objects.arrange()
        rows = checks.integers("keys", [], np.int64)
        with Attempt() as tried:
            if keys is not None:
                rows = checks.integers("keys", keys, np.int64)
                n = np.shape(arrays[0])[0] if arrays and np.ndim(arrays[0]) else 0
                if rows.shape != (n,):
                    raise DomainError(f"keys has shape {rows.shape}: expected ({n},)")
                if self._state.options.load is not None:
                    raise DomainError("keys has no effect with load=: expected only one of them")
                absent = rows[objects.places.places(rows) < 0]
                if len(absent):
                    raise UnknownKeyError(f"key {absent[0]}: no such object on rank {self.rank}")
        if tried.error is not None:
            sharer.fail(tried.error)
        out, parts = sharer.share(fn, *arrays, **options), np.ones(len(objects))
        if len(rows):
            parts = sharer.seconds_of(objects.places.places(rows), len(objects))
        if len(parts):
            objects.seconds += parts * (sharer.worked / parts.sum())
        return out

    def finish(self) -> None:
        """End a loop that the program has left by ``break``, or after an error.  Collective.

        The next loop, `rank_loads`, `report` with a path, `save` and `checkpoint` do this, too.
        With a lag, call it before a collective call of the program itself, because other ranks may
        need this rank to end the loop.  Only this call ends a loop of `AsyncBalancer.begin` early.
        Without a lag, call it if the file of ``record=path``, the gain of the last LB step, or the
        results of shadow mode should include the last iterations.
        """
        self._loop.finish()

    def checkpoint(
        self,
        path: str | os.PathLike[str],
        *,
        pack: Callable[[int, Any], Any] | None = None,
        pickled: bool = False,
    ) -> None:
        """Write all objects, their messages and what was learned, so that `restore` can continue.

        Collective.  Call it between two loops, or, with lag=0, at the beginning of an iteration,
        before the first `local`, `add`, `remove` or `send`; otherwise, in shadow mode, or with
        `replay`, it raises StateError.  Each rank writes a file into a folder; the previous
        checkpoint stays there until the new one is complete, also after an error.

        `path` is the folder; it is made if there is none.  ``pack(key, block)`` returns the object
        as a plain value, which consists of numbers, texts, bytes, NumPy arrays, and lists, tuples
        and dicts of these; by default, the object itself must be such a value.  With `pickled`,
        objects and messages are pickled instead; `restore` then executes code from the files.
        """
        checkpoint(self._state, self._mode, self._loop, path, pack, pickled)

    @classmethod
    def restore(
        cls,
        comm: Any,
        path: str | os.PathLike[str],
        *,
        unpack: Callable[[int, Any], Any] | None = None,
        pickled: bool = False,
        **options: Any,
    ) -> Balancer:
        """Make a balancer that goes on from a checkpoint, on any number of ranks.  Collective.

        It has the objects and their messages; `iteration` is how many iterations are complete.

        `path` is the folder that `checkpoint` was given; ``unpack(key, value)`` returns the object,
        given the value that `pack` returned; `pickled` is True if the checkpoint is pickled, and
        reading it then executes code from the files.  `options` are those of `Balancer`, without
        `replay` and shadow mode, and with ``record=False``, which is the default here.
        """
        arguments = {"record": False, **options}
        lb = agreement_of(comm).together(Step.RESTORE, lambda: cls(comm, **arguments))
        restore(lb._state, lb._mode, path, unpack, pickled)
        return lb

    @property
    def iteration(self) -> int:
        """Number of complete iterations, including those before a checkpoint."""
        self._loop.take()
        return self._state.records.done


class AsyncBalancer(Balancer):
    """A balancer whose objects each run at their own pace, like AtSync of Charm++.

    The program calls `begin` once; then each object reports the end of its iterations by `at_sync`,
    whose result says whether the object may go on.  If a rank runs its objects one after the other,
    `lb.iterate(n)` of a `Balancer` with a `lag` is simpler.  Here, `lag`, above 0, is the number of
    iterations by which an object may be ahead of the statistics; inf (the default) stands for 64.

    Examples
    --------
    >>> lb = pylb.AsyncBalancer(comm, load=lambda key, block: 1.0)
    >>> lb.add(7, "an object")
    >>> lb.begin(3)  # three iterations
    >>> lb.at_sync(7)  # object 7 has finished its first iteration
    <AtSync.GO: 'go'>
    """

    _loop: LaggedLoop

    def __init__(self, comm: Any = None, *, lag: float = math.inf, **options: Any) -> None:
        super().__init__(comm, lag=lag, **options)
        if not lag:
            raise DomainError("lag is 0: expected a number above 0, so that objects can be ahead")

    def begin(self, n: int) -> None:
        """Begin a loop of `n` iterations that each object runs at its own pace.  Collective.

        Every object of this rank may then run its first iteration, and reports the end of each
        iteration by `at_sync`.  Shadow mode has no such loop.
        """
        self._loop.begin(n)

    def at_sync(self, key: int | None = None) -> AtSync:
        """Report that an object has finished its iteration, and ask what to do next.

        Call it again with the same key to ask again.  The call never waits for other ranks.  The
        object's load in the iteration is the result of the function `load`, or else the time that
        ``local()`` has measured for the object.

        Without a key, ask for this rank: the answer is PAUSE, BALANCE or END.  Every rank, even one
        without objects, must call ``at_sync()`` until it returns END.  If nothing has happened
        since the previous call, ``at_sync()`` sleeps for a moment.
        """
        return self._loop.at_sync(key)

    def lb_step(self) -> None:
        """Rebalance, after `at_sync` has answered BALANCE.  Collective.

        Afterwards ``local()`` yields the objects of this rank, and each may begin its next
        iteration.  If the program itself keeps data of an object, it must move them to the new rank
        (``rank_of``).
        """
        self._loop.lb_step()

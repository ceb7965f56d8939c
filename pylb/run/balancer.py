"""The Balancer: what a program talks to."""

from __future__ import annotations

import hashlib
import logging
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pylb import _core
from pylb.comm.agreement import Kind
from pylb.comm.connect import agreement_of
from pylb.comm.parcel import pack_mail, size_of, unpack_mail
from pylb.comm.transport import NO_LOADS, Sample, Sends, Stats
from pylb.decide.decider import BALANCE, LOOK, WEIGH, books, settings
from pylb.decide.receipts import History
from pylb.errors import DomainError, OutOfRangeError, StateError, UnknownKeyError
from pylb.io.h5 import SUFFIXES as RECORD_SUFFIXES
from pylb.io.run_record import Loop, Stretch
from pylb.model.network import Network
from pylb.model.snapshot import F64
from pylb.run.again import Again
from pylb.run.asynchronous import Asynchronous
from pylb.run.messages import Mailbox, Message
from pylb.run.migration import Balancing
from pylb.run.objects import Changes, Directory, Item, Store, key_of
from pylb.run.recording import EVERY, GATHER, LATEST, Recording, Scribe
from pylb.run.report import Iterations, Log, Report, Row, check_suffix
from pylb.run.shadow import Shadow
from pylb.run.sizes import Sizes
from pylb.run.worth import Worth
from pylb.show import live, page
from pylb.show.course import Course, of_stretches

log = logging.getLogger("pylb")


class Balancer(Asynchronous):
    """The objects of a parallel program, their messages, and their balancing.

    A program gives its objects to the balancer (`add`), then runs its iterations in
    ``for it in lb.iterate(n)`` and its objects in ``for key, block in lb.local()``.  Each body of
    the inner loop is timed: that is the object's load.  At the end of each pass of the outer loop
    the ranks exchange the objects' messages and the statistics of the iteration in one collective
    step; where the trigger says so the objects are placed anew and moved.

    Results do not depend on the placement as long as the objects only talk through messages: an
    object's inbox is sorted by (source, order of sending), wherever the sender lives.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or VirtualComm, optional
        The ranks; pylb works on a duplicate of its own.  None: one rank, without MPI.
    strategy : str or callable
        Where objects go: a name of `pylb.strategies()`, or a function of a snapshot.  "auto":
        chosen among the registered ones for each balancing, as `pylb.Selector` does.
    every : int, optional
        Balance after every so many iterations.
    trigger : str, optional
        When to balance: a name of `pylb.triggers()`.  Default: ``"auto"``.
    mode : {"on", "shadow", "off"}
        "shadow" measures and decides, but moves nothing, and tells what balancing would have saved.
        "off" only measures.
    lag : int or inf
        0: at the end of each pass all ranks wait for one another, and messages are delivered.
        D > 0: the statistics of a pass are reduced while the program goes on, and a rank waits
        only for those of D passes ago; for programs that communicate on their own.  2 to 8 are
        sensible.  inf: no limit; only for `begin` and `at_sync`.
    clock : {"wall", "cpu"}
        By which the objects are timed.  "cpu" leaves out what other processes took.
    load : callable, optional
        ``load(key, block)``: the load of an object in the pass, in seconds or any other unit,
        instead of the measured time.
    seed : int
        For strategies that draw random numbers.
    unlike : bool, optional
        The ranks may be of different speeds (power caps, other programs, other processors): learn
        them from where objects have been, and give the strategies work and speeds in place of
        seconds.  It takes a few balancings, and objects whose work does not change together with
        their place.  A shadow run and distributed strategies do without.  Default: where pylb
        chooses both the strategy and when to balance, and `lag` is 0.
    give_up : bool, optional
        Switch balancing off as long as it costs more than it saves, and look again now and then.
        Default: unless `every`, or a function of one's own, says when to balance.
    network : (alpha, beta), optional
        Seconds per message and per byte, for strategy "auto".  Default: measured in the first loop.
    record : bool or path
        Keep the loads of all iterations in memory (64 MiB a rank) for `save`; or write them into
        that file as they come, so that it is there whatever happens to the program.  With lag=0.
    replay : path, optional
        A run that `save` or `record` wrote: its balancings are done again, at the same iterations
        and to the same placements, whatever the loads are now.
    strategy_params, trigger_params : mapping, optional
        Parameters of the strategy (of the selection, for "auto") and of the trigger.

    Attributes
    ----------
    rank, n_ranks : int
    iterations : Iterations
        Time, max, mean and max/mean of every iteration so far, the same on every rank.
    history : History
        A receipt for each decision, the same on every rank.

    Raises
    ------
    MPIError
        The communicator was freed; pylb and mpi4py use different MPIs.
    UnknownStrategyError, DomainError
        No such strategy or trigger; a parameter that is out of its domain.

    Notes
    -----
    `iterate`, `exchange`, `save`, `report` to a file and `rank_loads` are collective.  A rank whose
    program raises, ends or leaves the loop early ends the others with an error that says so; where
    they do not come to the balancer within ``PYLB_ABORT_AFTER`` seconds (10) the failing rank
    aborts all.

    Examples
    --------
    >>> lb = pylb.Balancer(MPI.COMM_WORLD, strategy="GreedyLB", every=10)
    >>> for key in range(lb.rank, 64, lb.n_ranks):
    ...     lb.add(key, Block(key))
    >>> for it in lb.iterate(100):
    ...     for key, block in lb.local():
    ...         block.update(lb.inbox(key))
    ...         lb.send((key + 1) % 64, key, block.edge)
    >>> print(lb.report())
    """

    def __init__(
        self,
        comm: Any = None,
        *,
        strategy: str | Callable[..., Any] = "auto",
        every: int | None = None,
        trigger: str | None = None,
        mode: str = "on",
        lag: float = 0,
        clock: str = "wall",
        load: Callable[[int, Any], float] | None = None,
        seed: int = 0,
        give_up: bool | None = None,
        unlike: bool | None = None,
        network: tuple[float, float] | None = None,
        record: bool | str | os.PathLike[str] = True,
        replay: str | os.PathLike[str] | None = None,
        strategy_params: Mapping[str, Any] | None = None,
        trigger_params: Mapping[str, Any] | None = None,
    ) -> None:
        self._agreement = agreement_of(comm)  # first: from here on an error reaches all ranks
        self._transport = self._agreement.transport
        self._mode = _one_of("mode", mode, ("on", "shadow", "off"))
        self._lag = _lag_of(lag)
        self._load = load
        given = settings(
            strategy,
            every=every,
            trigger=trigger,
            lag=self._lag,
            gives_up=give_up,
            unlike=unlike,
            seed=operator.index(seed),
            strategy_params=strategy_params,
            trigger_params=trigger_params,
        )
        self._network = None if network is None else Network(*network)
        if self._lag and (replay is not None or not isinstance(record, bool)):
            raise DomainError(f"lag is {lag}: expected 0 with record=path and with replay=path")
        if replay is not None and mode != "on":
            raise DomainError(f"mode is {mode!r}: expected 'on' with replay=path")
        self._again = None if replay is None else Again(replay, self.n_ranks)
        self._decider = self._again or given.decider(self.n_ranks)
        self._parameters = {
            "strategy": given.name,
            "strategy_params": given.strategy_params,
            "trigger": given.trigger.name,
            "trigger_params": given.trigger.params,
            "mode": mode,
            "clock": clock,
            "load": "given" if load else None,
            "seed": seed,
            "give_up": given.gives_up,
            "unlike": given.learns,
            "lag": self._lag,
            "record": record is not False,
            "replay": replay is not None,
        }
        self._words = ", ".join(f"{name}={value!r}" for name, value in self._parameters.items())
        self._store = Store(_one_of("clock", clock, ("wall", "cpu")))
        self._changes = Changes()
        self._mailbox = Mailbox()
        self._sizes = Sizes()
        self._directory = Directory()
        self._worth = Worth(self._agreement, self._store, self._directory)
        self._recording = Recording(self._agreement, self._store, self._mailbox)
        self._scribe: Scribe | None = None
        if not isinstance(record, bool):
            self._scribe = Scribe(record, self._agreement, self._directory, self._parameters)
        self._records = record is not False
        self._shadow: Shadow | None = None
        if mode == "shadow":
            self._shadow = Shadow(self._agreement, self._store, self._mailbox, self._sizes)
        self._kept = [self._recording] if self._records else []  # what keeps the loads
        if self._shadow is not None:
            self._kept.append(self._shadow.recording)
        self._in_loop = False
        self._due = False  # a balancing that the last pass of a loop has left to the next loop
        self._done = 0  # iterations
        self._rows = Log()
        self._loops: list[Loop] = []
        self._clock_pace = float(getattr(self._transport, "pace", 1.0))
        self._loads: list[float] = []  # of this rank
        self._idle = self._seconds = 0.0
        self._resumed = 0.0
        self._unwritten = 0.0  # seconds of iterations that a record on disk has not

    # ---- objects -----------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This rank."""
        return self._transport.rank

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return self._transport.size

    def add(
        self,
        key: int,
        block: Any,
        *,
        nbytes: int = 0,
        memory: int | None = None,
        migratable: bool = True,
        work: float | None = None,
    ) -> None:
        """Give an object to the balancer, on the rank where it shall begin.

        Parameters
        ----------
        key : int
            Its name, 64 bits, the same wherever it lives; no other object has it.
        block : object
            Anything that can be pickled.  The balancer's from now on: after a migration the
            object is another one.
        nbytes : int
            What a migration sends; 0: measured, by packing some of the objects.
        memory : int, optional
            Bytes that it occupies.
        migratable : bool
            False: it stays on this rank.
        work : float, optional
            Your own estimate of its work, in any unit, above 0: with ``unlike=True`` the ranks'
            speeds are then known before anything has moved.

        Raises
        ------
        UnknownKeyError
            There is an object of that key.  Where that is on another rank, all ranks raise at the
            start of the loop.

        Notes
        -----
        Within ``iterate`` it takes part from the next pass on.
        """
        key = key_of(key)
        if self._lives(key):
            rank = self._directory.rank_of.get(key, self.rank)
            raise UnknownKeyError(
                f"key {key} was added twice: on rank {rank} and on rank {self.rank}"
            )
        for name, value in (("nbytes", nbytes), ("memory", memory)):
            if value is not None and operator.index(value) < 0:
                raise DomainError(f"{name} is {value}: expected zero or more bytes")
        if work is not None and not 0.0 < float(work) < math.inf:
            raise DomainError(f"work is {work!r}: expected a number above 0")
        self._changes.new[key] = Item(
            key,
            block,
            operator.index(nbytes),
            -1 if memory is None else operator.index(memory),
            bool(migratable),
            0.0 if work is None else float(work),
            self.rank,
        )
        self._stale = self._in_loop
        if not self._in_loop:
            self._store.items[key] = self._changes.new[key]

    def remove(self, key: int) -> Any:
        """Take an object of this rank away from the balancer, with the messages to it.

        Within ``iterate`` it goes at the end of the pass.

        Returns
        -------
        object
            The object.

        Raises
        ------
        UnknownKeyError
            No such object on this rank.
        """
        key = key_of(key)
        item = self._changes.new.pop(key, None)
        if item is None and key not in self._changes.gone:
            item = self._store.items.get(key)
        if item is None:
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        self._changes.gone.add(key)
        self._stale = self._in_loop
        if not self._in_loop:
            del self._store.items[key]
        return item.value

    def _lives(self, key: int) -> bool:
        changes = self._changes
        known = key in self._store.items or key in self._directory.rank_of
        return key in changes.new or (known and key not in changes.gone)

    def local(self) -> Iterator[tuple[int, Any]]:
        """The objects of this rank, (key, object), in increasing order of key; each body is timed.

        Several loops in one pass add up.
        """
        if self._changes and not self._in_loop:
            self._store.arrange()
        elif self._stale and self._running is not None and self._running.each:
            self._join()
        return iter(self._store.recorder)

    def rank_of(self, key: int) -> int:
        """The rank where an object lives.

        Raises
        ------
        UnknownKeyError
            No such object; one that was added elsewhere is known from the next loop on.
        """
        key = key_of(key)
        rank = self._directory.rank_of.get(key)
        if rank is None:
            if key not in self._store.items:
                raise UnknownKeyError(f"key {key}: no such object")
            rank = self.rank
        return rank

    # ---- messages ----------------------------------------------------------------------------

    def send(self, target: int, source: int, data: Any, *, copy: bool = True) -> None:
        """Send `data` from object `source`, which lives here, to object `target`, anywhere.

        It is in the target's inbox in the next pass, or after the next `exchange`.

        Parameters
        ----------
        data : object
            Anything that can be pickled.  Its value at this moment is sent.
        copy : bool
            False: the caller promises that neither sender nor receiver will modify it, and saves
            the copy.

        Raises
        ------
        UnknownKeyError
            No such target (before the first loop: at its start), or the source lives elsewhere.
        """
        self._delivers("send")
        if source not in self._store.items:
            raise UnknownKeyError(f"source {source}: no such object on rank {self.rank}")
        if self._in_loop and target not in self._directory.rank_of:
            raise UnknownKeyError(
                f"target {target} of a message from object {source}: no such object"
            )
        self._mailbox.post(key_of(target, "target"), key_of(source, "source"), data, copy)

    def inbox(self, key: int) -> list[tuple[int, Any]]:
        """The messages that were sent to an object of this rank before the last exchange.

        Returns
        -------
        list of (source, data)
            Sorted by source, and the messages of one source in the order of sending.

        Raises
        ------
        UnknownKeyError
            No such object on this rank.
        """
        self._delivers("inbox")
        if key not in self._store.items:
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        return self._mailbox.inbox.get(key, [])

    def exchange(self) -> None:
        """Deliver the messages that were sent so far, in the middle of a pass.  Collective.

        For an iteration of several phases, one of which needs what the objects have sent in the one
        before: the phases' loads add up to one iteration's.

        Raises
        ------
        StateError
            Called outside of ``iterate``; the ranks are in different places.
        RemoteError
            Another rank has failed or ended.
        """
        self._delivers("exchange")
        if not self._in_loop:
            raise StateError("exchange() outside of iterate(): it delivers in the middle of a pass")
        self._exchange(Kind.MESSAGES)

    def _delivers(self, name: str) -> None:
        if self._lag:
            raise StateError(
                f"{name}() with lag={self._lag}: only with lag=0 are messages delivered, at the "
                "end of each pass"
            )

    # ---- the loop ----------------------------------------------------------------------------

    def iterate(self, n: int, *, progress: bool = False) -> Iterator[int]:
        """Run `n` iterations: ``for it in lb.iterate(n)``.  Collective, with the same `n`.

        A later call goes on counting where the last one ended.

        Parameters
        ----------
        n : int
        progress : bool
            Rank 0 shows on standard error how far all ranks are: a bar on a terminal, else a line
            for each tenth.

        Raises
        ------
        UnknownKeyError
            A key was added on two ranks; a message sent before the loop has no target.
        DomainError
            The ranks were given different arguments; a load of the user's own is NaN or negative.
        StateError
            The ranks are in different places; a loop is under way.
        RemoteError
            Another rank has failed or ended.
        SerializationError
            An object that has to migrate cannot be pickled; nothing has moved.
        StrategyError
            A strategy of the user's own has raised or returned no placement.
        """
        try:
            count = operator.index(n)
        except TypeError:
            count = -1
        if count < 0:
            raise DomainError(f"n is {n!r}: expected a number of iterations, 0 or more")
        if math.isinf(self._lag):
            raise DomainError(
                "iterate() with lag=inf: a rank that waits in a receive of its own would wait for "
                "ever; expected a number, or begin() and at_sync(key)"
            )
        passes = self._passes(count) if self._lag else self._iterate(count)
        return live.progress(self, passes, count) if progress and self.rank == 0 else passes

    def _iterate(self, n: int) -> Iterator[int]:
        if self._in_loop:
            raise StateError("iterate() within iterate(): a loop is under way")
        begin = _core.clock()
        self._in_loop = True
        try:
            self._start(n)
            for left in range(n - 1, -1, -1):
                self._agreement.at = f"in iteration {self._done}"
                yield self._done
                self._at_sync(is_last=left == 0)
            self._weigh()
            self._cut()  # between loops objects come and go at once
            self._reflect()
            self._write()
            self._agreement.at = f"after iteration {self._done - 1}"
        finally:
            self._in_loop = False
            self._seconds += _core.clock() - begin

    def _start(self, n: int) -> None:
        """Agree on the arguments, learn the new objects, deliver what was sent before."""
        self._decider.core.abandon()  # what an error has left unanswered in the loop before
        words = f"iterate({n}), {self._words}"
        digest = hashlib.blake2b(words.encode(), digest_size=8).digest()
        arguments = (int.from_bytes(digest, "big") >> 1, words)
        stats, _ = self._agreement.step(
            Kind.START,
            self._done,
            arguments,
            n_changed=len(self._changes),
            messages=len(self._mailbox.outbox),
        )
        if stats.n_changed:
            self._learn()
        if stats.messages:
            self._exchange(Kind.FIRST_MESSAGES)
        if self._done == 0 and self._mode == "on" and self._decider.settings.selects:
            self._decider.core.network(*self._priced())
        # Only the first loop tells the end: after it the program may go on as often as it likes.
        foreseen = self._foresee()
        self._loops.append(Loop(self._done, n, foreseen, *self._prices(), self._clock_pace))
        self._decider.core.expect(n if self._done == 0 else None, foreseen)
        if self._shadow is not None:
            self._shadow.begin(self._decider.settings, self._loops[-1], self._lag)
        if self._again is not None:
            self._again.check_length(self._done + n)
        if self._due:
            self._balance()
        if self._again is not None and n:
            self._again.check_objects(self._done, self._directory, self._directory.rank)
        self._write()
        self._store.seconds.fill(0.0)
        self._resumed = _core.clock()

    def _foresee(self) -> float:
        """What a first balancing may cost, the same on every rank; nan where it is known better."""
        given = self._decider.settings
        if self._mode == "off" or not (given.foresees and self._decider.core.foresees):
            return math.nan
        items = self._store.items
        nbytes = sum(item.nbytes for item in items.values())
        knows = given.selects or self._mode == "shadow"
        price = self._priced() if knows else (0.0, 0.0)
        mine = _core.first_cost(*price, self._sizes.handling, len(items), nbytes, self.n_ranks)
        return self._agreement.step(Kind.FORESEE, self._done, cost=mine)[0].cost_max

    def _prices(self) -> tuple[float, float, float, float]:
        """What messages, bytes, packing an object and the rest of a balancing cost; nan where that
        was not measured.
        """
        if self._shadow is not None:
            return self._all_prices() if not self._loops else self._loops[-1][3:7]
        known = self._network or self._agreement.known_network or Network(math.nan, math.nan)
        return (*known, self._sizes.handling, math.nan)

    def _all_prices(self) -> tuple[float, float, float, float]:
        """All of them, also what a balancing costs where nothing moves.  Collective."""
        steps = self._balancing().rehearse()
        most, _ = self._agreement.step(Kind.RECORDS, self._done, cost=self._sizes.handling)
        return (*self._priced(), most.cost_max, steps)

    def _priced(self) -> Network:
        """What messages cost: as given, else measured once.  Collective."""
        return self._agreement.network() if self._network is None else self._network

    def _learn(self) -> None:
        """The objects that were added and removed, on all ranks, and all ranks know it.

        Raises
        ------
        UnknownKeyError
            A key was added on two ranks.
        """
        for recording in self._kept:
            recording.change()
        changes, self._changes = self._changes, Changes()
        self._store.change(changes)
        new, gone = changes.share(self._transport)
        self._mailbox.forget(gone)
        self._directory.remove(gone)
        self._directory.add(new)
        self._store.arrange()
        if self._mode != "off" or self._records:
            self._sizes.measure(self._store)

    def _at_sync(self, is_last: bool) -> None:
        """The end of a pass: exchange messages and statistics, decide, balance."""
        passed = _core.clock() - self._resumed
        stats = self._exchange(Kind.SYNC, passed)
        mean = stats.load_sum / stats.n_ranks
        idle = stats.idle_sum / stats.n_ranks
        self._rows.append(
            Row(
                stats.time_max,
                stats.load_max,
                mean,
                idle,
                stats.utilization_min,
                stats.load_min,
                stats.messages,
                stats.message_bytes,
            )
        )
        self._done += 1
        if stats.n_changed:
            self._learn()
        self._due = self._mode == "on" and self._decide(stats, is_last)
        if self._due and not is_last:
            self._balance()
        if self._again is not None and stats.n_changed and not is_last:
            self._again.check_objects(self._done, self._directory, self._directory.rank)
        self._unwritten += stats.time_max  # which is the same on all ranks
        if (self._done % EVERY == 0 or self._unwritten > LATEST) and not is_last:
            self._write()
        if self._done % EVERY == 0 and not is_last and self._shadow is not None:
            self._shadow.follow(self._rows.table())
        self._resumed = _core.clock()

    def _decide(self, s: Stats, is_last: bool) -> bool:
        """Whether to balance after this iteration."""
        asked = self._decider.core.observe(
            self._done - 1,
            s.time_max,
            s.load_max,
            s.load_sum / s.n_ranks,
            s.load_min,
            s.load_sum,
            s.utilization_min,
            s.messages,
            s.message_bytes,
        )
        return self._carry_out(asked, not is_last)

    def _carry_out(self, asked: bool, may_look: bool) -> bool:
        """Answer what the decider asks; whether to balance."""
        core = self._decider.core
        ask = core.next(asked, may_look)
        if ask == WEIGH:
            was_off = core.books[0]
            core.weigh(self._worth.gain(self._done - 1))
            if self.rank == 0 and core.books[0] != was_off:
                self._say_switched()
            ask = core.next(asked, may_look)
        if ask == LOOK:
            ask = core.looked(self._balancing().look())
        return bool(ask == BALANCE)

    def _say_switched(self) -> None:
        off, paid, saved, until = self._decider.core.books
        said = books(paid, saved, until) if off else "balancing pays again, and is switched on"
        log.warning("pylb: after iteration %d: %s", self._done - 1, said)

    def _weigh(self) -> None:
        """What the last balancing has saved so far goes onto its receipt."""
        if self._mode == "on" and self._decider.core.weighs:
            self._decider.core.weigh(self._worth.gain(self._done - 1))

    def _exchange(self, kind: Kind, passed: float = 0.0) -> Stats:
        """Deliver the messages of all ranks; in the same step, the statistics of a pass."""
        store, is_sync = self._store, kind is Kind.SYNC
        error: Exception | None = None
        sends: Sends = []
        own: list[Message] = []
        loads, nbytes, messages = store.seconds, 0, 0
        try:
            if is_sync and self._load is not None:
                self._ask_loads(self._load)
            if self._mailbox.outbox:
                own, sends, messages = self._outgoing()
                nbytes = sum(size_of(parts) for _, parts in sends)
        except Exception as why:
            error = why
            loads = NO_LOADS
        begin = _core.clock()
        sample = Sample(
            kind,
            self._done,
            0,
            error is not None,
            len(store.items),
            loads,
            self._idle,
            messages,
            nbytes,
            passed,
            n_changed=len(self._changes) if is_sync else 0,
        )
        stats, received = self._agreement.take(sample, sends, error)
        waited = _core.clock() - begin
        self._idle = waited if is_sync else self._idle + waited
        self._mailbox.deliver([own, *(unpack_mail(parts) for _, parts in received)])
        if is_sync:
            self._end_pass()
        return stats

    def _outgoing(self) -> tuple[list[Message], Sends, int]:
        """The messages of the pass: to this rank, packed for the others, how many those are."""
        outgoing = self._mailbox.collect(self._directory.rank_of)
        own = outgoing.pop(self.rank, [])
        sends: Sends = [(rank, pack_mail(mail)) for rank, mail in outgoing.items()]
        return own, sends, sum(map(len, outgoing.values()))

    def _end_pass(self) -> None:
        self._loads.append(_core.exact_sum(self._store.seconds))
        for recording in self._kept:
            recording.keep()
        self._store.end_pass()

    def _keepers(self) -> list[Recording]:
        return self._kept

    def _cut(self) -> None:
        """Objects, or their places, change behind the last pass."""
        for recording in self._kept:
            recording.cut()

    def _reflect(self) -> None:
        """Shadow mode catches up, and all ranks know what it has found."""
        if self._shadow is not None:
            self._shadow.follow(self._rows.table())
            self._shadow.share()

    def _ask_loads(self, load: Callable[[int, Any], float]) -> None:
        for i, key in enumerate(self._store.items):
            self._store.seconds[i] = self._given(load, key)

    def _balance(self, reason: int = -1) -> None:
        """Balance after the iteration that was last observed; all ranks do.

        reason: number of the verdict, where it was an earlier iteration's.
        """
        self._due = False
        if self._again is not None:
            self._again.check_objects(self._done, self._directory)
        self._weigh()
        self._cut()
        self._worth.remember()
        self._worth.learn(self._balancing().run(reason))

    def _balancing(self) -> Balancing:
        return Balancing(
            self._agreement,
            self._store,
            self._mailbox,
            self._directory,
            self._decider,
            self._done - 1,
        )

    # ---- what happened -----------------------------------------------------------------------

    @property
    def iterations(self) -> Iterations:
        """Figures of every iteration so far, the same on every rank."""
        self._take()
        return Iterations.of(self._rows.table())

    @property
    def shadow(self) -> Iterations:
        """The iterations as they would have been, balanced: in shadow mode, up to the last loop's
        end; the same on every rank.

        The loads are those that were measured, on the ranks where the objects would have been; all
        else of an iteration takes as long as it did.

        Raises
        ------
        StateError
            In another mode.
        """
        if self._shadow is None:
            raise StateError(f"shadow with mode={self._mode!r}: only mode='shadow' knows")
        return Iterations.of(self._shadow.rows.table())

    @property
    def last_row(self) -> Row | None:
        """Figures of the last iteration that this rank knows of; None before the first."""
        return self._rows.last

    @property
    def n_balancings(self) -> int:
        """Balancings so far."""
        if self._shadow is not None:
            return len(self._shadow.history.balancings)
        return self._decider.core.n_balancings

    @property
    def history(self) -> History:
        """A receipt for each decision, the same on every rank: balancings, and where the trigger
        weighed one and held back.
        """
        return self._decider.history if self._shadow is None else self._shadow.history

    def explain(self, i: int = -1) -> str:
        """Decision number `i` of `history` in sentences.

        Raises
        ------
        OutOfRangeError
            There is no such decision.
        """
        history = self.history
        if not -len(history) <= i < len(history):
            raise OutOfRangeError(f"i is {i}: expected one of {len(history)} decisions")
        return history[i].explain()

    def rank_loads(self) -> F64:
        """The load of every rank in every iteration, (iterations, p) float64.  Collective.

        Raises
        ------
        StateError
            Called within a loop with a lag.
        """
        if self._running is not None and self._in_loop:
            raise StateError(
                f"rank_loads() within a loop with lag={self._lag}: the ranks know of different "
                "iterations"
            )
        self._finish()
        self._agreement.step(Kind.RECORDS, self._done)
        every = self._transport.allgather(np.array(self._loads))
        return np.stack([np.frombuffer(b, np.float64) for b in every], axis=1)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        names: Mapping[int, str] | None = None,
    ) -> Report:
        """What the run was like so far.

        Parameters
        ----------
        path : str or Path, optional
            Rank 0 also writes it there, as JSON (``.json``), as text (``.txt``), or as a page to
            look around in (``.html``), which needs no network.
        title : str, optional
            Of the page.  Default: the file's name.
        names : mapping from int to str, optional
            Of objects, by key, for the page; those of rank 0 count.

        Raises
        ------
        DomainError
            Another suffix.
        """
        it = self.iterations
        mean = float(it.mean.sum())
        history = self.history
        done = history.balancings
        report = Report(
            n_ranks=self.n_ranks,
            n_objects=len(self._directory.keys),
            iterations=len(it.time),
            strategy=self._decider.settings.name,
            trigger=self._decider.settings.trigger.name,
            seconds=self._seconds,
            iteration_seconds=float(it.time.sum()),
            mean_max_over_mean=float(it.max.sum()) / mean if mean > 0 else 1.0,
            idle_mean=float(it.idle_mean.sum()),
            idle_max=float(it.idle_max.sum()),
            balancing_seconds=sum(r.cost for r in done),
            migrations=sum(r.migrations for r in done),
            bytes=sum(r.bytes for r in done),
            history=history,
            would_save=self._would_save(sum(r.cost for r in done)),
        )
        if path is None:
            return report
        is_page = check_suffix(path) == ".html"
        course = self._course(title or Path(path).stem, names) if is_page else None
        if course is not None:
            page.write(course, path)
        elif self.rank == 0 and not is_page:
            report.write(path)
        return report

    def _course(self, title: str, names: Mapping[int, str] | None) -> Course | None:
        """On rank 0 what a page shows: with migrations where the run is kept and not too long.

        Collective.
        """
        times = self.rank_loads()
        stretches: list[Stretch] = []
        loads = self._done * len(self._directory.keys)  # the same on all ranks
        if self._records and self._scribe is None and not self._lag and loads < GATHER:
            stretches = self._recording.gather(self._done, forget=False)
        if self.rank:
            return None
        if self._scribe is not None:
            stretches = self._scribe.read()
        it = self.iterations
        return of_stretches(
            stretches,
            self.n_ranks,
            times=times,
            figures=(it.time, it.mean, it.idle),
            history=self.history,
            parameters=self._parameters,
            title=title,
            names=names,
        )

    def _would_save(self, cost: float) -> float:
        if self._shadow is None:
            return math.nan
        would_be = self._shadow.rows.table()[:, 1]
        return float(self._rows.table()[: len(would_be), 1].sum() - would_be.sum() - cost)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run so far: loads, placements, messages, receipts, parameters.  Collective.

        `pylb.Trace.read` and `pylb.RunRecord.read` read it, ``Balancer(replay=path)`` balances as
        it did.  HDF5, by h5py; rank 0 writes, and the file appears when it is complete.

        Parameters
        ----------
        path : path
            With the suffix ``.h5`` or ``.hdf5``.

        Raises
        ------
        DomainError
            Another suffix.
        StateError
            The balancer was made with ``record=False``, or writes into a file as it goes.
        MissingPartError
            h5py is absent.
        OSError
            It cannot be written.
        """
        if Path(path).suffix not in RECORD_SUFFIXES:
            raise DomainError(f"path is {str(path)!r}: expected {' or '.join(RECORD_SUFFIXES)}")
        if not self._records or self._scribe is not None:
            where = f"goes into {self._scribe.path} as it comes" if self._scribe else "is not kept"
            raise StateError(f"save(): the run {where}, as record= says")
        if math.isinf(self._lag):
            raise StateError("save() with lag=inf: only the iterations of iterate() are kept")
        self._finish()
        scribe = Scribe(path, self._agreement, self._directory, self._parameters)
        saved = scribe.save(
            self._recording, self._rows.table(), self.history, self._priced_loops(), self._done
        )
        if self.rank == 0 and saved < self._done:
            log.warning(
                "pylb: %s has the first %d of %d iterations; record=path keeps all",
                path,
                saved,
                self._done,
            )

    def _priced_loops(self) -> list[Loop]:
        """With what was not measured before: a record without balancings says what one would cost.
        Collective.
        """
        if not self._loops or self._shadow is not None or self.n_balancings or self._lag:
            return self._loops
        prices = self._all_prices()
        return [Loop(*loop[:3], *prices, self._clock_pace) for loop in self._loops]

    def _write(self) -> None:
        """What has come since the last time, where the record is written as it comes."""
        self._unwritten = 0.0
        if self._scribe is not None:
            self._scribe.write(
                self._recording, self._rows.table(), self.history, self._loops, self._done
            )

    def __repr__(self) -> str:
        return (
            f"<Balancer: rank {self.rank} of {self.n_ranks}, {len(self._store.items)} objects "
            f"here, {self._done} iterations, {self.n_balancings} balancings>"
        )


def _lag_of(lag: Any) -> float:
    if lag == math.inf:
        return math.inf
    try:
        out = operator.index(lag)
    except TypeError:
        out = -1
    if not 0 <= out < 2**20:
        raise DomainError(f"lag is {lag!r}: expected a number of iterations, 0 or more, or inf")
    return out


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise DomainError(f"{name} is {value!r}: expected {' or '.join(map(repr, allowed))}")
    return value

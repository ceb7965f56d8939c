"""Collective steps in which all ranks agree on what they do, or all raise the same error.

Every collective step carries what must be equal on all ranks (the kind of step, the iteration, the
arguments) and whether the rank has failed.  So if one rank is at a different place in the program,
has different arguments, or has raised an error, the step raises on all ranks and no rank hangs.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from pylb.comm.cores import Cores
from pylb.comm.transport import Memory, Sends, Transport
from pylb.errors import (
    DomainError,
    MPIError,
    PylbError,
    RemoteError,
    StateError,
    by_rank,
    differing,
    of_rank,
    told,
)
from pylb.model.network import Network

log = logging.getLogger("pylb")
# Attribute of an error that a step has raised, on all ranks: id() of the agreement, and `taken`.
KNOWN = "pylb_agreement"
T = TypeVar("T")
NOBODY = 2**63 - 1  # value of `Stats.failed_rank` if no rank has failed
NO_LOADS = np.zeros(0)


@functools.cache  # a program with several communicators is warned once
def _say_shared(words: str) -> None:
    log.warning("pylb: %s and wait for one another", words)


class Stats(NamedTuple):
    """The contributions of all ranks to a step, merged; fields as in ``csrc/measure/measure.h``."""

    kind: int
    iteration: int
    arguments: int
    n_ranks: int
    n_objects: int
    n_changed: int
    n_ended: int
    n_rebalanced: int
    load_sum: float
    idle_sum: float
    load_max: float
    load_min: float
    load_max_rank: int
    utilization_min: float
    messages: int
    message_bytes: int
    messages_open: int
    time_max: float
    cost_max: float
    hidden_max: float
    failed_rank: int
    n_phases: int
    mixed: bool  # whether kind, iteration or arguments differ between ranks
    # the largest load of a rank in each phase, then the total load in each phase
    phases: tuple[float, ...] = ()


class Contribution(NamedTuple):
    """What a rank contributes to a collective step."""

    kind: int  # the kind of step, one of `Step`
    iteration: int  # the iteration in or after which the step takes place
    arguments: int  # fingerprint of everything else that must be equal on all ranks
    failed: bool = False
    n_objects: int = 0
    loads: NDArray[np.float64] = NO_LOADS  # (n,), seconds of each object of the rank
    idle: float = 0.0  # seconds that the rank waited
    messages: int = 0  # number of messages to other ranks
    message_bytes: int = 0
    time: float = 0.0  # seconds of the iteration
    cost: float = 0.0  # seconds of the most recent LB step
    n_changed: int = 0  # number of added, removed or moved objects; an advisor: 1 if cells changed
    n_rebalanced: int = 0  # for an advisor, 1 if the rank carried out the LB step that was advised
    # Number of messages that must be forwarded (by the home rank of their target), or that the
    # receiver may be unable to restore.
    messages_open: int = 0
    background: float = 0.0  # seconds of work outside the rank's objects, part of its load
    # (n_phases, n), seconds of each object of the rank in each phase; without phases, n_phases is 0
    phases: NDArray[np.float64] = NO_LOADS
    n_phases: int = 0
    hidden: float = 0.0  # seconds for which the rank computed while data of an LB step moved


# For `Agreement.reduce`: the fields of a `Contribution` which each operation can use, and the
# fields of the merged `Stats` with the results.  Floats are 0 or more.
MERGED = {
    ("max", float): (("time", "time_max"), ("cost", "cost_max")),
    ("min", float): (("loads", "load_min"),),
    ("sum", float): (("idle", "idle_sum"), ("loads", "load_sum")),
    ("sum", int): tuple(
        (name, name) for name in ("n_objects", "messages", "message_bytes", "n_changed")
    ),
}


class Step(IntEnum):
    """The kinds of collective steps: id, and text for errors, where ``{}`` is the iteration.

    If ranks are in steps of different kinds, `Stats.kind` is the largest of the ids.
    """

    words: str

    def __new__(cls, number: int, words: str = "") -> Step:
        out = int.__new__(cls, number)
        out._value_, out.words = number, words
        return out

    START = 1, "at the start of iterate()"
    FIRST_MESSAGES = 2, "at the start of iterate(), with messages"
    MESSAGES = 3, "exchanging messages in iteration {}"
    SYNC = 4, "at the end of iteration {}"
    GATHER = 5, "doing an LB step after iteration {}"
    PLACE = 6, "placing objects after iteration {}"
    PACK = 7, "packing objects after iteration {}"
    MIGRATE = 8, "migrating objects after iteration {}"
    COMMIT = 9, "committing a migration after iteration {}"
    RECORDS = 10, "gathering records of {} iterations"
    WORTH = 11, "measuring what the last LB step saved, after iteration {}"
    CHANGES = 12, "exchanging the lists of added and removed objects after iteration {}"
    RECORD = 13, "writing the record after iteration {}"
    ROWS = 14, "dividing rows, call {}"
    FORESEE = 15, "estimating the cost of an LB step"
    PLAN = 16, "building a communication plan"
    EXCHANGE = 17, "exchanging items"
    OBJECTS = 18, "migrating items"
    DIRECTORY = 19, "using a directory"
    PARTITION = 20, "partitioning"
    ADVISE = 21, "in the advise() that ends step {}"
    ADVISED = 22, "at the end of a loop, after {} steps"
    FORWARD = 23, "forwarding messages in iteration {}"
    MOVED = 24, "telling where objects have moved after iteration {}"
    ALLOCATE = 25, "allocating memory for migrating objects after iteration {}"
    ANSWER = 26, "asking the trigger after iteration {}"
    CHECKPOINT = 27, "writing a checkpoint after {} iterations"
    RESTORE = 28, "reading a checkpoint"
    OPEN = 29, "opening a loop with a lag"
    GRAPH = 30, "colouring or ordering a graph"
    EXIT = 99, "ending its program"


class Attempt:
    """A block that stores its error, if it is `kept`, for the next collective step."""

    def __init__(self, kept: type[Exception] = Exception) -> None:
        self.error: Exception | None = None
        self._kept = kept

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, self._kept):
            self.error = error
        return self.error is not None


class OpenLoop:
    """A loop with a lag: its statistics are reduced while the program continues."""

    def __init__(self, agreement: Agreement) -> None:
        # left: whether this rank has left the loop; other ranks may still be in it.
        self._agreement, self.left = agreement, False
        agreement.running = self

    def give_up(self, failed: bool) -> None:
        """Leave the loop; if this rank has `failed`, the other ranks must leave it, too."""
        raise NotImplementedError

    def serve(self, seconds: float) -> bool:
        """Take part in the reductions of the other ranks; return whether none is pending.

        Waits at most `seconds`; if negative, until none is pending.
        """
        raise NotImplementedError

    def finish(self) -> None:
        self.serve(-1.0)
        self.close()

    def close(self) -> None:
        """End the loop on this rank, so that another loop may begin on the communicator."""
        if self._agreement.running is self:
            self._agreement.running = None


class Agreement:
    """The collective steps of the ranks of one communicator."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.ended = ""  # why no more steps are possible; empty: steps are possible
        self.at = "before the first iteration"  # where this rank is in the program, for messages
        # The most recent step of this rank: kind, iteration, arguments in words.
        self.last_step: tuple[int, int, str] = (Step.START, 0, "")
        self.taken = 0  # number of steps that this rank has begun
        # A loop with a lag that is not complete.  If this rank has left it, this rank helps the
        # other ranks to complete it before the next step.
        self.running: OpenLoop | None = None
        # Returns the keys of the objects that are on a rank, as far as this rank knows.
        self.objects_on: WeakMethod[Callable[[int], NDArray[np.int64]]] | None = None
        # Whether an object that needs this agreement, e.g. a Balancer, was made.  If not, the MPI
        # objects are freed when the user frees the communicator.
        self.held = False
        self.known_network: Network | None = None  # the cost of messages; None: not measured yet
        self._cores: Cores | None = None
        self.plans = 0  # number of communication plans made so far, the same on all ranks
        self.sharers: list[Any] = []  # `_mpi.Share`: others may wait for this rank in `share`
        self._turn = threading.Lock()  # locked during a step, so that no second thread begins one

    @property
    def last_step_in_words(self) -> str:
        return _in_words([*self.last_step, ""])

    def network(self) -> Network:
        """Return the cost of messages, which is measured once.  Collective the first time."""
        if self.known_network is None:
            # If a rank has failed, this step raises the error; the measurement would never end.
            self.step(Step.FORESEE, 0)
            self.known_network = self.transport.network()
        return self.known_network

    def cores(self) -> Cores:
        """Return which ranks share cores; warn if they wait.  Collective the first time."""
        if self._cores is None:
            self._cores = self.transport.cores()
            if self._cores.words and self.transport.rank == 0:
                _say_shared(self._cores.words)
        return self._cores

    def step(
        self,
        kind: Step,
        iteration: int,
        arguments: tuple[int, str] = (0, ""),
        sends: Sends | None = None,
        error: Exception | None = None,
        into: Memory | None = None,
        **figures: Any,
    ) -> tuple[Stats, Sends]:
        """Take one collective step; return the merged contributions, and what others have sent.

        `arguments` must be the same on all ranks: a hash, and words for errors.  `into` is memory
        for received buffers, `figures` are more fields of `Contribution`.  This rank raises
        `error`, if it had one before the step; the other ranks raise pylb's error of the same
        class, or RemoteError.  All raise if they are at different places or a rank has ended.
        """
        sample = Contribution(kind, iteration, arguments[0], error is not None, **figures)
        return self.take(sample, sends or [], error, arguments[1], into=into)

    def reduce(
        self, kind: Step, iteration: int, values: dict[T, tuple[str, float]]
    ) -> dict[T, Any]:
        """Merge numbers of all ranks, each by its operation: "max", "min" or "sum".  Collective."""
        return self.reduce_and_exchange(kind, iteration, values)[0]

    def reduce_and_exchange(
        self,
        kind: Step,
        iteration: int,
        values: dict[T, tuple[str, float]],
        sends: Sends | None = None,
        error: Exception | None = None,
    ) -> tuple[dict[T, Any], Sends]:
        """Do what `reduce` and `step` do, in one step."""
        free = {operation: list(fields) for operation, fields in MERGED.items()}
        figures: dict[str, Any] = {}
        place = {}
        for name, (operation, value) in values.items():
            is_whole = isinstance(value, int | np.integer)
            field, place[name] = free[operation, int if is_whole else float].pop(0)
            figures[field] = np.array([value]) if field == "loads" else value
        stats, received = self.step(kind, iteration, sends=sends, error=error, **figures)
        return {name: getattr(stats, field) for name, field in place.items()}, received

    def take(
        self,
        sample: Contribution,
        sends: Sends,
        error: Exception | None = None,
        words: str = "",
        alike: bool = False,
        into: Memory | None = None,
    ) -> tuple[Stats, Sends]:
        """Take one collective step like `step`, with a `Contribution` instead of its fields.

        With `alike`, a rank that has failed raises the same message as the others, not `error`.
        """
        if not self._turn.acquire(blocking=False):
            first, second = (Step(k).words.format(i) for k, i in (self.last_step[:2], sample[:2]))
            raise StateError(
                f"two threads make collective calls at the same time: one is {first}, the other is "
                f"{second}; expected one call at a time"
            )
        self.taken += 1
        try:
            if self.ended:
                raise StateError(f"this communicator can no longer be used: {self.ended}")
            if self.running is not None and self.running.left:
                self.running.finish()
            self.last_step = (sample[0], sample[1], words)
            if error is not None:
                sends = self.messages_about(error)
            try:
                record, received, error = self._try(sample, sends, error, into)
            except MPIError as why:
                raise self.explained(why) from None
            stats = record if isinstance(record, Stats) else Stats._make(record)
            if error is not None:
                if not alike:
                    if stats.kind == Step.EXIT:
                        self.ended = "another rank has ended its program"
                    raise error
                received = [*received, (self.transport.rank, self._description(error))]
            if stats.failed_rank != NOBODY or stats.mixed:
                self.raise_for(stats, received)
            return stats, received
        except Exception as why:
            # a reference to `why` would keep the program's arrays in memory
            why.__dict__[KNOWN] = id(self), self.taken
            raise
        finally:
            self._turn.release()

    def _try(
        self, sample: Contribution, sends: Sends, error: Exception | None, into: Memory | None
    ) -> tuple[Any, Sends, Exception | None]:
        t: Any = self.transport
        try:
            if not self.sharers:
                return *t.step(sample, sends, into), error
            t.begin(sample, sends, into)  # ranks that do not come may wait in `share` instead
            while (answer := t.wait(1.0)) is None:
                for sharer in self.sharers:
                    sharer.look(False)
            return *answer, error
        except MemoryError as why:
            return self.without_memory(sample, error, why)

    def on_root(self, kind: Step, iteration: int, action: Callable[[], Any]) -> None:
        """Call `action` on rank 0; if it fails, all ranks raise its error.  Collective."""
        root = self.transport.rank == 0
        self.together(kind, lambda: action() if root else None, iteration)

    def together(self, kind: Step, action: Callable[[], T], iteration: int = 0) -> T:
        """Call `action` on every rank; if it fails on one, all ranks raise its error.  Collective.

        `action` may take collective steps itself.
        """
        before = self.taken
        with Attempt() as tried:
            out = action()
        # if `action` took no step, a known error is an older one that the program just handles
        if self.taken != before and self.knows(tried.error):
            raise tried.error  # type: ignore[misc]
        self.step(kind, iteration, error=tried.error)
        return out

    def knows(self, error: BaseException | None) -> bool:
        """Return whether the last step has raised this error, or one that caused it."""
        last = id(self), self.taken
        while error is not None and error.__dict__.get(KNOWN) != last:
            error = error.__cause__ or error.__context__
        return error is not None

    def agree(self, kind: Step, words: str, error: Exception | None = None) -> None:
        """Check that no rank has failed and that `words` are equal on all ranks.  Collective."""
        self.step(kind, 0, (zlib.crc32(words.encode()), words), error=error)

    def fail_alike(self, kind: Step, error: Exception | None) -> None:
        """Raise on every rank, with the same message, the error of the lowest rank that has failed.

        Collective.
        """
        try:
            self.take(Contribution(kind, 0, 0, error is not None), [], error, alike=True)
        except PylbError as why:
            raise why from error

    def messages_about(self, error: BaseException, place: str = "") -> Sends:
        """Return messages that report an error of this rank, and its `place`, to other ranks."""
        t, words = self.transport, self._description(error, place)
        return [(rank, words) for rank in range(t.size) if rank != t.rank]

    def _description(self, error: BaseException, place: str = "") -> list[bytes]:
        name, text = told(error)
        return [json.dumps([name, text + place, self.at]).encode()]

    def without_memory(
        self, sample: Contribution, error: Exception | None, why: MemoryError
    ) -> tuple[Any, Sends, Exception | None]:
        """Complete a step, if possible, in which this rank had no memory; return what `_try` does.

        `error` is an error of this rank before the step.
        """
        raise why

    def tell(self, error: Exception) -> None:
        """Report an error of this rank to the other ranks, unless they know it."""

    def explained(self, error: MPIError) -> MPIError:
        """Return an error of MPI; if ranks have died, its message names them and their objects."""
        return error

    def raise_for(self, stats: Stats, received: Sends) -> None:
        """Raise the error that the merged contributions report, the same on all ranks."""
        leaving = stats.kind == Step.EXIT
        if stats.failed_rank != NOBODY:
            rank = stats.failed_rank
            name, text, at = json.loads(bytes(dict(received)[rank][0]))
            if not leaving:
                raise of_rank(rank, name, text)
            self.ended = f"rank {rank} failed: {text}"
            raise RemoteError(f"rank {rank}: {text} ({at})")
        raise self._difference()

    def free(self) -> None:
        """Free the MPI objects unless they are needed; the user has freed the communicator."""

    def _difference(self) -> Exception:
        kind, iteration, arguments = self.last_step
        place_here = [kind, iteration, arguments, self.at]
        places = [json.loads(b) for b in self.transport.allgather(json.dumps(place_here).encode())]
        gone = [r for r, place in enumerate(places) if place[0] == Step.EXIT]
        if gone:
            here = next(r for r in range(len(places)) if r not in gone)
            self.ended = f"rank {gone[0]} ended its program {places[gone[0]][3]}"
            return RemoteError(
                f"rank {gone[0]} ended its program {places[gone[0]][3]}, "
                f"while rank {here} is {_in_words(places[here])}"
            )
        if len({tuple(place[:2]) for place in places}) > 1:
            return StateError("ranks are in different places: " + by_rank(map(_in_words, places)))
        answers = by_rank(place[2] for place in places)
        if kind == Step.ANSWER:
            return DomainError(
                f"the trigger answers differently after iteration {iteration}: {answers}; expected "
                "the same on all ranks, computed only from the values of the cycle"
            )
        if kind == Step.SYNC:
            return DomainError(
                f"phases differ between ranks in iteration {iteration}: {answers}; expected the "
                "same names in the same order on all ranks"
            )
        return DomainError(
            f"arguments differ between ranks: {differing(place[2] for place in places)}"
        )


def _in_words(place: Any) -> str:
    kind, iteration, arguments, _ = place
    return Step(kind).words.format(iteration) + (f" ({arguments})" if kind == Step.START else "")

"""What a rank knows of the objects: its own ones, their messages, and the ranks of all objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pylb.comm.agreement import Agreement
from pylb.comm.parcel import pack_mail
from pylb.comm.transport import Sends
from pylb.errors import DomainError
from pylb.model.snapshot import F64, I64
from pylb.run.messages import Mailbox, Message
from pylb.run.objects import Changes, Locations, Store
from pylb.run.sizes import SizeEstimator


class LocalObjects:
    """The objects of this rank, shared by the parts of a Balancer.

    Attributes
    ----------
    store : Store
    mailbox : Mailbox
    locations : Locations
    sizes : SizeEstimator
    changes : Changes
        Objects that were added or removed here, of which the other ranks do not know yet.
    in_loop : bool
    stale : bool
        Whether objects were added or removed since the loop began.
    join : callable, optional
        Lets new objects take part at once; set while objects run at their own pace.
    """

    def __init__(
        self, agreement: Agreement, clock: str, load: Callable[[int, Any], float] | None
    ) -> None:
        self.agreement = agreement
        self.store = Store(clock)
        self.mailbox = Mailbox()
        self.locations = Locations()
        self.sizes = SizeEstimator()
        self.changes = Changes()
        self.in_loop = self.stale = False
        self.join: Callable[[], None] | None = None
        self.load = load  # a function of the user

    @property
    def rank(self) -> int:
        """This rank."""
        return self.agreement.transport.rank

    # ---- what is recorded of them, see `records.Recorded` ----------------------------------------

    @property
    def n_objects(self) -> int:
        """Number of objects of all ranks."""
        return len(self.locations.keys)

    @property
    def seconds(self) -> F64:
        """Loads of the pass, of the objects of this rank."""
        return self.store.seconds

    @property
    def passes(self) -> int:
        """Passes over which `edges` is summed."""
        return max(self.store.passes, 1)

    def facts(self) -> I64:
        """What is known of each object in whole numbers, as `Store.facts`."""
        return self.store.facts()

    def edges(self) -> I64:
        """What was sent, as `Mailbox.edges`."""
        return self.mailbox.edges()

    # ---- all ranks ---------------------------------------------------------------------------

    def has(self, key: int) -> bool:
        """Whether the object exists, as far as this rank knows."""
        known = key in self.store.items or key in self.locations.rank_of
        return key in self.changes.new or (known and key not in self.changes.gone)

    def learn(self) -> None:
        """Tell all ranks which objects were added and removed.  Collective.

        Raises
        ------
        UnknownKeyError
            A key was added on two ranks.
        """
        changes, self.changes = self.changes, Changes()
        self.store.change(changes)
        new, gone = changes.share(self.agreement.transport)
        self.mailbox.forget(gone)
        self.locations.remove(gone)
        self.locations.add(new)
        self.store.arrange()

    def outgoing(self) -> tuple[list[Message], Sends, int]:
        """Return the messages to this rank, the packed ones to other ranks, and their number."""
        outgoing = self.mailbox.collect(self.locations.rank_of)
        own = outgoing.pop(self.rank, [])
        sends: Sends = [(rank, pack_mail(mail)) for rank, mail in outgoing.items()]
        return own, sends, sum(map(len, outgoing.values()))

    def given_load(self, key: int) -> float:
        """The load of an object, computed by the user's function."""
        assert self.load is not None
        value = float(self.load(key, self.store.items[key].value))
        if not 0.0 <= value <= 1e30:
            raise DomainError(
                f"load of object {key} is {value}: expected a finite number, zero or more"
            )
        return value

    def ask_loads(self) -> None:
        """Replace the measured loads by those of the user's function, if there is one."""
        if self.load is not None:
            for i, key in enumerate(self.store.items):
                self.store.seconds[i] = self.given_load(key)

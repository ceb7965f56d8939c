"""What a first balancing may cost, before there was one."""

from __future__ import annotations

from pylb import _core
from pylb.machine import Network
from pylb.runtime import parcel
from pylb.runtime.objects import Store

STEPS = 8  # collective steps of a balancing


def first_cost(store: Store, network: Network, n_ranks: int) -> float:
    """Seconds for this rank, if all of its objects leave: from packing one of them.

    An object that cannot be packed is left to the balancing, which says so.
    """
    item = next((item for item in store.items.values() if item.migratable), None)
    nbytes, begin = 0, _core.clock()
    try:
        nbytes = 0 if item is None else parcel.size_of(parcel.pack(item.value))
    except Exception:
        return 0.0
    handling = 2.0 * (_core.clock() - begin)  # and unpacking
    messages = STEPS * n_ranks.bit_length()
    return len(store.items) * (handling + network.beta * nbytes) + network.alpha * messages

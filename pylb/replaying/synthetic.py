"""Generate traces that can be used like recorded runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError
from pylb.io.phases import frozen
from pylb.model import checks
from pylb.replaying.trace import Trace

SOME = 2**17  # most values that one call of NumPy computes: Ctrl-C takes effect between calls


def _repeated(row: NDArray[Any], m: int) -> NDArray[Any]:
    """Return m copies of `row`, one after the other."""
    out = np.empty((m, len(row)), row.dtype)
    some = max(1, SOME // len(row))
    for k in range(0, m, some):
        out[k : k + some] = row
    return out.ravel()


def hotspot(
    n_ranks: int = 16,
    n_objects: int = 256,
    n_phases: int = 60,
    *,
    peak: float = 8.0,
    width: float = 0.05,
    turns: float = 0.5,
    noise: float = 0.02,
    seed: int = 0,
) -> Trace:
    """Generate a run of objects in a ring, placed in blocks, with a hot spot that moves.

    The load of an object is ``1 ms * (1 + peak * exp(-(d / width)**2 / 2))``, where d is its
    distance from the hot spot as a fraction of the ring, times a log-normal factor that is drawn
    for each object in each phase.  In each phase, an object sends 8 KiB to each of its two
    neighbours.  A migration sends 64 KiB.

    Parameters
    ----------
    n_ranks, n_objects, n_phases : int
    peak : float
        What the hot spot adds in its middle, divided by the load far away from it.
    width : float
        Width of the hot spot, as a fraction of the ring.
    turns : float
        How often the hot spot goes round the ring in the whole run.
    noise : float
        Standard deviation of the logarithm of the factor.
    seed : int
        The same arguments give the same run.

    Returns
    -------
    Trace

    Raises
    ------
    DomainError
        A number of ranks, objects or phases is below 1, `peak`, `noise` or `seed` is below 0,
        `width` is not above 0, or a value is not finite.

    Examples
    --------
    >>> pylb.replaying.hotspot(n_ranks=8, seed=1).n_ranks
    8
    """
    p, n, m = (
        checks.whole(name, value, 1, "a number")
        for name, value in [("n_ranks", n_ranks), ("n_objects", n_objects), ("n_phases", n_phases)]
    )
    for name, value in [("peak", peak), ("width", width), ("noise", noise)]:
        if checks.number(name, value) < 0.0:
            raise DomainError(f"{name} is {value!r}: expected 0 or more")
    if width == 0:
        raise DomainError(f"width is {width!r}: expected a fraction of the ring, above 0")
    turns = checks.number("turns", turns)
    rng = np.random.default_rng(checks.whole("seed", seed, 0))
    entity = np.arange(n, dtype=np.int32)
    where = turns * np.arange(m)[:, None] / m
    load = np.empty((m, n))
    some = max(1, SOME // n)
    for k in range(0, m, some):
        apart = np.abs((entity / n - where[k : k + some] + 0.5) % 1.0 - 0.5)
        load[k : k + some] = 1e-3 * (1.0 + peak * np.exp(-0.5 * (apart / width) ** 2))
        load[k : k + some] *= rng.lognormal(0.0, noise, apart.shape)
    rank = (entity.astype(np.int64) * p // n).astype(np.int32)
    neighbours = np.concatenate([np.roll(entity, -1), np.roll(entity, 1)])
    arrays: dict[str, Any] = {
        "phase_id": np.arange(m),
        "entity_key": np.arange(n),
        "entity_migratable": np.ones(n, np.bool_),
        "entity_home": rank,
        "entity_collection": np.full(n, -1),
        "task_ptr": np.arange(m + 1) * n,
        "task_entity": _repeated(entity, m),
        "task_rank": _repeated(rank, m),
        "task_load": load.ravel(),
        "task_bytes": _repeated(np.full(n, 65536), m),
        "task_memory": _repeated(np.full(n, 65536), m),
        "edge_ptr": np.arange(m + 1) * 2 * n,
        "edge_src": _repeated(entity, 2 * m),
        "edge_dst": _repeated(neighbours, m),
        "edge_bytes": _repeated(np.full(2 * n, 8192.0), m),
        "edge_messages": _repeated(np.ones(2 * n), m),
    }
    return Trace(p, **{name: frozen(array) for name, array in arrays.items()})

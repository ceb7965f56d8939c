"""Every strategy on a few snapshots: ``python tests/twins/placements.py`` prints a number for each.

The numbers must depend on nothing but the snapshots, the parameters and the seed.
"""

import json
import zlib

import numpy as np

import pylb
from pylb.errors import DomainError, MissingPartError


def clustered(side, p):
    """Return a torus with multicasts and other optional arrays, on a third of the ranks."""
    rng = np.random.default_rng(11)
    n = side * side
    ids = np.arange(n).reshape(side, side)
    src = np.tile(ids.ravel(), 2)
    dst = np.concatenate([np.roll(ids, -1, axis).ravel() for axis in (0, 1)])
    start = np.arange(0, 5 * 30 + 1, 5)
    return pylb.Snapshot(
        rng.lognormal(0.0, 1.0, n),
        rng.integers(p // 3, size=n),
        n_ranks=p,
        edges=(src, dst, rng.integers(1, 1000, size=2 * n)),
        multicasts=(rng.integers(n, size=30), start, rng.integers(n, size=150), np.full(30, 64.0)),
        nbytes=rng.integers(1, 10**6, size=n),
        migratable=rng.random(n) < 0.95,
        speed=rng.choice([1.0, 2.0], size=p),
        background=rng.uniform(0.0, 0.1, p),
        node=np.arange(p) // 4,
        coords=np.stack([np.arange(n) % side, np.arange(n) // side, np.zeros(n)], axis=1),
    )


def memory_limits(rng, n, p, most, spare):
    """Return a random placement, less than `most` bytes of memory per object, and the limits."""
    rank = rng.integers(p, size=n)
    memory = rng.integers(1, most, size=n)
    limit = int(spare * np.bincount(rank, memory, p).max())
    return {"rank": rank, "memory": memory, "memory_limit": np.full(p, limit)}


def tight():
    """Return a snapshot with tight memory limits and equal loads, so that ties decide."""
    rng = np.random.default_rng(12)
    n, p = 240, 8
    within = memory_limits(rng, n, p, 50, 1.2)
    edges = (*rng.integers(n, size=(2, 700)), np.full(700, 8.0))
    return pylb.Snapshot(np.ones(n), n_ranks=p, edges=edges, **within)


def vectors():
    """Return a snapshot with two loads per object, for VectorLB."""
    rng = np.random.default_rng(13)
    return pylb.Snapshot(rng.random((400, 2)), np.arange(400) // 40, n_ranks=10)


# The strategies that are written in C.
OWN = {name: row for name, row in pylb.strategies().items() if row.call is None}
SNAPSHOTS = (clustered(20, 12), tight(), vectors())
MANY = clustered(30, 300)  # with 256 ranks or more, virtual ranks run on all cores


def placements(names=None):
    """Return {"strategy, snapshot": checksum of the ranks} of the strategies that are available."""
    out = {}
    for name in OWN if names is None else names:
        some = (*SNAPSHOTS, MANY) if OWN[name].distributed else SNAPSHOTS
        for i, snapshot in enumerate(some):
            try:
                rank = pylb.place(snapshot, name, seed=7).rank
            except MissingPartError:
                continue
            except DomainError:
                assert snapshot.load.ndim == 2 or "coords" in OWN[name].looks_at
                continue
            out[f"{name}, {i}"] = zlib.crc32(rank.tobytes())
    return out


if __name__ == "__main__":
    print(json.dumps(placements(), sort_keys=True))

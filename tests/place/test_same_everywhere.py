"""Same input and seed, same placement: with any threads, in any process, at any time."""

import json
import os
import random
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import golden
import numpy as np
import pytest

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


OWN = {name: row for name, row in pylb.strategies().items() if row.call is None}  # written in C
TIES = {"edges": (np.arange(240), np.roll(np.arange(240), 7), np.full(240, 8.0))}
TIES |= {"memory": 1 + np.arange(240) * 11 % 49, "memory_limit": [900] * 8}
SNAPSHOTS = {"clustered": clustered(20, 12), **golden.snapshots()}
SNAPSHOTS["ties"] = pylb.Snapshot(np.ones(240), np.arange(240) // 30, n_ranks=8, **TIES)
MANY = clustered(30, 300)  # with 256 ranks or more, virtual ranks run on all cores


def placements(names=OWN):
    """Return {"strategy, snapshot": checksum of the ranks} of the strategies that are available."""
    out = {}
    for name in names:
        some = SNAPSHOTS | ({"many ranks": MANY} if OWN[name].distributed else {})
        for what, snapshot in some.items():
            try:
                rank = pylb.place(snapshot, name, seed=7).rank
            except MissingPartError:
                continue
            except DomainError:
                assert snapshot.load.ndim == 2 or "coords" in OWN[name].looks_at
                continue
            out[f"{name}, {what}"] = zlib.crc32(rank.tobytes())
    return out


EXPECTED = placements()


def of_process(cores=None, **environment):
    """Return the placements that another process computes."""

    def pin():
        os.sched_setaffinity(0, cores)

    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, **environment},
        preexec_fn=pin if cores else None,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def test_all_strategies_are_among_them():
    names = {key.split(",")[0] for key in EXPECTED}
    missing = set(OWN) - names
    assert all(OWN[name].library for name in missing)


@pytest.mark.parametrize("threads", ["2"])
def test_the_same_in_another_process_and_with_threads_of_libraries(threads):
    some = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SCOTCH_PTHREAD_NUMBER")
    found = of_process(PYTHONHASHSEED=threads, **dict.fromkeys(some, threads))
    assert found == EXPECTED


def test_the_same_on_any_number_of_cores():
    assert of_process(cores={min(os.sched_getaffinity(0))}) == EXPECTED


def test_the_same_after_other_placements_and_beside_other_threads():
    names = sorted({key.split(",")[0] for key in EXPECTED})
    for seed in (1, 2):
        random.Random(seed).shuffle(names)
        assert placements(names) == EXPECTED
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(placements, [name]) for name in names * 2]
        for answer in answers:
            found = answer.result(120)
            assert found == {key: EXPECTED[key] for key in found}


@pytest.mark.parametrize("name", OWN)
def test_copies_of_arrays_in_other_forms(name):
    """Arrays with other strides or types, and read-only arrays, give the same placements."""
    for what, s in SNAPSHOTS.items():
        if f"{name}, {what}" not in EXPECTED:
            continue
        spread = np.repeat(s.load, 2, axis=0)[::2]
        edges = None if s.edges is None else tuple(x.astype(float)[::-1][::-1] for x in s.edges[:3])
        kept = ("nbytes", "migratable", "speed", "background", "node", "memory", "memory_limit")
        kept += ("coords",)
        some = {key: getattr(s, key) for key in kept}
        rank = s.rank.astype(np.int64)
        if edges is not None:
            edges = (edges[0].astype(np.int64), edges[1].astype(np.int64), edges[2])
        copy = pylb.Snapshot(
            spread, rank, n_ranks=s.n_ranks, edges=edges, multicasts=s.multicasts, **some
        )
        assert np.array_equal(pylb.place(copy, name, seed=7).rank, pylb.place(s, name, seed=7).rank)


if __name__ == "__main__":
    print(json.dumps(EXPECTED))

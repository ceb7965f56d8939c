"""Same input and seed, same placement: with any threads, in any process, at any time."""

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import placements
import pytest

import pylb

SCRIPT = Path(placements.__file__)
EXPECTED = placements.placements()


def of_process(cores=None, **environment):
    """Return the placements that another process computes."""

    def pin():
        os.sched_setaffinity(0, cores)

    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
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
    missing = set(placements.OWN) - names
    assert all(placements.OWN[name].library for name in missing)


@pytest.mark.parametrize("threads", ["2"])
def test_the_same_in_another_process_and_with_threads_of_libraries(threads):
    some = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SCOTCH_PTHREAD_NUMBER")
    found = of_process(PYTHONHASHSEED=threads, **dict.fromkeys(some, threads))
    assert found == EXPECTED


def test_the_same_on_any_number_of_cores():
    assert of_process(cores={min(os.sched_getaffinity(0))}) == EXPECTED


def test_the_same_after_other_placements():
    names = sorted({key.split(",")[0] for key in EXPECTED})
    for seed in (1, 2):
        random.Random(seed).shuffle(names)
        assert placements.placements(names) == EXPECTED


def test_the_same_when_other_threads_call():
    names = sorted({key.split(",")[0] for key in EXPECTED})
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(placements.placements, [name]) for name in names * 2]
        for answer in answers:
            found = answer.result(120)
            assert found == {key: EXPECTED[key] for key in found}


@pytest.mark.parametrize("name", list(placements.OWN))
def test_copies_of_arrays_in_other_forms(name):
    """Arrays with other strides or types, and read-only arrays, give the same placements."""
    for i, s in enumerate(placements.SNAPSHOTS):
        if f"{name}, {i}" not in EXPECTED:
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

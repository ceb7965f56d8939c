"""If the n-th allocation fails, in any room of the core: MemoryError, no leak, no crash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch import launch

TESTS = Path(__file__).parents[1]
PROGRAM = TESTS / "mpi" / "no_malloc.py"
GROUPS = [
    "strategies",
    "partitions",
    "replays",
    "recordings",
    "models",
    "deciders",
    "runs",
    "over_mpi",
]
LIBRARY = {"over_mpi": "pylb/_mpi"}
# Groups of calls on several ranks: the modules, by the beginning of their names, whose allocations
# fail.
ON_ONE_RANK = {
    "mpi": "_mpi",
    "zoltan": "_zoltan",
    "services": "_",
    "loops": "_c",
    "partitions": "_",
    "graphs": "_",
    "parts": "_",
    "checkpoints": "_",
}
NEEDED = {"zoltan": "pylb._zoltan", "partitions": "pylb._zoltan", "graphs": "pylb._dgraph"}
EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))
STEP, OF_RANKS = (1, 1) if EXPLORE else (13, 3)  # every 13th allocation; of ranks, every third one
# By default, every second group on 2 ranks and the others on 3.
RANKS = [(g, p) for i, g in enumerate(ON_ONE_RANK) for p in (2, 3) if EXPLORE or p == 2 + i % 2]


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_every_allocation_fails_once(no_malloc, group):
    if group == "over_mpi":
        pytest.importorskip("mpi4py.MPI")
    path = os.pathsep.join([str(TESTS / "twins"), os.environ.get("PYTHONPATH", "")])
    switch = {"LD_PRELOAD": no_malloc, "NO_MALLOC_IN": LIBRARY.get(group, "pylb/_core")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), group, str(STEP)],
        env={**os.environ, "PYTHONPATH": path, **switch},
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert "0 blocks were lost" in done.stdout


def test_no_memory_for_the_objects_of_answers():
    pytest.importorskip("_testcapi")
    words = [sys.executable, str(TESTS / "mpi" / "no_memory_for_answers.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n")


@pytest.mark.slow
@pytest.mark.parametrize(("group", "ranks"), RANKS)
def test_an_allocation_fails_on_one_of_several_ranks(no_malloc, mpiexec, ranks, group):
    fails_on_rank_1(no_malloc, mpiexec, ranks, group, NO_MALLOC_IN=f"pylb/{ON_ONE_RANK[group]}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "factor"), [("services", 1000), ("graphs", 250), ("parts", 1000)]
)
def test_an_array_of_numpy_is_too_large_on_one_rank(no_malloc, mpiexec, group, factor):
    """Each allocation of 8 KiB (2 KiB for graphs) or more by NumPy fails once."""
    large = {"NO_MALLOC_IN": "/numpy/", "NO_MALLOC_LEAST": str(8 * factor)}
    fails_on_rank_1(no_malloc, mpiexec, 2, group, factor=factor, **large)


def fails_on_rank_1(no_malloc, mpiexec, ranks, group, factor=1, **switch):
    if group in NEEDED:
        pytest.importorskip(NEEDED[group], exc_type=ImportError)
    words = TESTS / "mpi" / "no_malloc_ranks.py", group, factor, OF_RANKS
    code, out, said = launch(mpiexec, ranks, *words, LD_PRELOAD=no_malloc, **switch)
    assert code == 0, said
    assert out.count("done") == ranks

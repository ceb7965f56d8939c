"""A rank dies in each kind of collective step: the others end soon, and files stay readable.

By default, some kinds of steps with 3 ranks; ``PYLB_EXPLORE=1``: all, with 2, 3 and 5 ranks.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launch import HERE, launch

import pylb
from pylb.errors import MissingFileError

pytest.importorskip("h5py")
STATES = {  # what the other ranks say about the place of the failed rank
    "SYNC": "in iteration 2",
    "GATHER": "at the end of iteration 2",
    "PLACE": "doing an LB step after iteration 2",
    "PACK": "placing objects after iteration 2",
    "ALLOCATE": "packing objects after iteration 2",
    "MIGRATE": "allocating memory for migrating objects after iteration 2",
    "MOVED": "packing objects after iteration 2",
    "COMMIT": "telling where objects have moved after iteration 2",
    "WORTH": "in iteration 5",
    "RECORD": "iteration 5",
    "CHECKPOINT": "after iteration 5",
}
FEW = [("MIGRATE", "kill"), ("MIGRATE", "raise"), ("CHECKPOINT", "kill"), ("COMMIT", "exit")]
WAYS = {  # the states that occur in these loops
    "distributed": ["SYNC", "PLACE", "PACK", "MIGRATE", "COMMIT", "RECORD", "CHECKPOINT"],
    "shadow": ["SYNC", "RECORD"],
}
ALL = [(state, how) for state in STATES for how in ("kill", "exit", "raise", "late")]
EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))
BOUND = 5.0 if EXPLORE else 20.0  # seconds; the machine may be busy


def check_end(code, out, end, case):
    """Check that the job failed, and ended soon after the rank."""
    assert code != 0
    assert "is through" not in out
    passed = end - float(re.search(r"at ([0-9.]+)$", out, re.M).group(1))
    print(f"{case}: {passed:.1f} s", file=sys.stderr)
    assert passed < BOUND


@pytest.mark.parametrize("ranks", [2, 3, 5] if EXPLORE else [3])
@pytest.mark.parametrize(("state", "how"), ALL if EXPLORE else FEW)
def test_the_others_end(mpiexec, state, how, ranks, tmp_path):
    code, out, said = launch(mpiexec, ranks, HERE / "dying.py", state, how, tmp_path)
    end, odd = time.time(), ranks - 1
    assert f"rank {odd} comes to {state}" in out
    if how == "late":
        assert code == 0, said
        assert out.count("is through") == ranks
        return
    check_end(code, out, end, f"{state} {how} {ranks}")
    if how == "raise":
        told = f"rank {odd}: ValueError: broken at {state} ("
        assert said.count(f"RemoteError: {told}") == ranks - 1, said
        assert STATES[state] in said[said.index(told) :]
    elif "openmpi" in Path(os.path.realpath(mpiexec[0])).as_posix() or "prte" in said:
        assert re.search(rf"rank {odd} |\],{odd}\]", said), said  # mpiexec names the rank
    assert pylb.RunRecord.read(tmp_path / "run.h5").n_iterations >= 0
    with pytest.raises(MissingFileError):  # an incomplete checkpoint is none
        pylb.Balancer.restore(None, tmp_path / "c")


OTHER_WAYS = [(way, state) for way, states in WAYS.items() for state in states]


@pytest.mark.parametrize("ranks", [2, 3, 5] if EXPLORE else [2])
@pytest.mark.parametrize("how", ["kill", "exit", "raise"] if EXPLORE else ["raise"])
@pytest.mark.parametrize(("way", "state"), OTHER_WAYS if EXPLORE else OTHER_WAYS[::6])
def test_the_others_end_in_other_loops(mpiexec, way, state, how, ranks, tmp_path):
    code, out, said = launch(mpiexec, ranks, HERE / "dying.py", state, how, tmp_path, way)
    end, odd = time.time(), ranks - 1
    assert f"rank {odd} comes to {state}" in out, said
    check_end(code, out, end, f"{way} {state} {how} {ranks}")
    if how == "raise":
        assert said.count(f"RemoteError: rank {odd}: ValueError: broken at {state} (") == ranks - 1


def test_two_ranks_that_fail_at_once_do_not_wait_for_each_other(mpiexec, tmp_path):
    """Rank 0 raises because shadow mode has no checkpoints, while rank 1 raises another error."""
    code, _, said = launch(mpiexec, 2, HERE / "dying.py", "CHECKPOINT", "raise", tmp_path, "shadow")
    assert code != 0
    assert "StateError: checkpoint(): expected" in said
    assert "ValueError: broken at CHECKPOINT" in said
    assert "did not come within" not in said


@pytest.fixture(scope="module")
def library(mpiexec, tmp_path_factory):
    """Return the library whose MPI calls fail."""
    of_pypi = Path(mpiexec[0]).parent == Path(sys.executable).parent
    if of_pypi or not shutil.which("mpicc") or not sys.platform.startswith("linux"):
        pytest.skip("no mpicc of this MPI")
    out = tmp_path_factory.mktemp("faulty") / "faulty.so"
    subprocess.run(["mpicc", "-shared", "-fPIC", "-o", out, HERE / "faulty_mpi.c"], check=True)
    return str(out)


CALLS = range(0, 240, 6) if EXPLORE else [60]


@pytest.mark.parametrize("late", [False, True] if EXPLORE else [False])
@pytest.mark.parametrize("ranks", [2, 3, 5] if EXPLORE else [3])
@pytest.mark.parametrize("at", CALLS)
def test_a_call_of_mpi_fails(mpiexec, library, at, ranks, late):
    faults = {"FAULTY_AT": str(at), "FAULTY_RANK": "1", "FAULTY_LIBRARY": library}
    if late:
        faults["FAULTY_LATE"] = "1"
    code, _, said = launch(mpiexec, ranks, HERE / "faulty.py", **faults, PYLB_ABORT_AFTER="1")
    if late or "faulty: " not in said:  # the program ended before this call
        assert code == 0, said
        return
    call = re.search(r"faulty: (\w+)", said).group(1)
    assert code != 0
    assert f"in MPI_{call}" in said
    assert re.search(r"rank 1: .*MPI_ERR_OTHER", said), said

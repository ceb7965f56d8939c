"""A rank fails in each state of the balancer: the others end soon, and files stay readable.

By default, a sample; ``PYLB_EXPLORE=1``: all states, faults and loops with 2, 3 and 5 ranks.
"""

import os
import random
import re
import sys
import time
from pathlib import Path

import pytest
from launch import HERE, launch

import pylb
from pylb.errors import MissingFileError

pytest.importorskip("h5py")
STATES = {  # what the other ranks print about where the failed rank was
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
WAYS = {  # the states that occur in these loops
    "central": list(STATES),
    "overlap": ["SYNC", "GATHER", "PLACE", "PACK", "ALLOCATE", "BODY", "COMMIT"],
    "beside": ["GATHER", "PLACE", "BODY", "ALLOCATE"],
    "distributed": ["SYNC", "PLACE", "PACK", "MIGRATE", "COMMIT", "RECORD", "CHECKPOINT"],
    "shadow": ["SYNC", "RECORD"],
    "lagged": [state for state in STATES if state not in ("SYNC", "RECORD")],
}
FAULTS = ["raise", "interrupt", "exit", "kill", "memory", "call"]
ALL = [
    *((w, s, how, p) for w in WAYS for s in WAYS[w] for how in FAULTS for p in (2, 3, 5)),
    *(("central", state, "late", p) for state in STATES for p in (2, 3, 5)),
]
FEW = [("central", "MIGRATE", "kill", 3), ("overlap", "BODY", "raise", 3)]
FEW += [("central", "CHECKPOINT", "kill", 3), ("central", "COMMIT", "exit", 3)]
FEW += [("central", "SYNC", "call", 2)]
EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))
CASES = ALL if EXPLORE else [*FEW, *random.Random(23).sample(ALL, 2)]


def check_end(code, out, end, case, last=False):
    """Check that the job failed; print how many seconds after the rank it ended.

    last: the failed call of MPI is the first one after the program's work is done.
    """
    assert code != 0
    assert last or "is through" not in out
    passed = end - float(re.search(r"at ([0-9.]+)$", out, re.M).group(1))
    print(f"{case}: {passed:.1f} s", file=sys.stderr)


@pytest.fixture
def preloaded(request, how):
    """Return the environment in which this fault is possible."""
    if how == "call":
        return {"FAULTY_LIBRARY": request.getfixturevalue("faulty_mpi")}
    if how == "memory":
        return {"FAULTY_LIBRARY": request.getfixturevalue("no_malloc"), "NO_MALLOC_IN": "pylb/_"}
    return {}


SAID = {
    **{"raise": "ValueError: broken at ", "interrupt": "KeyboardInterrupt"},
    "memory": "MemoryError: out of memory",
}


def remote_error(odd, how):
    """Return what each other rank prints in one piece; the ranks' lines may be mixed."""
    return f"rank {odd}: {SAID[how]}"


@pytest.mark.parametrize(("way", "state", "how", "ranks"), CASES)
def test_the_others_end(mpiexec, preloaded, way, state, how, ranks, tmp_path):
    words = (HERE / "dying.py", way, state, how, tmp_path)
    code, out, said = launch(mpiexec, ranks, *words, **preloaded)
    end, odd = time.time(), ranks - 1
    assert f"rank {odd} comes to {state}" in out, said
    if how == "late":
        assert code == 0, said
        assert out.count("is through") == ranks
        return
    check_end(code, out, end, f"{way} {state} {how} {ranks}")
    if how in SAID:
        told = remote_error(odd, how)
        assert said.count(told) == ranks - 1, said
        if way in ("central", "overlap") and how == "raise" and state in STATES:
            assert STATES[state] in said[said.index(told) :], said
    elif how == "call":
        assert "MPI_ERR_OTHER" in said
        # while objects come and go, an error of mpi4py may end the program
        assert re.search(rf"rank {odd}: (Exception: )?MPI", said), said
    elif "openmpi" in Path(os.path.realpath(mpiexec[0])).as_posix() or "prte" in said:
        assert re.search(rf"rank {odd} |[\]\d],{odd}\]", said), said  # mpiexec names the rank
    if way != "lagged":
        assert pylb.RunRecord.load(tmp_path / "run.h5").n_iterations >= 0
    with pytest.raises(MissingFileError):  # an incomplete checkpoint does not count
        pylb.Balancer.restore(None, tmp_path / "c")


SERVICES = {  # the number of collective steps of each service
    **{"advisor": 15, "lag": 7, "asked": 14, "partition": 4, "directory": 10, "plan": 9},
    **{"migrate": 6, "rows": 7, "tiles": 7, "ahead": 21, "ahead_lag": 12},
}
EVERY = [
    (way, at, how, p)
    for way, n in SERVICES.items()
    for at in range(n)
    for how in FAULTS
    for p in (2, 3, 5)
    if (way, at, p) != ("tiles", 6, 5)  # on 5 ranks, there are 6 steps
]


@pytest.mark.parametrize(
    ("way", "at", "how", "ranks"), EVERY if EXPLORE else random.Random(4).sample(EVERY, 3)
)
def test_the_others_end_in_a_service(mpiexec, preloaded, way, at, how, ranks, tmp_path):
    """A rank fails at a collective step of the advisor, a partition, a plan, rows and so on."""
    words = (HERE / "dying.py", way, at, how, tmp_path)
    code, out, said = launch(mpiexec, ranks, *words, **preloaded)
    end, odd = time.time(), ranks - 1
    assert f"rank {odd} comes to " in out, said
    last = how == "call" and at == SERVICES[way] - 1
    check_end(code, out, end, f"{way} {at} {how} {ranks}", last)
    if how in SAID:
        assert said.count(remote_error(odd, how)) == ranks - 1, said
    elif how == "call":
        assert f"rank {odd}: MPI" in said


def test_two_ranks_that_fail_at_once_do_not_wait_for_each_other(mpiexec, tmp_path):
    """Rank 0 raises because shadow mode has no checkpoints, while rank 1 raises another error."""
    code, _, said = launch(mpiexec, 2, HERE / "dying.py", "shadow", "CHECKPOINT", "raise", tmp_path)
    assert code != 0
    assert "StateError: checkpoint() in shadow mode" in said
    assert "ValueError: broken at CHECKPOINT" in said
    assert "did not come within" not in said


CALLS = range(0, 240, 6) if EXPLORE else [60]


@pytest.mark.parametrize("late", [False, True] if EXPLORE else [False])
@pytest.mark.parametrize("ranks", [2, 3, 5] if EXPLORE else [3])
@pytest.mark.parametrize("at", CALLS)
def test_a_call_of_mpi_fails(mpiexec, faulty_mpi, at, ranks, late):
    faults = {"FAULTY_AT": str(at), "FAULTY_RANK": "1", "FAULTY_LIBRARY": faulty_mpi}
    if late:
        faults["FAULTY_LATE"] = "1"
    code, _, said = launch(
        mpiexec, ranks, HERE / "faulty.py", "loop", **faults, PYLB_ABORT_AFTER="1"
    )
    if late or "faulty: " not in said:  # the program ended before this call
        assert code == 0, said
        return
    call = re.search(r"faulty: (\w+)", said).group(1)
    assert code != 0
    assert f"in MPI_{call}" in said
    assert re.search(r"rank 1(:| has ended its program by) .*MPI_ERR_OTHER", said), said


def test_no_request_is_lost_if_mpi_fails_after_a_failed_exchange(mpiexec, faulty_mpi):
    code, out, said = launch(mpiexec, 2, HERE / "faulty.py", "exchange", FAULTY_LIBRARY=faulty_mpi)
    assert code == 0, said
    assert out.count("done") == 2, out

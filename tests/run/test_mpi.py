"""The runtime under mpiexec: the programs of tests/mpi, each on several numbers of ranks."""

import pytest
from launch import HERE, every_case_is_done, launch


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("raise", "RemoteError: rank 2: ValueError: block 7 is broken (in iteration 3)"),
        ("interrupt", "RemoteError: rank 2: KeyboardInterrupt"),
        ("exit", "RemoteError: rank 2 ended its program in iteration 3, while rank 0 is at the"),
        ("break", "RemoteError: rank 2 ended its program in iteration 3, while rank 0 is at the"),
        ("constructor", "RemoteError: rank 2: no strategy 'nonsense'"),
        ("afterwards", "pylb: rank 0: rank 2: ValueError: after the loop"),
        ("one loop more", "RemoteError: rank 2 ended its program after iteration 5"),
        ("all raise", "ValueError: everybody"),
        ("blocked", "nobody hears me; the other ranks did not come within 1 s"),
        ("signal", "the other ranks did not come within 1 s"),
    ],
)
def test_every_rank_ends_and_says_why(mpiexec, case, says):
    code, _, said = launch(mpiexec, 3, HERE / "endings.py", case, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert says in said


@pytest.mark.parametrize(
    "call", ["Balancer(comm)", "partition(ids=[0], method='block', comm=comm)"]
)
def test_a_wrong_communicator_on_one_rank_ends_all(mpiexec, call):
    """The other ranks already wait in MPI for this rank, which can tell them nothing."""
    start = "from mpi4py.MPI import COMM_WORLD as comm; import pylb\n"
    program = f"{start}if comm.rank: comm = 3\npylb.{call}"
    code, _, said = launch(mpiexec, 2, "-c", program, PYLB_ABORT_AFTER="0.1")
    assert code != 0
    assert "comm is 3: expected" in said


@pytest.mark.parametrize("case", ["fine", "stop"])
def test_a_good_end_says_nothing(mpiexec, case):
    """A run that ends well prints nothing, even if a rank was stopped for two seconds."""
    code, out, said = launch(mpiexec, 3, HERE / "endings.py", case)
    assert code == 0
    for r in range(3):  # lines of several ranks may be mixed
        assert out.count(f"rank {r} is through") == 1
    assert "pylb" not in said


@pytest.mark.parametrize("program", ["caught.py", "no_memory.py"])
def test_all_ranks_raise_and_can_continue(mpiexec, program):
    """An error that one rank catches reaches all, also if it has no memory for a migration."""
    every_case_is_done(mpiexec, 3, program)

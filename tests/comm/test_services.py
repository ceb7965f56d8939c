"""Data services: plans of communication, directories, migration."""

import re
import sys

import numpy as np
import pytest
import service_cases
from each_case import cases_of
from launch import launch

import pylb
from pylb import _core
from pylb.errors import DomainError, OutOfRangeError


@pytest.mark.parametrize("case", cases_of(service_cases), ids=lambda case: case.__name__)
def test_cases_on_virtual_ranks(case):
    pylb.VirtualCluster(4).run(case)


@pytest.mark.parametrize("case", cases_of(service_cases), ids=lambda case: case.__name__)
def test_cases_on_one_rank(case):
    class Alone:  # a communicator of one rank, with the methods that the cases use
        rank, size = 0, 1

        def allgather(self, x):
            return [x]

    with pytest.MonkeyPatch.context() as patch:
        for name in ("Plan", "Directory", "migrate", "plan_between"):
            owner = pylb if hasattr(pylb, name) else pylb.comm
            real = getattr(owner, name)
            patch.setattr(owner, name, lambda comm, *a, real=real, **k: real(None, *a, **k))
        case(Alone())


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["np.arange(comm.size)", "3"])
def test_one_rank_passes_a_list_and_another_one_an_array(mpiexec, odd):
    program = (
        "import numpy as np, pylb; from mpi4py import MPI; comm = MPI.COMM_WORLD\n"
        f"values = {odd} if comm.rank == 1 else list(range(comm.size))\n"
        "pylb.Plan(comm, range(comm.size)).forward(values)\n"
    )
    code, _, said = launch(mpiexec, 3, "-c", program)
    assert code != 0
    words = r"rank 1 (passes an array, but rank . a list|has failed in this exchange)"
    assert re.search(words, said)


@pytest.mark.slow
def test_a_rank_passes_a_list_and_sends_nothing_to_a_partner_with_an_array(mpiexec):
    program = (
        "import numpy as np, pylb; from mpi4py import MPI; comm = MPI.COMM_WORLD\n"
        "values = ['one object'] if comm.rank == 1 else np.zeros(1)\n"
        "pylb.Plan(comm, [(comm.rank + 1) % comm.size]).forward(values)\n"
        "comm.barrier()\n"  # rank 0 knows nothing of the error
    )
    code, _, said = launch(mpiexec, 3, "-c", program, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert "rank 0 passes an array, but rank 1 a list: expected the same on all ranks" in said


def test_a_lane_works_after_an_exchange_that_could_not_begin():
    world = pytest.importorskip("mpi4py.MPI").COMM_SELF
    exchanger = pytest.importorskip("pylb._mpi").Comm(world)
    mine = (np.zeros(1, np.int32), np.array([0, 2]), None, None)
    nothing = (np.zeros(0, np.int32), np.array([0]), None, None)
    rows = np.zeros(2)
    lane = sys.modules["pylb._mpi"].Lane(exchanger, (mine, 2, nothing, 0), rows, 2)
    held = sys.getrefcount(rows)
    for _ in range(2):
        with pytest.raises(DomainError, match="sends 2 rows to itself, but receives 0: expected"):
            lane.begin(rows, None)
    assert sys.getrefcount(rows) == held
    exchanger.free()


def test_route_refuses_numbers_that_are_not_ranks():
    for wrong in (-1, 3):
        with pytest.raises(
            OutOfRangeError, match=rf"destination\[1\] is {wrong}: expected 0 ... 2"
        ):
            _core.route(np.array([0, wrong], np.int32), 3)


def test_homes_are_spread_evenly_over_the_ranks():
    """The ids are hashed evenly, even if they have a pattern."""
    for step in (1, 8, 4096, 2**32, 2**48):
        home = _core.home(np.arange(20_000, dtype=np.int64) * step, 7)
        counts = np.bincount(home, minlength=7)
        assert counts.max() < 1.08 * counts.mean()


def test_repr_of_a_plan_and_of_a_directory():
    assert repr(pylb.Plan(None, [0, 0])) == "<Plan: sends 2 items to 1 ranks, receives 2 from 1>"
    where = pylb.Directory(None, [("x", "f8")])
    where.update([3, 4], data=np.zeros(2, [("x", "f8")]))
    assert repr(where) == "<Directory: 2 entries on rank 0 of 1, data [('x', '<f8')] ()>"

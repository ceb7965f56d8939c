"""A rank ends while other ranks wait in an MPI call of their own: the job ends, and says why."""

import os
import re
import subprocess
import sys

import pytest
from launch import launch

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from mpi4py import MPI
import pylb
world = MPI.COMM_WORLD
part = world.Split(world.rank < 2, world.rank)
lb = pylb.Balancer(part)
lb.add(world.rank, None)
for it in lb.iterate(5):
    for key, block in lb.local():
        pass
    if world.rank == 1 and it == 2:
        {end}
world.barrier()
"""


def ended(mpiexec, tmp_path, end):
    """Return the standard error of a program on three ranks, of which the last has no balancer."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(end=end))
    done = subprocess.run(
        [*mpiexec, "-n", "3", sys.executable, str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYLB_ABORT_AFTER": "1"},
    )
    assert done.returncode != 0
    return done.stderr


def test_an_uncaught_exception_ends_ranks_that_wait_elsewhere(mpiexec, tmp_path):
    said = ended(mpiexec, tmp_path, "raise ValueError('I am broken')")
    assert re.search(r"rank 1 has ended its program by ValueError: I am broken; for 6 s it", said)
    assert "aborting all ranks" in said


def test_an_end_without_exception_says_who_waits(mpiexec, tmp_path):
    said = ended(mpiexec, tmp_path, "sys.exit(0)")
    assert "rank 1 ended its program in iteration 2, while rank 0 is" in said
    assert re.search(r"rank 0 has ended its program by RemoteError: rank 1 ended", said)


@pytest.mark.parametrize("text", ["soon", "inf"])
def test_a_time_limit_that_is_no_number_is_refused(mpiexec, text):
    """When ranks meet, not at import: a program of one rank does not need it."""
    env = {**os.environ, "PYLB_ABORT_AFTER": text}
    alone = "import pylb.comm.program_end; lb = pylb.Balancer(); lb.add(0, 1); list(lb.iterate(1))"
    done = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    program = "from mpi4py import MPI; import pylb; pylb.Balancer(MPI.COMM_WORLD)"
    code, _, said = launch(mpiexec, 2, "-c", program, PYLB_ABORT_AFTER=text)
    assert code != 0
    assert f"DomainError: PYLB_ABORT_AFTER is '{text}': expected seconds" in said


@pytest.mark.parametrize(
    ("start", "says"), [("", "not started"), ("MPI.Init(); MPI.Finalize();", "ended")]
)
def test_mpi_is_not_running(start, says):
    program = f"""
import mpi4py
mpi4py.rc(initialize=False, finalize=False)
from mpi4py import MPI
import pylb
comm = MPI.COMM_WORLD
{start}
for call in (
    lambda: pylb.Balancer(comm),
    lambda: pylb.Plan(comm, [0]),
    lambda: pylb.partition(coords=[[0.0]], parts=1, comm=comm),
    lambda: pylb.model.measure_network(comm),
):
    try:
        call()
    except pylb.errors.StateError as why:
        print(why)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"MPI has {says}: expected a call between MPI.Init") == 4

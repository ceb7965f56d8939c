"""A rank dies under an MPI that tolerates it (ULFM, in Open MPI 5): its objects are named."""

import re
import subprocess

import pytest
from launch import HERE, launch


@pytest.fixture(scope="module")
def tolerant(mpiexec):
    """Return the words that start ranks of which one may die."""
    said = subprocess.run([*mpiexec, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"Open MPI\D*(\d+)", said.stdout)
    if found is None or int(found[1]) < 5:
        pytest.skip("needs Open MPI 5: make test MPI=openmpi5")
    return [*mpiexec, "--with-ft", "ulfm"]


@pytest.mark.parametrize("lag", ["", "lag=1"])
def test_a_dead_rank_and_its_objects_are_named(tolerant, lag):
    code, _, said = launch(tolerant, 3, HERE / "killed.py", lag)
    assert code != 0
    told = re.findall(
        r"MPIError: rank 2 has died; of its objects, this rank knows \d+: (.+) \(", said
    )
    assert told, said
    assert re.search(r"noticed in iteration 4[0-2]:", said), said
    named = {int(key) for line in told for key in line.split(", ")}
    assert named
    assert named <= set(range(16, 24))

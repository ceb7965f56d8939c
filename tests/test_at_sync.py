"""Loops with a lag under mpiexec: the programs of tests/mpi/at_sync*.py."""

import pytest
from test_mpi import HERE, launch


@pytest.mark.parametrize(("ranks", "iterations"), [(1, 100), (2, 1000), (3, 1000), (5, 10_000)])
def test_cases(mpiexec, ranks, iterations):
    code, _, said = launch(mpiexec, ranks, str(HERE / "at_sync.py"), str(iterations))
    assert code == 0, said

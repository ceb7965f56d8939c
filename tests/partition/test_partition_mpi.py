"""A rank that fails alone; tests/mpi/partition_cases.py has the other cases."""

import pytest
from launch import HERE, launch

from pylb.partitioning import libraries


@pytest.mark.skipif(not libraries.available("Zoltan"), reason="Zoltan is not here")
def test_a_rank_that_fails_alone_ends_all(mpiexec):
    code, _, said = launch(mpiexec, 3, HERE / "partition_alone.py", PYLB_ABORT_AFTER="1")
    assert code != 0
    assert "Zoltan ERROR" in said
    assert "the other ranks did not come within 1 s" in said

"""pylb.partition under mpiexec: tests/mpi/partition_cases.py on several numbers of ranks."""

import pytest
from test_mpi import HERE, launch

from pylb import partitioners


@pytest.mark.skipif(not partitioners.available("Zoltan"), reason="Zoltan is not here")
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_cases(mpiexec, ranks):
    code, out, said = launch(mpiexec, ranks, str(HERE / "partition_cases.py"))
    assert code == 0, said
    assert "all cases hold" in out

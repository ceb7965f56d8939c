"""The cases of tests/mpi/*_cases.py: one job for each number of ranks, as a start takes longest."""

from importlib.util import find_spec

import pytest
from launch import HERE, answers_of

from pylb.partitioning import libraries

FILES = sorted(path.stem for path in HERE.glob("*cases.py") if "\nCASES = " in path.read_text())


@pytest.fixture(scope="module")
def answers(mpiexec):
    """Return a function that runs the cases on a number of ranks, and keeps their answers."""
    left_out = set() if libraries.available("Zoltan") else {"partition_cases"}
    if find_spec("pylb._dgraph") is None:
        left_out.add("dgraph_cases")
    return answers_of(mpiexec, "each_case.py", *(f for f in FILES if f not in left_out))


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_cases(answers, ranks):
    """Of two ranks, each also runs them alone."""
    found = answers(ranks)
    assert sum(map(len, found.values())) > 90
    assert any(answer is not None for answer in found["cases"].values())
    for file in ("cases", "multicast_cases"):
        assert found[file] == answers(2)[file]

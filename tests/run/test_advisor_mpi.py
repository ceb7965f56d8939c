"""The advisor under mpiexec: how programs end; tests/mpi/advisor_cases.py has more."""

import pytest
from launch import HERE, launch


@pytest.mark.parametrize(
    ("case", "lag", "says"),
    [
        ("raise", "2", "rank 2: ValueError: cell 7 is broken"),
        ("exit", "0", "rank 2 ended its program"),
        ("break", "2", "rank 2 ended its program"),
        ("skip", "0", "rank 2: advise() was not called in step 3"),
        ("own loop", "0", "rank 2: ValueError: cell 7 is broken"),
    ],
)
def test_every_rank_ends_and_says_why(mpiexec, case, lag, says):
    words = str(HERE / "advisor_endings.py"), case, lag
    code, _, said = launch(mpiexec, 3, *words, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert says in said


@pytest.mark.parametrize(("ranks", "lag"), [(3, "0"), (5, "2")])
def test_a_rank_fails_while_cells_are_on_their_way(mpiexec, ranks, lag):
    words = str(HERE / "advisor_endings.py"), "moving", lag
    code, _, said = launch(mpiexec, ranks, *words, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert "cell 7 is broken" in said


@pytest.mark.parametrize(("case", "lag"), [("fine", "2"), ("fine in an own loop", "0")])
def test_a_good_end_says_nothing(mpiexec, case, lag):
    words = str(HERE / "advisor_endings.py"), case, lag
    code, out, said = launch(mpiexec, 3, *words)
    assert code == 0, said
    assert out.count("is through") == 3
    assert "pylb" not in said

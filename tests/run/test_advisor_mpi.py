"""The advisor under mpiexec: how programs end; tests/mpi/advisor_cases.py has more."""

import pytest
from launch import HERE, launch


@pytest.mark.parametrize("lag", ["0", "2"])
@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("raise", "rank 2: ValueError: cell 7 is broken"),
        ("exit", "rank 2 ended its program"),
        ("break", "rank 2 ended its program"),
        ("skip", "rank 2: advise() was not called in step 3"),
        ("own loop", "rank 2: ValueError: cell 7 is broken"),
        ("blocked", "cell 7 is broken"),
    ],
)
def test_every_rank_ends_and_says_why(mpiexec, case, lag, says):
    words = str(HERE / "advisor_endings.py"), case, lag
    code, _, said = launch(mpiexec, 3, *words, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert says in said


@pytest.mark.parametrize("lag", ["0", "2"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_rank_fails_while_cells_are_on_their_way(mpiexec, ranks, lag):
    words = str(HERE / "advisor_endings.py"), "moving", lag
    code, _, said = launch(mpiexec, ranks, *words, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert "cell 7 is broken" in said


@pytest.mark.parametrize("lag", ["0", "2"])
@pytest.mark.parametrize("case", ["fine", "fine in an own loop"])
def test_a_good_end_says_nothing(mpiexec, case, lag):
    words = str(HERE / "advisor_endings.py"), case, lag
    code, out, said = launch(mpiexec, 3, *words)
    assert code == 0, said
    assert out.count("is through") == 3
    assert "pylb" not in said

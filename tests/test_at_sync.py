"""Loops with a lag under mpiexec: the programs of tests/mpi/at_sync*.py."""

import re

import pytest
from test_mpi import HERE, launch


@pytest.mark.parametrize(("ranks", "iterations"), [(1, 100), (2, 1000), (3, 1000), (5, 10_000)])
def test_cases(mpiexec, ranks, iterations):
    code, _, said = launch(mpiexec, ranks, str(HERE / "at_sync.py"), str(iterations))
    assert code == 0, said


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("raise", "RemoteError: rank 2: ValueError: block 7 is broken (in iteration 5)"),
        ("blocked", "nobody hears me; the other ranks did not come within 1 s"),
        ("pause", "RemoteError: rank 2: KeyboardInterrupt"),
        ("load", "RemoteError: rank 2: ValueError: no load today"),
        ("pickle", "SerializationError: rank 2: object 5 (lock) cannot be pickled"),
        ("trigger", "ValueError: do not ask"),
        ("objects raise", "RemoteError: rank 2: ValueError: object "),
        ("objects interrupt", "RemoteError: rank 2: KeyboardInterrupt"),
        ("objects inf raise", "RemoteError: rank 2: ValueError: object "),
    ],
)
def test_every_rank_ends_and_says_why(mpiexec, case, says):
    code, out, said = launch(
        mpiexec, 3, str(HERE / "at_sync_endings.py"), case, PYLB_ABORT_AFTER="1"
    )
    assert code != 0
    assert "is through" not in out
    assert says in said
    assert ("aborting" in said) == (case == "blocked")


@pytest.mark.parametrize(
    ("case", "through"),
    [
        ("exit", ["0: 20 []", "1: 20 []"]),
        ("break", ["0: 20 []", "1: 20 []", "2: "]),
        ("caught", ["0: 23 []", "1: 23 []", "2: 23 []"]),
        ("stop", ["0: 20 [7, 15]", "1: 20 [7, 15]", "2: 20 [7, 15]"]),
        ("objects inf exit", ["0: 20 []", "1: 20 []"]),
    ],
)
def test_the_others_go_on(mpiexec, case, through):
    code, out, said = launch(mpiexec, 3, str(HERE / "at_sync_endings.py"), case)
    assert code == 0, said
    lines = sorted(re.findall(r"rank (\d is through: \d+ \[[^]]*)", out))
    assert len(lines) == len(through)
    for line, says in zip(lines, through, strict=True):
        assert line.startswith(says.replace(":", " is through:").rstrip("]"))

"""Loops with a lag under mpiexec: the programs of tests/mpi/at_sync*.py."""

import re

import numpy as np
import pytest
from launch import HERE, launch

import pylb
from pylb.errors import StateError
from pylb.run.records import IterationLog, Row
from pylb.run.report import IterationMetrics


def test_the_iteration_log_is_the_same_in_blocks_and_row_by_row():
    rows = np.arange(96.0).reshape(12, 8)
    log = IterationLog()
    assert IterationMetrics.of(log).time.shape == (0,)
    for i, n in enumerate([1, 3, 0, 2, 6]):
        at = len(log)
        if i % 2:
            log.extend(rows[at : at + n].tolist())
        else:
            for row in rows[at : at + n]:
                log.append(Row(*row))
        assert len(log) == at + n
        assert i == 2 or np.array_equal(log.table(), rows[: at + n])
    made = IterationMetrics.of(log)
    assert np.array_equal(made.utilization, rows[:, 4])
    assert np.array_equal(made.idle_mean, rows[:, 1] - rows[:, 2])
    assert np.array_equal(made.idle_max, rows[:, 1] - rows[:, 5])


def test_not_on_virtual_ranks():
    def program(comm):
        for _ in pylb.Balancer(comm, lag=2).iterate(3):
            pass

    with pytest.raises(StateError, match="expected lag=0"):
        pylb.VirtualCluster(2).run(program)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("raise", "RemoteError: rank 2: ValueError: block 7 is broken (in iteration 5)"),
        ("blocked", "nobody hears me; the other ranks did not come within 1 s"),
        ("pause", "RemoteError: rank 2: KeyboardInterrupt"),
        ("all raise", "ValueError: everybody"),
        ("pickle", "SerializationError: rank 2: object 5 (lock) cannot be pickled"),
        ("objects raise", "RemoteError: rank 2: ValueError: object "),
        ("objects inf raise", "RemoteError: rank 2: ValueError: object "),
    ],
)
def test_every_rank_ends_and_says_why(mpiexec, case, says):
    code, out, said = launch(mpiexec, 3, HERE / "at_sync_endings.py", case, PYLB_ABORT_AFTER="1")
    assert code != 0
    assert "is through" not in out
    assert says in said
    assert ("aborting" in said) == (case == "blocked")


@pytest.mark.parametrize(
    ("case", "through"),
    [
        ("exit", ["0: 20 []", "1: 20 []"]),
        ("break", ["0: 20 []", "1: 20 []", "2: "]),
        ("break alone", ["0: 20 []", "1: 20 []", "2: 20 []"]),
        ("caught", ["0: 23 []", "1: 23 []", "2: 23 []"]),
        ("stop", ["0: 20 [7, 15]", "1: 20 [7, 15]", "2: 20 [7, 15]"]),
        ("objects inf exit", ["0: 20 []", "1: 20 []"]),
        ("objects raise caught", ["0: 23 []", "1: 23 []", "2: 23 []"]),
    ],
)
def test_the_others_go_on(mpiexec, case, through):
    code, out, said = launch(mpiexec, 3, HERE / "at_sync_endings.py", case)
    assert code == 0, said
    lines = sorted(re.findall(r"rank (\d is through: \d+ \[[^]]*)", out))
    assert len(lines) == len(through)
    for line, says in zip(lines, through, strict=True):
        assert line.startswith(says.replace(":", " is through:").rstrip("]"))

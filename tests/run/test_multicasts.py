"""Multicasts: on virtual ranks, under mpiexec, and their parts."""

import sys
from pathlib import Path

import numpy as np
import pytest
from launch import answers_of

import pylb
from pylb import _core
from pylb.comm import parcel
from pylb.errors import StateError
from pylb.model.multicasts import Rows

sys.path.insert(0, str(Path(__file__).parents[1] / "mpi"))
import multicast_cases  # what also runs under mpiexec


@pytest.mark.parametrize("case", multicast_cases.CASES)
def test_cases(case):
    answers = [pylb.VirtualCluster(p, clock="none").run(case) for p in (1, 2, 3, 5)]
    assert all(answer == answers[0][0] for ranks in answers for answer in ranks)


@pytest.fixture(scope="module")
def answers(mpiexec):
    return answers_of(mpiexec, "multicast_cases.py")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_cases_of_mpi(answers, ranks):
    assert answers(ranks) == answers(1)


def test_without_messages():
    lb = pylb.Balancer(lag=2)
    lb.add(0, None)
    with pytest.raises(StateError, match=r"multicast\(\) with lag=2"):
        lb.multicast([0], 0, 1.0)


def mail(*keys):
    out = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)
    out.bind(_core.Keys(np.array(keys, np.int64)))
    return out


def test_the_wire_has_the_data_once():
    home = mail(9)
    home.multicast(range(5), 9, np.zeros(100), True)
    home.post(7, 9, 1.0, True)
    home.multicast([1, 3], 9, 2.0, True)
    home.open()
    to = np.array([1, 2, 1, 1, 0, 1, 1, 2], np.int32)
    (_, n_1, wire_1, _), (_, n_2, wire_2, _) = home.pack(to, 0)
    head, row = 32, 8
    assert (n_1, len(wire_1)) == (3, 8 + (head + 3 * row + 800) + head + head)
    assert (n_2, len(wire_2)) == (2, 8 + (head + row + 800) + head)
    home.deliver()
    assert home.edges().tolist() == [
        *([9, target, 800, 1, 1] for target in range(5)),
        [9, 7, 8, 1, 0],
        [9, 1, 8, 1, 2],
        [9, 3, 8, 1, 2],
    ]


def test_a_wire_that_was_cut():
    home = mail(9)
    home.multicast(range(5), 9, np.zeros(2), True)
    home.open()
    ((_, _, wire, _),) = home.pack(np.ones(5, np.int32), 0)
    for n in range(len(wire)):
        with pytest.raises(ValueError, match="ends within"):
            mail(1).take(wire[:n], [])
    there = mail(3, 4)
    there.take(wire, [])
    assert there.part()[0].tolist() == [0, 1, 2]
    there.restore()
    there.deliver()
    (_, a), (_, b) = *there.inbox(3), *there.inbox(4)
    assert a is not b


def test_rows_and_back():
    snapshot = pylb.Snapshot(
        np.ones(5),
        rank=[0, 0, 1, 1, 2],
        edges=([0, 1], [1, 2], [5, 6]),
        multicasts=([3, 3, 0], [0, 2, 4, 5], [0, 1, 0, 1, 4], [7, 8, 9], [1, 2, 0.5]),
    )
    rows = Rows.of(snapshot)
    assert rows.multicast.tolist() == [0, 0, 1, 1, 2, 2, 3]
    edges, multicasts = rows.split()
    for column, expected in zip(edges[:3], snapshot.edges[:3], strict=True):
        assert column.tolist() == expected.tolist()
    for column, expected in zip(multicasts, snapshot.multicasts, strict=True):
        assert column.tolist() == expected.tolist()
    assert Rows.of(pylb.Snapshot(np.ones(2), rank=[0, 0])).split()[1] is None

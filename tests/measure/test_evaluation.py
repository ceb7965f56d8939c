"""Evaluation of a placement, by hand."""

import numpy as np
import pytest

import pylb
from pylb import _core
from pylb.errors import DomainError, OutOfRangeError


def test_evaluation_by_hand():
    """A multicast to three objects on two other ranks is two messages, one within the node."""
    snap = pylb.Snapshot(
        load=np.ones(5),
        rank=[0, 0, 1, 1, 2],
        n_ranks=3,
        node=[0, 0, 1],
        edges=([0, 2], [1, 4], [7.0, 9.0]),
        multicasts=([0], [0, 4], [1, 2, 3, 4], [10.0]),
        memory=[1, 1, 1, 1, 1],
        block=[-1, 0, 0, 0, 0],
        block_bytes=[100],
    )
    e = pylb.evaluate(snap)
    assert (e.cut, e.connectivity) == (9.0, 20.0)
    assert (e.bytes_local, e.bytes_node, e.bytes_network) == (17.0, 10.0, 19.0)
    assert e.hop_bytes == 2 * 10.0 + 4 * 19.0
    assert (e.messages_local, e.messages_node, e.messages_network) == (2, 1, 2)
    assert (e.sent_max, e.received_max) == (20.0, 19.0)
    assert (e.link_max, e.link_src, e.link_dst) == (10.0, 0, 1)
    assert (e.neighbours_mean, e.neighbours_max) == (2.0, 2)
    assert e.memory_max == 102
    assert e.metrics.max_over_mean == pytest.approx(1.2)


def test_bad_placements_are_errors():
    snap = pylb.Snapshot(np.ones(3), [0, 1, 1], migratable=[True, False, True])
    with pytest.raises(ValueError, match="2 entries: expected 3"):
        pylb.evaluate(snap, [0, 1])
    with pytest.raises(OutOfRangeError, match=r"placement\[2\] is 2: expected 0 \.\.\. 1"):
        pylb.evaluate(snap, [0, 1, 2])
    with pytest.raises(DomainError, match="object 1 may not migrate from rank 1"):
        pylb.evaluate(snap, [0, 0, 1])


def test_fields_have_the_names_of_the_core():
    assert tuple(_core.evaluate(pylb.Snapshot([], []))) == pylb.measure.Evaluation._fields[1:]

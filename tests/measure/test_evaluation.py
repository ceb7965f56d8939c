"""Evaluation of a placement against a plain twin, and by hand."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb import _core
from pylb.errors import DomainError, OutOfRangeError


def twin(snap, rank):
    """Compute every field with dictionaries, one message after the other."""
    rank = [int(r) for r in rank]
    node = range(snap.n_ranks) if snap.node is None else snap.node.tolist()
    sent = []  # (source rank, destination rank, bytes, messages)
    out = dict.fromkeys(pylb.measure.Evaluation._fields[1:], 0)
    if snap.edges is not None:
        src, dst, nbytes, messages = snap.edges
        messages = np.ones(len(src)) if messages is None else messages
        sent += zip([rank[i] for i in src], [rank[i] for i in dst], nbytes, messages, strict=True)
        out["cut"] = sum(b for r, s, b, _ in sent if r != s)
    if snap.multicasts is not None:
        src, start, dst, nbytes, messages = snap.multicasts
        messages = np.ones(len(src)) if messages is None else messages
        for e, source in enumerate(src):
            reached = {rank[i] for i in dst[start[e] : start[e + 1]]}
            sent += [(rank[source], r, nbytes[e], messages[e]) for r in reached]
            out["connectivity"] += nbytes[e] * len(reached - {rank[source]})
    links, neighbours = defaultdict(float), defaultdict(set)
    by_sender, by_receiver = Counter(), Counter()
    for r, s, nbytes, messages in sent:
        where = "local" if r == s else "node" if node[r] == node[s] else "network"
        out[f"bytes_{where}"] += nbytes
        out[f"messages_{where}"] += messages
        if r != s:
            links[r, s] += nbytes
            by_sender[r] += nbytes
            by_receiver[s] += nbytes
            neighbours[r].add(s)
            neighbours[s].add(r)
    out["hop_bytes"] = 2 * out["bytes_node"] + 4 * out["bytes_network"]
    out["sent_max"] = max(by_sender.values(), default=0)
    out["received_max"] = max(by_receiver.values(), default=0)
    out["link_src"], out["link_dst"] = min(links, key=lambda k: (-links[k], k), default=(-1, -1))
    out["link_max"] = max(links.values(), default=0)
    out["neighbours_mean"] = sum(map(len, neighbours.values())) / snap.n_ranks
    out["neighbours_max"] = max(map(len, neighbours.values()), default=0)
    memory = np.zeros(snap.n_ranks, int)
    if snap.memory is not None:
        np.add.at(memory, rank, snap.memory)
    if snap.block is not None:
        for r, b in {(r, b) for r, b in zip(rank, snap.block.tolist(), strict=True) if b >= 0}:
            memory[r] += snap.block_bytes[b]
    out["memory_max"] = memory.max()
    moved = np.asarray(rank, int).reshape(-1) != snap.rank
    out["migrations"] = moved.sum()
    out["migration_bytes"] = 0 if snap.nbytes is None else snap.nbytes[moved].sum()
    return out


@st.composite
def snapshots(draw):
    """Snapshots with any optional arrays; sizes are integers, so sums are exact."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, p = draw(st.integers(0, 30)), draw(st.integers(1, 9))
    fields = {}
    if n and draw(st.booleans()):
        m = draw(st.integers(0, 60))
        ends = rng.integers(n, size=(2, m))
        messages = rng.integers(5, size=m) if draw(st.booleans()) else None
        fields["edges"] = (*ends, rng.integers(50, size=m), messages)
    if n and draw(st.booleans()):
        c = draw(st.integers(0, 12))
        start = np.concatenate([[0], np.cumsum(rng.integers(0, 9, size=c))])
        receivers = rng.integers(n, size=start[-1])
        messages = rng.integers(5, size=c) if draw(st.booleans()) else None
        fields["multicasts"] = (
            rng.integers(n, size=c), start, receivers, rng.integers(50, size=c), messages
        )  # fmt: skip
    if draw(st.booleans()):
        fields["node"] = rng.integers(3, size=p)
    if draw(st.booleans()):
        fields["nbytes"] = rng.integers(100, size=n)
    if draw(st.booleans()):
        fields["memory"] = rng.integers(100, size=n)
    if draw(st.booleans()):
        fields["block"] = rng.integers(-1, 4, size=n)
        fields["block_bytes"] = rng.integers(1000, size=4)
    rank, other = rng.integers(p, size=(2, n))
    return pylb.Snapshot(rng.random(n), rank, n_ranks=p, **fields), other


@examples(300)
@given(snapshots())
def test_evaluation_agrees_with_the_twin(case):
    snap, rank = case
    for where in (rank, snap.rank):
        got = pylb.evaluate(snap, where)
        assert got._asdict() == {
            **twin(snap, where),
            "components": (snap.with_rank(where).metrics,),
            "neighbours_mean": pytest.approx(twin(snap, where)["neighbours_mean"], rel=1e-12),
        }
    assert pylb.evaluate(snap) == pylb.evaluate(snap, snap.rank)


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

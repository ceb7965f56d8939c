"""Ranks learn about their node and their partners with few messages."""

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

from pylb import VirtualCluster, _core
from pylb.comm.agreement import Agreement
from pylb.comm.connect import Virtual
from pylb.run.lb_step import exchange_speeds
from pylb.run.options import ranks_with


@examples(30)
@given(st.data())
def test_each_rank_learns_the_ranks_of_its_node(data):
    """Each rank learns the ranks of its node; the list is empty if there is only one node."""
    p = data.draw(st.integers(1, 12))
    names = data.draw(st.lists(st.sampled_from(["a", "b", "ü", "node17"]), min_size=p, max_size=p))

    def main(comm):
        return ranks_with(Agreement(Virtual(comm)), 0, names[comm.rank]).tolist()

    one = len(set(names)) == 1
    expected = [[] if one else [r for r in range(p) if names[r] == name] for name in names]
    assert VirtualCluster(p).run(main) == expected


@examples(30)
@given(st.data())
def test_partners_learn_their_speeds(data):
    p = data.draw(st.integers(2, 8))
    others = [[s for s in range(p) if s != r] for r in range(p)]
    to = [data.draw(st.lists(st.sampled_from(others[r]), max_size=6)) for r in range(p)]

    def main(comm):
        me = comm.rank
        known = exchange_speeds(Agreement(Virtual(comm)), 0, 1.0 + me, np.array(to[me], np.int32))
        partners = sorted({me, *to[me], *(r for r in range(p) if me in to[r])})
        assert known[np.array(partners)].tolist() == [1.0 + r for r in partners]
        assert known[me] == 1.0 + me

    VirtualCluster(p).run(main)


@pytest.mark.parametrize("p", [64, 256])
def test_what_a_rank_hears_of_nodes_does_not_grow_with_the_ranks(p, monkeypatch):
    """A node has 16 ranks."""
    heard = np.zeros(p, np.int64)
    step = Virtual.step

    def counting(self, sample, sends, into=None):
        record, received = step(self, sample, sends, into)
        heard[self.rank] += sum(len(part) for _, parts in received for part in parts)
        return record, received

    monkeypatch.setattr(Virtual, "step", counting)
    found = VirtualCluster(p).run(
        lambda comm: ranks_with(Agreement(Virtual(comm)), 0, f"node {comm.rank // 16}").tolist()
    )
    assert found == [list(range(r - r % 16, r - r % 16 + 16)) for r in range(p)]
    assert heard.max() <= 3 * 16 * len("node 15") + 16 * 4


@pytest.mark.parametrize(("p", "expected"), [(1, 32), (8192, 32), (65536, 4)])
def test_the_sample_for_speeds_is_limited_per_rank_and_in_all(p, expected):
    """Each rank has 1,000 objects; only the first million keys are counted."""
    among = min(1000 * p, 10**6)
    sampled = len(_core.sampled(np.arange(among), 1000 * p, p))
    assert sampled == pytest.approx(among * expected / 1000, rel=0.3)

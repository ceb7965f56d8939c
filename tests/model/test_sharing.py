"""The time of iterations on ranks that share cores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylb import _core
from pylb.model.machine import as_before, fractions, spans

LOADS = st.floats(0, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))


@st.composite
def groups(draw):
    """Ranks in groups, the number of cores of each rank's group, and a load for each rank."""
    p = draw(st.integers(1, 12))
    group = np.array(draw(st.lists(st.integers(0, p - 1), min_size=p, max_size=p)), np.int32)
    cores = np.array(draw(st.lists(st.sampled_from([0.5, 1, 2, 3, 8]), min_size=p, max_size=p)))
    load = draw(st.lists(LOADS, min_size=p, max_size=p))
    return group, cores[group].astype(float), np.array(load)


@given(groups())
def test_no_core_idles_while_a_rank_waits_for_one(case):
    group, cores, load = case
    time = _core.shared_times(group, cores, load[None])[0]
    bounds = [load[group == g].sum() / cores[group == g][0] for g in set(group.tolist())]
    assert time == pytest.approx(max(load.max(), *bounds), rel=1e-12)
    many = np.full(len(load), float(len(load)))
    assert _core.shared_times(group, many, load[None])[0] == load.max()  # to the last bit


@given(groups())
def test_the_same_ranks_need_the_same_time_without_their_waits(case):
    group, cores, end = case
    alone = _core.loads_without_waits(group, cores, end[None]).reshape(1, -1)
    assert (alone <= end).all()
    some = [g for g in set(group.tolist()) if end[group == g].max() == end.max()]
    assert _core.shared_times(group, cores, alone)[0] <= end.max() * (1 + 1e-12)
    if min(cores[group == g][0] for g in some) >= 1:
        assert spans(alone, (group, cores)) == pytest.approx(end.max(), rel=1e-9)
    assert (fractions(end[None], (group, cores)) <= 1).all()


def test_a_balanced_group_waits_and_one_heavy_rank_does_not():
    group, cores = np.zeros(4, np.int32), np.full(4, 2.0)
    loads = np.array([[1.0, 1, 1, 1], [4, 0, 0, 0], [2, 2, 0, 0], [3, 1, 0, 0], [2, 1, 1, 0]])
    assert spans(loads, (group, cores)).tolist() == [2, 4, 2, 3, 2]
    assert spans(loads, None).tolist() == [1, 4, 2, 3, 2]
    assert fractions(np.full((1, 4), 2.0), (group, cores)).tolist() == [[0.5] * 4]


def test_ranks_keep_their_shares():
    before = np.array([[3.0, 1.0], [3.0, 1.0]])
    assert as_before(before, np.array([[1.0, 1.0], [4.0, 4.0]])).tolist() == [[1.5, 0.5], [6, 2]]
    assert as_before(np.zeros((1, 2)), np.array([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(("group", "cores"), [([0, 2], [1.0, 1.0]), ([0, 0], [0.0, 0.0])])
def test_groups_are_checked(group, cores):
    with pytest.raises(ValueError, match=r"expected a group 0 \.\.\. 1, and more"):
        _core.shared_times(np.array(group, np.int32), np.array(cores), np.ones((1, 2)))

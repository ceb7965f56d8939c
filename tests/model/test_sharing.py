"""The time of iterations on ranks that share cores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylb import _core
from pylb.model.sharing import as_before, fractions, spans

LOADS = st.floats(0, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))


@st.composite
def groups(draw):
    """Ranks in groups, the number of cores of each rank's group, and a load for each rank."""
    p = draw(st.integers(1, 12))
    group = np.array(draw(st.lists(st.integers(0, p - 1), min_size=p, max_size=p)), np.int32)
    cores = np.array(draw(st.lists(st.sampled_from([0.5, 1, 2, 3, 8]), min_size=p, max_size=p)))
    load = draw(st.lists(LOADS, min_size=p, max_size=p))
    return group, cores[group].astype(float), np.array(load)


def twin(load, cores):
    """Simulate processor sharing of one group: return when each rank has finished."""
    left, end, now = dict(enumerate(load)), {}, 0.0
    while left:
        speed = min(1.0, cores / len(left))
        step = min(left.values())
        now += step / speed
        end |= {r: now for r, x in left.items() if x == step}
        left = {r: x - step for r, x in left.items() if x > step}
    return [end[r] for r in range(len(load))]


def ends_of(group, cores, load):
    out = np.zeros(len(load))
    for g in set(group.tolist()):
        here = group == g
        out[here] = twin(load[here], cores[here][0])
    return out


@given(groups())
def test_the_time_is_that_of_simulated_processor_sharing(case):
    group, cores, load = case
    time = _core.shared_times(group, cores, load[None])[0]
    assert time == pytest.approx(ends_of(group, cores, load).max(), rel=1e-9, abs=1e-12)
    assert time >= load.max() * (1 - 1e-12)
    assert time <= load.sum() / min(cores.min(), 1) * (1 + 1e-9)
    many = np.full(len(load), float(len(load)))
    assert _core.shared_times(group, many, load[None])[0] == load.max()  # to the last bit


@given(groups())
def test_loads_are_found_again_from_when_ranks_finished(case):
    group, cores, load = case
    end = ends_of(group, cores, load)
    alone = _core.loads_without_waits(group, cores, end[None])
    np.testing.assert_allclose(alone, load, rtol=1e-7, atol=1e-7 * max(end.max(), 1e-9))
    assert spans(load[None], (group, cores)) == pytest.approx(end.max(), rel=1e-9, abs=1e-12)
    assert (fractions(end[None], (group, cores)) <= 1 + 1e-9).all()


def test_a_balanced_group_waits_and_one_heavy_rank_does_not():
    group, cores = np.zeros(4, np.int32), np.full(4, 2.0)
    loads = np.array([[1.0, 1, 1, 1], [4, 0, 0, 0], [2, 2, 0, 0], [3, 1, 0, 0], [2, 1, 1, 0]])
    assert spans(loads, (group, cores)).tolist() == [2, 4, 2, 3, 2.5]
    assert spans(loads, None).tolist() == [1, 4, 2, 3, 2]
    assert fractions(np.full((1, 4), 2.0), (group, cores)).tolist() == [[0.5] * 4]


def test_ranks_keep_their_shares():
    before = np.array([[3.0, 1.0], [3.0, 1.0]])
    assert as_before(before, np.array([[1.0, 1.0], [4.0, 4.0]])).tolist() == [[1.5, 0.5], [6, 2]]
    assert as_before(np.zeros((1, 2)), np.array([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(("group", "cores"), [([0, 2], [1.0, 1.0]), ([0, 0], [0.0, 0.0])])
def test_groups_are_checked(group, cores):
    with pytest.raises(ValueError, match="expected a group 0 ... 1, and more than 0 cores"):
        _core.shared_times(np.array(group, np.int32), np.array(cores), np.ones((1, 2)))

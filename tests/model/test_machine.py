"""pylb.Machine, measured or read from text and files; power of processors (DRUM); the monitor."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launch import HERE, printed

import pylb
from pylb import _core
from pylb.errors import DomainError, FormatError, StateError
from pylb.model import machine as probe
from pylb.model.machine import Place, as_before, fractions, spans
from pylb.model.network import Network, line, measure_network
from pylb.model.topology import Tree
from pylb.partitioning import libraries

# ---- power -------------------------------------------------------------------------------------


def power_twin(place, w_comm, power=1.0):
    """Compute the power of each place by DRUM's second formula, from the root on."""
    if not place.children:
        return [power]
    p = [sum_of_speeds(child) for child in place.children]
    c = [child.bandwidth if p_n > 0 else 0.0 for child, p_n in zip(place.children, p, strict=True)]
    w = w_comm if sum(c) > 0 else 0.0
    out = []
    for child, p_n, c_n in zip(place.children, p, c, strict=True):
        part = (w * c_n / sum(c) if w else 0.0) + (1 - w) * p_n / sum(p) if p_n else 0.0
        out += power_twin(child, w_comm, power * part)
    return out


def sum_of_speeds(place):
    return sum(map(sum_of_speeds, place.children)) if place.children else place.speed


LEAF = st.builds(
    lambda s, b: Place("rank", speed=s, bandwidth=b),
    st.floats(0, 9, allow_subnormal=False),
    st.sampled_from([math.nan, 0.0, 1.0, 4.0]),
)
PLACES = st.recursive(
    LEAF,
    lambda below: st.builds(
        lambda c, b: Place("node", "", tuple(c), bandwidth=b),
        st.lists(below, min_size=1, max_size=4),
        st.sampled_from([math.nan, 1.0, 10.0]),
    ),
    max_leaves=12,
)


@given(PLACES, st.floats(0, 1))
def test_power_agrees_with_the_formula(root, w_comm):
    machine = pylb.Machine(root)
    if sum_of_speeds(root) == 0:
        with pytest.raises(DomainError, match="the speed of all ranks is 0: expected one"):
            machine.power(w_comm)
        return
    power = machine.power(w_comm)
    assert power.sum() == pytest.approx(1.0)
    assert power == pytest.approx(power_twin(root, w_comm), abs=1e-12)
    assert (power[machine.speed == 0] == 0).all()


def test_power_of_two_different_nodes():
    """The fast node has 2/3 of the processing and 1/11 of the bandwidth (worked by hand)."""
    machine = pylb.Machine.parse("node:2[speed=1,0.5 bandwidth=1e6,1e7] rank:2")
    assert machine.power(0.0) == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6])
    fast = 0.2 / 11 + 0.8 * 2 / 3
    assert machine.power(0.2) == pytest.approx([fast / 2] * 2 + [(1 - fast) / 2] * 2)
    assert machine.counts(9, 0.0).tolist() == [3, 3, 2, 1]
    for wrong in (-0.1, 1.1, math.nan, "0.2"):
        with pytest.raises(DomainError, match="w_comm is"):
            machine.power(wrong)
    for n in (-1, 2.5, "9", 2**70):
        with pytest.raises(DomainError, match="n is"):
            machine.counts(n)
    with pytest.raises(DomainError, match="alpha: expected an array of numbers"):
        pylb.Machine(machine.root, alpha="fast")


@pytest.mark.skipif(not libraries.available("Zoltan"), reason="Zoltan is not here")
def test_part_sizes_are_shares_of_a_partition():
    side = 30
    xy = np.stack(np.divmod(np.arange(side**2), side), 1).astype(float)
    machine = pylb.Machine.parse("node:2[speed=1,0.5] rank:2")
    part = pylb.partition(coords=xy, parts=4, shares=machine.part_sizes(), method="rcb").part
    assert np.bincount(part) == pytest.approx(900 * machine.power(), abs=40)


# ---- where it comes from -----------------------------------------------------------------------


def test_a_string():
    machine = pylb.Machine.parse("switch:2 node:2[speed=1,3] rank:2[speed=1,0.5]")
    assert machine.n_ranks == 8
    assert machine.speed.tolist() == [1, 0.5, 3, 1.5] * 2
    assert machine.node.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert machine.tree() == Tree((2, 2, 2))
    assert [n.name for n in machine.nodes] == ["0.0", "0.1", "1.0", "1.1"]


@pytest.mark.parametrize("text", ["", "node", "node:0", "node:2[speed]", "node:2[power=1]", "a:b"])
def test_strings_that_describe_no_machine(text):
    with pytest.raises(FormatError):
        pylb.Machine.parse(text)


def test_a_file(tmp_path):
    machine = pylb.Machine.parse("node:2[bandwidth=1e8,2e8] rank:2[speed=1,2]")
    beta = np.array([[math.nan, 2e-9], [2e-9, math.nan]])
    machine = pylb.Machine(machine.root, (2, 3, 0, 1), np.sqrt(beta), beta)
    machine.save(tmp_path / "m.json")
    again = pylb.Machine.load(tmp_path / "m.json")
    assert again.root == machine.root or repr(again) == repr(machine)
    assert again.ranks == (2, 3, 0, 1)
    assert again.node.tolist() == [1, 1, 0, 0]
    assert np.array_equal(again.beta, beta, equal_nan=True)
    assert again.network(0, 1) == Network(np.sqrt(2e-9), 2e-9)
    (tmp_path / "m.json").write_text('{"format": "pylb machine", "version": 1}')
    with pytest.raises(FormatError, match="not a file that describes a machine"):
        pylb.Machine.load(tmp_path / "m.json")


def test_bad_arguments():
    root = pylb.Machine.parse("node:2 rank:2").root
    with pytest.raises(DomainError, match=r"ranks are \[0, 0, 1, 2\]"):
        pylb.Machine(root, (0, 0, 1, 2))
    with pytest.raises(DomainError, match="beta has shape"):
        pylb.Machine(root, beta=np.zeros((3, 3)))
    with pytest.raises(DomainError, match=r"root is 'node:2': expected a Place; Machine"):
        pylb.Machine("node:2")
    with pytest.raises(DomainError, match="speed of rank"):
        Place("rank", speed=-1.0)
    with pytest.raises(DomainError, match="not a regular tree"):
        pylb.Machine(Place("machine", "", (root, root.children[0]))).tree()
    with pytest.raises(DomainError, match="speed has shape"):
        pylb.Machine(root).with_speeds([1.0])


@given(st.integers(1, 12))
def test_rounds_are_all_pairs_once(n):
    found = list(probe.rounds(n))
    for pairs in found:
        ends = [end for pair in pairs for end in pair]
        assert len(ends) == len(set(ends))
    every = sorted(pair for pairs in found for pair in pairs)
    assert every == [(a, b) for a in range(n) for b in range(a + 1, n)]
    assert len(found) <= n


def test_alpha_and_beta_of_measured_times():
    assert line([1e-4, 1e-4 + 2**20 / 2.5e6]) == pytest.approx((1e-4, 1 / 2.5e6), rel=1e-4)
    assert line([1e-4, 0.9e-4]) == (1e-4, 0.0)


def test_virtual_ranks_know_their_machine():
    def program(comm):
        return pylb.Machine.measure(comm)

    machine = pylb.VirtualCluster(3, speed=[1.0, 2.0, 1.0], network=(1e-6, 1e-9)).run(program)[0]
    assert machine.speed == pytest.approx([1, 2, 1])
    assert machine.power(0.0) == pytest.approx([0.25, 0.5, 0.25])
    assert machine.power(1.0) == pytest.approx([1 / 3] * 3)
    assert machine.network(0, 2) == Network(1e-6, 1e-9)


def test_virtual_ranks_always_have_a_core():
    def program(comm):
        monitor = pylb.measure.Monitor(pylb.Machine.measure(comm), comm)
        with monitor.timed():
            comm.elapse(1.0)
        return monitor.update()

    machine = pylb.VirtualCluster(2, speed=[1.0, 0.5]).run(program)[0]
    assert machine.speed == pytest.approx([1.0, 0.5], rel=0.1)
    assert machine.busy == pytest.approx([0.0, 0.0], abs=0.1)


def test_one_rank():
    machine = pylb.Machine.measure(seconds=0.005)
    assert machine.power().tolist() == [1.0]
    assert repr(machine).startswith("<Machine: 1 ranks on 1 nodes>\n  node ")
    monitor = pylb.measure.Monitor(machine)
    with monitor.timed(work=3.0):
        time.sleep(0.01)
    assert 0 < monitor.update().speed[0] <= 300
    with monitor.timed(), pytest.raises(StateError, match="inside"):
        monitor.timed().__enter__()


def test_work_that_says_nothing_of_a_speed():
    monitor = pylb.measure.Monitor(pylb.Machine.parse("node:1 rank:1"))
    for work in (-1.0, math.inf, "3", None):
        with pytest.raises(DomainError, match="work is"), monitor.timed(work):
            pass
    with monitor.timed(work=0.0):
        time.sleep(0.005)
    assert monitor.update().speed == [1.0]


def test_the_repr_of_a_large_machine_is_short():
    assert len(repr(pylb.Machine.parse("node:100 rank:8")).splitlines()) == 33


@pytest.mark.parametrize("text", ["node:1000 rank:100000", "node:" + "9" * 5000])
def test_a_string_with_too_many_ranks_is_refused(text):
    with pytest.raises(FormatError, match="1048576"):
        pylb.Machine.parse(text)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_a_file_of_many_levels(tmp_path, depth):
    head = (
        '{"format": "pylb machine", "version": 1, "ranks": [0], "alpha": [], "beta": [], "root": '
    )
    level, leaf = '{"kind": "node", "children": [', '{"kind": "rank"}'
    (tmp_path / "a").write_text(head + level * depth + leaf + "]}" * depth + "}")
    if depth == 100:
        assert pylb.Machine.load(tmp_path / "a").n_ranks == 1
    else:
        with pytest.raises(FormatError, match="a: not JSON: it is nested too deeply"):
            pylb.Machine.load(tmp_path / "a")


# ---- room model: the cost of messages ----------------------------------------------------------


def measured(mpiexec, ranks):
    """Return alpha and beta, which all ranks must know to the bit."""
    out = printed(mpiexec, ranks, HERE / "short.py", "network")
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == ranks
    assert all(a == answers[0] for a in answers)
    return answers[0]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_measured_under_mpiexec(mpiexec, ranks):
    alpha, beta = measured(mpiexec, ranks)
    if ranks == 1:
        assert (alpha, beta) == (0.0, 0.0)
        return
    assert 0 <= alpha < 1
    for _ in range(4):  # where ranks share cores, a delay of the small messages may hide beta
        if beta > 0.0:
            break
        alpha, beta = measured(mpiexec, ranks)
    assert 1e-13 < beta < 1e-5  # between 10 TB/s and 100 kB/s


def test_an_argument_that_is_not_a_communicator():
    pytest.importorskip("mpi4py")
    with pytest.raises(DomainError, match="comm is 3: expected an intracommunicator"):
        measure_network(3)


@pytest.mark.parametrize("measure", [measure_network, pylb.Machine.measure])
def test_a_communicator_that_was_freed(measure):
    comm = pytest.importorskip("mpi4py.MPI").COMM_SELF.Dup()
    comm.Free()
    with pytest.raises(DomainError, match="expected an intracommunicator of mpi4py"):
        measure(comm)


def test_messages_belong_to_the_time_of_their_sender():
    edges = ([0, 0, 1, 2], [1, 2, 0, 2], [100.0, 1000.0, 10.0, 1e6], [1, 2, 4, 8])
    snap = pylb.Snapshot(load=[1.0, 2.0, 3.0], rank=[0, 0, 1], n_ranks=3, edges=edges)
    network = Network(0.5, 1e-3)
    np.testing.assert_allclose(network.rank_times(snap), [3.0 + 2 * 0.5 + 1.0, 3.0, 0.0])
    apart = snap.with_rank([0, 1, 2])
    np.testing.assert_allclose(
        network.rank_times(apart), [1.0 + 3 * 0.5 + 1.1, 2.0 + 4 * 0.5 + 0.01, 3.0]
    )
    alone = pylb.Snapshot(load=[1.0], rank=[0])
    assert network.rank_times(alone).tolist() == [1.0]


# ---- the time of iterations on ranks that share cores ------------------------------------------


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

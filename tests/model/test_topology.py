"""Hop-bytes, the most loaded link, and the mapping of parts to a machine."""

import itertools

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError
from pylb.model.topology import Torus, Tree, hops, map_ranks

SETTINGS = examples(100)
MACHINES = [Tree((7,)), Tree((2, 3)), Tree((2, 2, 2)), Torus((7,)), Torus((3, 4)), Torus((2, 3, 2))]


# ---- twins -----------------------------------------------------------------------------------


def digits(sizes, place):
    return np.unravel_index(place, sizes)


def way(machine, a, b):
    """Return the links from a to b, each with its own name."""
    x, y = ([int(d) for d in digits(machine.sizes, place)] for place in (a, b))
    out = []
    if isinstance(machine, Tree):
        for depth in range(len(x), 0, -1):
            if x[:depth] != y[:depth]:
                out += [("up", *x[:depth]), ("down", *y[:depth])]
        return out
    for d, m in enumerate(machine.sizes):
        step = 1 if 2 * ((y[d] - x[d]) % m) <= m else -1
        while x[d] != y[d]:
            out.append((d, step, *x))
            x[d] = (x[d] + step) % m
    return out


def twin(machine, flows):
    """Return hop-bytes, and the bytes of the most loaded link, for flows {(a, b): bytes}."""
    links, total = {}, 0.0
    for (a, b), nbytes in flows.items():
        for link in way(machine, a, b):
            links[link] = links.get(link, 0.0) + nbytes
            total += nbytes
    return total, max(links.values(), default=0.0)


def flows_of(snapshot, rank):
    out = {}
    for a, b, nbytes in zip(*snapshot.edges[:3], strict=True):
        if rank[a] != rank[b]:
            key = int(rank[a]), int(rank[b])
            out[key] = out.get(key, 0.0) + float(nbytes)
    return out


@st.composite
def problems(draw):
    machine = draw(st.sampled_from(MACHINES))
    p = machine.n_ranks
    ends = st.integers(0, p + 3)
    edges = draw(st.lists(st.tuples(ends, ends, st.integers(1, 9)), max_size=30))
    src, dst, nbytes = (list(c) for c in zip(*edges, strict=True)) if edges else ([], [], [])
    rank = np.arange(p + 4) * 5 % p
    return machine, pylb.Snapshot(np.ones(p + 4), rank, n_ranks=p, edges=(src, dst, nbytes))


# ---- properties ------------------------------------------------------------------------------


@SETTINGS
@given(problems())
def test_hops_agree_with_the_twin(problem):
    machine, s = problem
    total, most = twin(machine, flows_of(s, s.rank))
    found = hops(s, machine)
    assert (found.hop_bytes, found.link_max) == (total, most)
    nbytes = sum(flows_of(s, s.rank).values())
    assert found.hops == (total / nbytes if nbytes else 0.0)


@SETTINGS
@given(problems())
def test_a_mapping_exchanges_whole_ranks_and_is_never_worse(problem):
    machine, s = problem
    found = map_ranks(s, machine)
    assert sorted(found.place.tolist()) == list(range(s.n_ranks))
    assert np.array_equal(found.rank, found.place[s.rank])
    assert found.before == hops(s, machine)
    assert found.after == hops(s, machine, found.rank)
    assert found.after.hop_bytes <= found.before.hop_bytes
    assert np.array_equal(found.place, map_ranks(s, machine).place)
    flows = flows_of(s, found.rank)
    for a, b in itertools.combinations(range(s.n_ranks), 2):  # no exchange saves hop-bytes
        other = {a: b, b: a}
        swapped = {(other.get(x, x), other.get(y, y)): nbytes for (x, y), nbytes in flows.items()}
        assert twin(machine, swapped)[0] >= found.after.hop_bytes


def test_shuffled_ranks_are_put_near_their_neighbours():
    """A stencil of ranks is mapped to a torus that it fits, pairs of neighbours to a tree."""
    rng = np.random.default_rng(1)
    side = 8
    x, y = np.arange(side * side) // side, np.arange(side * side) % side
    right, down = x * side + (y + 1) % side, (x + 1) % side * side + y
    src, dst = np.tile(np.arange(side * side), 2), np.concatenate([right, down])
    s = pylb.Snapshot(np.ones(64), rng.permutation(64), edges=(src, dst, np.full(128, 3.0)))
    found = map_ranks(s, Torus((side, side)))
    assert found.before.hops > 3.5
    assert found.after.hops < 2.0  # the optimum is 1, but swaps of two ranks do not reach it
    assert found.after.link_max < found.before.link_max
    pairs = np.arange(0, 64, 2)
    s = pylb.Snapshot(np.ones(64), rng.permutation(64), edges=(pairs, pairs + 1, np.ones(32)))
    assert map_ranks(s, Tree((4, 8, 2))).after.hops == 2.0


def test_hop_bytes_of_a_tree_of_nodes_are_those_of_the_evaluation():
    rng = np.random.default_rng(2)
    s = pylb.Snapshot(
        np.ones(50),
        rng.integers(0, 12, 50),
        n_ranks=12,
        edges=(rng.integers(0, 50, 90), rng.integers(0, 50, 90), rng.integers(1, 99, 90)),
        multicasts=([3, 4], [0, 3, 5], [1, 2, 9, 9, 20], [7.0, 5.0]),
        node=np.arange(12) // 4,
    )
    assert hops(s, Tree((3, 4))).hop_bytes == pylb.evaluate(s).hop_bytes


def test_only_ranks_with_equal_properties_are_exchanged():
    rng = np.random.default_rng(3)
    n, p = 40, 8
    speed = np.where(np.arange(p) < 4, 1.0, 2.0)
    rank = np.arange(n) % p
    migratable = rank != 5
    s = pylb.Snapshot(
        rng.random(n),
        rank,
        n_ranks=p,
        speed=speed,
        migratable=migratable,
        edges=(rng.integers(0, n, 99), rng.integers(0, n, 99), np.ones(99)),
    )
    found = map_ranks(s, Torus((4, 2)))
    assert np.array_equal(speed[found.place], speed)
    assert found.place[5] == 5
    assert np.any(found.place != np.arange(p))
    before, after = (pylb.evaluate(s, r).components[0].max_over_mean for r in (rank, found.rank))
    assert np.isclose(before, after, rtol=1e-12)


def test_nothing_to_do():
    s = pylb.Snapshot([], [], n_ranks=6)
    found = map_ranks(s, Tree((2, 3)))
    assert found.place.tolist() == list(range(6))
    assert found.after == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (Tree((2, 2)), r"machine has 4 places, Tree\(sizes=\(2, 2\)\): expected 6"),
        ("fat", "machine is 'fat': expected a Tree or a Torus"),
        (Torus((-2, -3)), r"sizes\[0\] is -2: expected a number, 1 or more"),
        (Tree((2.5, 2.4)), r"sizes\[0\] is 2\.5: expected a number, 1 or more"),
        (Tree(6), "sizes is 6: expected a tuple of numbers"),
        (Tree(()), "sizes is empty: expected a number for each level or dimension"),
    ],
)
def test_bad_machines(machine, message):
    with pytest.raises(DomainError, match=message):
        hops(pylb.Snapshot([1.0], [0], n_ranks=6), machine)

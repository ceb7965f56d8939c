"""Addresses of objects: unusual keys, objects removed while messages come, ranks that forget."""

import numpy as np
import pytest

import pylb
from pylb import errors

LEAST, MOST = -(2**63), 2**63 - 1


def on_ranks(p, main):
    return pylb.VirtualCluster(p, clock="none").run(main)


def scattered(seed):
    """A strategy that places at random."""
    rng = np.random.default_rng(seed)
    return lambda snapshot: rng.integers(0, snapshot.n_ranks, snapshot.n_objects).astype(np.int32)


# ---- keys ----------------------------------------------------------------------------------------


def test_the_least_and_the_greatest_keys_move_and_get_their_messages():
    keys = [LEAST, LEAST + 1, -1, 0, MOST - 1, MOST]

    def main(comm):
        lb = pylb.Balancer(comm, strategy=scattered(1), every=1)
        for key in keys[comm.rank :: comm.size]:
            lb.add(key, key)
        seen = []
        for _ in lb.iterate(6):
            for key, block in lb.local():
                assert key == block
                seen += [(key, source) for source, _ in lb.inbox(key)]
                for target in keys:
                    lb.send(target, key, None)
        return seen

    seen = [pair for mine in on_ranks(3, main) for pair in mine]
    assert sorted(seen) == sorted((a, b) for a in keys for b in keys for _ in range(5))


@pytest.mark.parametrize("key", [2**63, LEAST - 1, 10**30, 1.5, "a", None, np.float64(3), [1]])
def test_a_key_that_is_no_integer_of_64_bits_is_named(key):
    lb = pylb.Balancer()
    lb.add(0, None)
    list(lb.local())
    calls = {
        "key": [lambda: lb.add(key, 1), lambda: lb.remove(key), lambda: lb.rank_of(key)],
        "target": [lambda: lb.send(key, 0, 1)],
        "source": [lambda: lb.send(0, key, 1)],
        "keys": [lambda: lb.ranks_of([key])],
        "ids": [lambda: pylb.Directory(None).update([key])],
    }
    for name, some in calls.items():
        for call in some:
            with pytest.raises(errors.DomainError, match=name):
                call()
    with pytest.raises(errors.DomainError, match="key"):
        lb.inbox(key)


# ---- objects that go while messages come ---------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_an_object_removed_while_a_message_to_it_is_under_way(known):
    """A message of the same iteration is dropped; a later one is an error on every rank."""

    def main(comm):
        lb = pylb.Balancer(comm, strategy=scattered(3), every=1)
        for key in range(comm.rank, 12, comm.size):
            lb.add(key, key)
        told = []
        try:
            for it in lb.iterate(6):
                for key, _ in lb.local():
                    told += lb.inbox(key)
                    if key != 5 and (known or it >= 2) and it <= 3:
                        lb.send(5, key, it)
                    elif key == 5 and it == 2:
                        lb.remove(5)
        except errors.UnknownKeyError as why:
            return it, str(why), told
        return it, "", told

    for it, words, told in on_ranks(3, main):
        assert (it, "target 5" in words) == (3, True), words
        assert all(data < 2 for _, data in told)


# ---- ranks that forget ---------------------------------------------------------------------------


def test_homes_forget_ranks_that_no_longer_need_an_address():
    """At the end each rank has sent to every object, but knows only those of recent iterations."""
    p, n, iterations = 6, 300, 80

    def main(comm):
        lb = pylb.Balancer(comm, strategy=scattered(4), every=1)
        for key in range(comm.rank, n, comm.size):
            lb.add(key, key)
        right = 0
        for it in lb.iterate(iterations):
            for key, _ in lb.local():
                for source, data in lb.inbox(key):
                    assert data == (source, it - 1)
                    right += 1
                if (key + it) % 10 == 0:
                    lb.send(key * 7 % n, key, (key, it))
        places = lb._objects.addresses
        return len(places._asked), len(places._asker), right

    asked, askers, right = zip(*on_ranks(p, main), strict=True)
    assert sum(right) == sum((k + it) % 10 == 0 for k in range(n) for it in range(iterations - 1))
    assert max(asked) <= 2 * 64
    assert sum(askers) <= p * 2 * 64 + n


def test_what_a_program_has_asked_for_is_never_forgotten():
    p, n = 4, 400

    def main(comm):
        lb = pylb.Balancer(comm, strategy=scattered(5), every=1)
        for key in range(comm.rank, n, comm.size):
            lb.add(key, key)
        for it in lb.iterate(6):
            if it == 0:
                lb.ranks_of(range(0, n, 3))
            for key, _ in lb.local():
                lb.send((key + it) % n, key, None)
        here = {key for key, _ in lb.local()}
        return {key: lb.rank_of(key) for key in range(0, n, 3)}, here

    done = on_ranks(p, main)
    for found, _ in done:
        assert all(key in done[rank][1] for key, rank in found.items())

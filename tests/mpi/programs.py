"""Random programs of objects and messages, under a Balancer and as a plain twin without one."""

import hashlib
import pickle
from collections import Counter
from functools import cache

import numpy as np

import pylb


class Cell:
    """An object with slots and an array that is not C-contiguous."""

    __slots__ = ("grid", "state", "tag")

    def __init__(self, key):
        self.state = key
        self.tag = ("cell", key)
        self.grid = np.asfortranarray(np.arange(6.0 * (key % 50 + 1)).reshape(2, -1) + key)


class Sub(np.ndarray):
    """A subclass of ndarray."""


def make_object(key):
    """Return an object of one of many types, all mutable, so that it can hold its state."""
    return [
        lambda: Cell(key),
        lambda: {"state": key, "rest": {1: "x" * key}},
        lambda: [key, np.zeros((key % 7, 3), order="F"), {key}],
        lambda: np.full(key % 5000 + 1, key, dtype=np.uint64),
    ][key % 4]()


def get_state(block):
    if isinstance(block, Cell):
        assert block.grid.flags.f_contiguous
        assert block.tag[0] == "cell"
        return block.state
    if isinstance(block, dict):
        return block["state"]
    return int(block[0])


def set_state(block, state):
    if isinstance(block, Cell):
        block.state = state
    elif isinstance(block, dict):
        block["state"] = state
    else:
        block[0] = state


RECORD = np.dtype([("a", "i4"), ("b", "f8", (3,)), ("name", "S5")])


def payload(rng):
    """Return a message of a random type and size: empty, small or larger than a message header."""
    sizes = [0, 1, 7, 300, 3000, 20000, 150000]
    n = int(rng.choice(sizes, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.06, 0.04]))
    kind = rng.integers(14)
    a = rng.integers(0, 255, n, dtype=np.uint8)
    if kind == 0:
        return None
    if kind == 1:
        return int(rng.integers(1 << 60)) << 64
    if kind == 2:
        return float(rng.random())
    if kind == 3:
        return "é" * n
    if kind == 4:
        return a.tobytes()
    if kind == 5:
        return np.float32(rng.random())
    if kind == 6:
        return np.array(rng.random())
    if kind == 7:
        return np.asfortranarray(rng.random((5, n // 8 + 1)))
    if kind == 8:
        return np.zeros(n // 16, RECORD)
    if kind == 9:
        return {"list": [a, a[::2]], "set": {1, 2}, "sub": a.view(Sub)}
    if kind == 10:
        return a[::-3]
    if kind == 11:
        return rng.random((3, n // 4, 2)).transpose(1, 2, 0)
    if kind == 12:
        return np.array([None, "x", (1, 2)], dtype=object)
    return a


def digest(state, received):
    """Return the next state of an object that received these data; every bit of them counts."""
    h = hashlib.blake2b(str(state).encode(), digest_size=7)
    for source, data in received:
        h.update(str(source).encode())
        feed(h, data)
    return int.from_bytes(h.digest(), "big")


def feed(h, data):
    h.update(type(data).__name__.encode())
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        h.update(f"{data.dtype}{data.shape}{data.flags.fnc}{data.flags.writeable}".encode())
        h.update(data.tobytes(order="A"))
    elif isinstance(data, dict):
        for key, value in data.items():
            feed(h, key)
            feed(h, value)
    elif isinstance(data, (list, tuple, np.ndarray)):
        for value in data:
            feed(h, value)
    else:
        h.update(pickle.dumps(data, protocol=5))


def messages(seed, state, n):
    """Return the messages that an object in this state sends: [(targets, data)].

    Targets may occur twice, and the object itself may be one.  One target: not a multicast.
    """
    rng = np.random.default_rng([seed, state % (1 << 32)])
    return [
        ((rng.integers(0, n, rng.choice([0, 1, 1, 2, 4])) * 3 - n).tolist(), payload(rng))
        for _ in range(rng.integers(5))
    ]


def spoil(data):
    """Change received data in place; no other object may see this change."""
    if isinstance(data, dict):
        data["set"].clear()
        data["list"][0][...] = 1
    elif isinstance(data, np.ndarray) and data.dtype.kind in "fu":
        data += 1


def keys(n):
    return [3 * i - n for i in range(n)]


@cache
def run_twin(seed, n, iterations):
    """Run the program without pylb; return the final states by key."""
    state = {key: abs(key) + 1 for key in keys(n)}
    inbox = {key: [] for key in state}
    for _ in range(iterations):
        following = {key: [] for key in state}
        for key in sorted(state):
            state[key] = digest(state[key], inbox[key])
            for targets, data in messages(seed, state[key], n):
                kept = (
                    data.copy(order="F" if data.flags.fnc else "C")
                    if (type(data) is np.ndarray and not data.dtype.hasobject)
                    else pickle.loads(pickle.dumps(data, protocol=5))
                )
                for target in targets:
                    following[target].append((key, kept))
        inbox = following
    return state


def run_balanced(comm, seed, n, iterations, **options):
    """Run the program under a Balancer with random placements.

    Return the Balancer and this rank's final states.
    """
    turn = Counter()

    def anywhere(snapshot):
        turn["calls"] += 1
        assert list(snapshot.key) == keys(n)
        rng = np.random.default_rng([seed, turn["calls"]])
        return rng.integers(0, snapshot.n_ranks, snapshot.n_objects)

    lb = pylb.Balancer(comm, strategy=anywhere, every=1, **options)
    rng = np.random.default_rng(seed)
    for key in keys(n):
        if rng.integers(lb.n_ranks) == lb.rank:
            block = make_object(abs(key) + 1)
            set_state(block, abs(key) + 1)
            lb.add(key, block)
    for part in (iterations // 2, 0, iterations - iterations // 2):
        for _ in lb.iterate(part):
            last = None
            for key, block in lb.local():
                assert last is None or key > last
                last = key
                assert lb.rank_of(key) == lb.rank
                set_state(block, digest(get_state(block), lb.inbox(key)))
                for _, data in lb.inbox(key):
                    spoil(data)
                for targets, data in messages(seed, get_state(block), n):
                    if len(targets) == 1:
                        lb.send(targets[0], key, data)
                    else:
                        lb.multicast(targets, key, data)
                    if isinstance(data, np.ndarray) and data.size and data.dtype == np.uint8:
                        data[...] = 0  # the message has the value at the time of the call
    return lb, {key: get_state(block) for key, block in lb.local()}

"""Arguments that are True or False: other values, e.g. "no", are errors and not True."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import pylb
from pylb.errors import DomainError

GRAPH = [[0, 1, 2], [1, 0]]


def balancer():
    lb = pylb.Balancer()
    lb.add(1, "an object")
    return lb


def trace():
    return pylb.Trace.from_snapshots([pylb.Snapshot(np.ones(8), np.arange(8) % 2)])


CALLS = {
    "partition": ("symmetrize", lambda v: pylb.partition(GRAPH, parts=2, symmetrize=v)),
    "color": ("symmetrize", lambda v: pylb.partitioning.color(GRAPH, symmetrize=v)),
    "order": ("symmetrize", lambda v: pylb.partitioning.order(GRAPH, symmetrize=v)),
    "reverse": ("add", lambda v: pylb.Plan(None, [0]).reverse(np.zeros(1), add=v)),
    "measure": ("network", lambda v: pylb.Machine.measure(seconds=0.001, network=v)),
    "find": ("missing", lambda v: pylb.Directory(None).find([], missing=v)),
    "add": ("migratable", lambda v: balancer().add(2, "another", migratable=v)),
    "update": ("migratable", lambda v: balancer().update(1, migratable=v)),
    "send": ("copy", lambda v: balancer().send(1, 1, "data", copy=v)),
    "multicast": ("copy", lambda v: balancer().multicast([1], 1, "data", copy=v)),
    "iterate": ("progress", lambda v: balancer().iterate(1, progress=v)),
    "checkpoint": ("pickled", lambda v: balancer().checkpoint("nowhere", pickled=v)),
    "pause_if_useless": ("pause_if_useless", lambda v: pylb.Balancer(pause_if_useless=v)),
    "learn_speeds": ("learn_speeds", lambda v: pylb.Balancer(learn_speeds=v)),
    "tell": ("tell", lambda v: trace().replay("GreedyLB", tell=v)),
    "foresight": ("foresight", lambda v: trace().replay("GreedyLB", foresight=v)),
    "relative": ("relative", lambda v: pylb.plots.rank_loads(np.ones((2, 2)), relative=v)),
}


@pytest.mark.parametrize("value", ["no", 2, 0.5, [], np.zeros(2)], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_only_true_and_false(call, value):
    name, action = CALLS[call]
    with pytest.raises(DomainError, match=f"{name} is .*: expected True"):
        action(value)
    plt.close("all")


@pytest.mark.parametrize("value", [True, False, 1, 0, np.True_, np.int8(0)])
def test_numbers_and_numpys_own_are_flags(value):
    assert len(pylb.partition(GRAPH, parts=2, symmetrize=value).part) == 2
    with pytest.raises(DomainError, match="migratable is None"):
        balancer().add(2, "another", migratable=None)

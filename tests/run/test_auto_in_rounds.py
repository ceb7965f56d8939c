"""Strategy "auto" on virtual ranks is distributed if rank 0 would take too long."""

import pytest

import pylb

P = 16
FAST, SLOW = (1e-6, 1e-9), (1e-6, 1e-4)  # seconds per message and per byte


def run(per_rank, network, path=None, **given):
    """Return the history of a program in which two ranks need four times as long as the others."""

    def main(comm):
        lb = pylb.Balancer(comm, every=10, **given)
        for key in range(per_rank * comm.rank, per_rank * (comm.rank + 1)):
            lb.add(key, key)
        for _ in lb.iterate(40):
            for key, _ in lb.local():
                comm.elapse((4e-3 if key < 2 * per_rank else 1e-3) / per_rank)
        if path is not None:
            lb.save(path)
        return lb.history

    return pylb.VirtualCluster(P, clock="none", network=network).run(main)[0]


def used(history):
    return [receipt.strategy for receipt in history.balancings]


@pytest.mark.parametrize(
    ("per_rank", "network", "expected"),
    [(20, FAST, "BestFitLB"), (20, SLOW, "BestFitLB"), (1000, FAST, "BestFitLB"),
     (1000, SLOW, "GossipLB")],
)  # fmt: skip
def test_size_and_bandwidth_decide_and_the_receipt_says_so(per_rank, network, expected, tmp_path):
    """The choice depends on the program's size and the bandwidth; the replay chooses the same."""
    path = tmp_path / "run.h5"
    history = run(per_rank, network, path)
    assert used(history)[0] == expected
    said = "instead of GreedyLB" in history.balancings[0].why
    assert said == (expected == "GossipLB")
    assert pylb.Trace.read(path).replay(every=10).decisions == history


def test_a_small_memory_limit_of_rank_0_decides():
    per_rank, database = 20, 256 * 20 * P
    held = {"memory_limit": database}
    assert used(run(per_rank, FAST, **held))[0] == "BestFitLB"
    history = run(per_rank, FAST, memory_limit=[database - 1] + [database] * (P - 1))
    assert used(history)[0] == "GossipLB"
    assert "exceeds the memory limit of rank 0" in history.balancings[0].why


def test_a_strategy_that_is_given_is_kept():
    assert set(used(run(1000, SLOW, strategy="BestFitLB"))) == {"BestFitLB"}

"""Strategy "auto" on virtual ranks is distributed if there is too much for rank 0."""

import pylb

P = 16


def run(per_rank, path=None, **given):
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

    return pylb.VirtualCluster(P, clock="none", network=(1e-6, 1e-9)).run(main)[0]


def used(history):
    return [receipt.strategy for receipt in history.lb_steps]


def test_the_memory_of_rank_0_decides_and_the_receipt_says_so(tmp_path):
    """The replay chooses the same."""
    database = 256 * 20 * P
    for limit, expected in ((database, "BestFitLB"), (database - 1, "GossipLB")):
        path = tmp_path / f"{expected}.h5"
        history = run(20, path, memory_limit=[limit] + [database] * (P - 1))
        assert used(history)[0] == expected
        said = "GossipLB instead of GreedyLB: the load database" in history.lb_steps[0].why
        assert said == (expected == "GossipLB")
        assert pylb.Trace.load(path).replay(every=10).decisions == history


def test_a_strategy_that_is_given_is_kept():
    assert set(used(run(20, strategy="BestFitLB", memory_limit=256))) == {"BestFitLB"}

"""The receipts of LB steps before a checkpoint are those of a run without a stop."""

import numpy as np
import pytest

import pylb

N, ENDS, WORDS = 16, (7, 15), {"strategy": "GreedyLB", "every": 2, "record": False}


def loop(comm, lb, n):
    for it in lb.iterate(n):
        for key, _ in lb.local():
            comm.elapse(1e-3 * (1 + (key + it) % 5))


def receipts(lb):
    return [
        (r.iteration, r.migrations, r.gain, r.iterations, r.realised, r.cost)
        for r in lb.history.lb_steps
    ]


def without_stop(comm, folder):
    """Run two loops; between them, write a checkpoint."""
    lb = pylb.Balancer(comm, **WORDS)
    for key in range(comm.rank * N // comm.size, (comm.rank + 1) * N // comm.size):
        lb.add(key, None)
    loop(comm, lb, ENDS[0])
    lb.checkpoint(folder)
    first = receipts(lb)
    loop(comm, lb, ENDS[1] - ENDS[0])
    return first, receipts(lb)


def restored(comm, folder):
    """Run the second loop, from the checkpoint."""
    lb = pylb.Balancer.restore(comm, folder, **WORDS)
    first = receipts(lb)
    loop(comm, lb, ENDS[1] - ENDS[0])
    return first, receipts(lb)


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_the_same_number_of_ranks(tmp_path, ranks):
    cluster = pylb.VirtualCluster(ranks, clock="none")
    one = cluster.run(without_stop, tmp_path / "folder")[0]
    other = cluster.run(restored, tmp_path / "folder")[0]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # on clocks of other ranges
    assert one[0][-1][3] < one[1][len(one[0]) - 1][3]  # its gain was computed again


def counts(comm, folder):
    """Return receipts and counts before and after the second loop, and write a checkpoint."""
    lb = pylb.Balancer.restore(comm, folder, **WORDS)
    first, report = receipts(lb), lb.report()
    loop(comm, lb, 6)
    lb.checkpoint(folder)
    return first, (report.n_lb_steps, report.migrations), receipts(lb), lb.n_lb_steps


def test_on_another_number_of_ranks(tmp_path):
    folder = tmp_path / "folder"
    before = pylb.VirtualCluster(2, clock="none").run(without_stop, folder)[0][0]
    for ranks in (3, 3, 1):
        known, said, after, n = pylb.VirtualCluster(ranks, clock="none").run(counts, folder)[0]
        assert [r[:2] for r in known] == [r[:2] for r in before]
        assert said == (len(before), sum(r[1] for r in before))
        assert [r[:2] for r in after[: len(before)]] == [r[:2] for r in before]
        assert n == len(after) > len(before)
        before = after

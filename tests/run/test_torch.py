"""The advisor and the balancer over a process group of torch.distributed."""

import json
import subprocess
import sys
from inspect import getsource

import numpy as np
import pytest

import pylb

pytest.importorskip("torch")

PROGRAM = """
import json, sys
import numpy as np
import torch.distributed as dist
import pylb

rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + path + "/meet", rank=rank, world_size=size)
comm = dist.group.WORLD
{body}
if out is not None:
    print(json.dumps(out, default=str))
dist.destroy_process_group()
"""


def on_group(tmp_path, size, body):
    """Run a program on the ranks of a group; return what each printed, or its standard error."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("{body}", body)]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(size), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    done = [process.communicate(timeout=600) for process in started]
    return [json.loads(out) if out else err for out, err in done]


def when(comm, rank, size):
    """Ask only when to rebalance: the work of higher ranks grows faster until an LB step."""
    lb, work = pylb.Advisor(comm), np.ones(size)
    for _ in range(80):
        work *= 1.0 + 0.02 * np.arange(size)
        if lb.advise(seconds=work[rank]):
            lb.rebalanced(1.0)
            work = np.ones(size)
    lb.finish()
    return [vars(receipt) for receipt in lb.history], lb.metrics.max.tolist()


def test_the_receipts_are_those_of_ranks_that_send_by_other_means(tmp_path):
    def program(comm):
        return json.loads(json.dumps(when(comm, comm.rank, comm.size), default=str))

    expected = pylb.VirtualCluster(3, clock="none").run(program)
    assert len(expected[0][0]) > 1
    assert on_group(tmp_path, 3, getsource(when) + "out = when(comm, rank, size)") == expected


def test_cells_and_objects_move_between_the_ranks(tmp_path):
    body = """
lb, ids = pylb.Advisor(comm, strategy="GreedyLB", every=3), np.arange(12) + 12 * rank
data = ids.astype(float)
for step in lb.iterate(7):
    if plan := lb.advise(loads=1.0 + ids, keys=ids):
        ids, data = plan.migrate(ids, data)
assert (data == ids).all()
balancer = pylb.Balancer(comm, every=2)
for key in range(8 * rank, 8 * rank + 8):
    balancer.add(key, np.full(3, key))
for step in balancer.iterate(6):
    for key, block in balancer.local():
        assert (block == key).all()
        balancer.send((key + 8) % 16, key, step)
    balancer.exchange()
    assert all(balancer.inbox(key) == [((key + 8) % 16, step)] for key, _ in balancer.local())
out = ids.tolist(), lb.n_lb_steps, [key for key, _ in balancer.local()], balancer.n_lb_steps
"""
    ranks = on_group(tmp_path, 2, body)
    assert [len(r) for r in ranks] == [4, 4], ranks
    assert sorted(ranks[0][0] + ranks[1][0]) == list(range(24))
    assert sorted(ranks[0][2] + ranks[1][2]) == list(range(16))
    assert [r[1::2] for r in ranks] == [[2, 2], [2, 2]]
    total = [sum(1 + i for i in r[0]) for r in ranks]
    assert max(total) <= 1.02 * sum(total) / 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("pylb.Advisor(comm, lag=2).advise(seconds=1.0)", "expected lag=0, or MPI"),
        ("pylb.Advisor(comm).share(np.sin, np.ones(3))", "expected a communicator of MPI"),
        (
            "lb = pylb.Advisor(comm, network='measure', every=1, strategy='RefineCommLB')\n"
            "for step in lb.iterate(3): lb.advise(loads=np.ones(3))",
            "expected (alpha, beta) or a Machine",
        ),
        (
            "lb = pylb.Advisor(comm)\nif rank: sys.exit()\nlb.advise(seconds=1.0)",
            "RemoteError: another rank of the process group has ended",
        ),
    ],
)
def test_what_only_mpi_can_do_is_said(tmp_path, body, expected):
    assert expected in on_group(tmp_path, 2, body)[0]

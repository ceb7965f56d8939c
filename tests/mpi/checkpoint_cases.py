"""Checkpoints under MPI."""

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from each_case import dealt, raised

import pylb
from pylb.errors import MissingFileError, UnknownStrategyError

N = 29
OPTIONS = {"strategy": "GreedyLB", "every": 5}


@contextmanager
def _folder(comm):
    name = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    yield Path(name) / "c"
    comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(name)


def fill(lb):
    dealt(lb, range(N), lambda key: np.arange(500.0) + key)
    return lb


def advance(lb, until):
    for it in lb.iterate(until - lb.iteration):
        for key, block in lb.local():
            for source, data in lb.inbox(key):
                block[: len(data)] += np.sqrt(data) * (source + it)
            lb.send((key * 5 + 2) % N, key, block[:300])
            lb.send((key + it) % N, key, block[7:9])
    return lb


def everything(comm, lb):
    found = {}
    for part in comm.allgather({key: block.tobytes() for key, block in lb.local()}):
        found |= part
    assert len(found) == N
    return found


def restarts_on_other_numbers_of_ranks(comm):
    """A restart on more or fewer ranks gives the bits of a run without a stop."""
    want = everything(comm, advance(fill(pylb.Balancer(comm, **OPTIONS)), 24))
    for n in {1, (comm.size + 1) // 2, comm.size}:
        some = comm.Split(comm.rank < n, comm.rank)
        with _folder(comm) as path:
            if comm.rank < n:
                advance(fill(pylb.Balancer(some, **OPTIONS)), 12).checkpoint(path)
            comm.barrier()
            lb = advance(pylb.Balancer.restore(comm, path, **OPTIONS), 17)
            assert everything(comm, advance(lb, 24)) == want
        with _folder(comm) as path:
            advance(fill(pylb.Balancer(comm, **OPTIONS)), 12).checkpoint(path)
            if comm.rank < n:
                lb = advance(pylb.Balancer.restore(some, path, **OPTIONS), 24)
                assert everything(some, lb) == want
        some.Free()


def an_error_of_one_rank_while_all_handle_another(comm):
    """The new error has the old one as its context, but only this rank knows the new one."""
    strategy = "nonsense" if comm.rank == comm.size - 1 else "GreedyLB"
    with _folder(comm) as path:
        try:
            pylb.Balancer.restore(comm, path)
        except MissingFileError:
            raised(
                *(UnknownStrategyError, "nonsense"),
                lambda: pylb.Balancer.restore(comm, path, strategy=strategy),
            )
        else:
            raise AssertionError("no error")

"""Triggers of the user that fail, or answer differently on ranks.

The programs also exchange their own messages, so a rank that continues alone would wait forever.
"""

import math

import numpy as np
from at_sync_cases import halo
from each_case import dealt, raised, rotate

import pylb
from pylb.errors import DomainError
from pylb.run import AtSync

SAYS = "the trigger answers differently after iteration "


def differs(comm, at=5):
    """Return a trigger: LB steps after iteration 2 and, on the last rank only, after `at`."""
    return lambda c: c.iteration == 2 or (c.iteration == at and comm.rank == comm.size - 1)


def balancer(comm, kind=pylb.Balancer, **options):
    lb = kind(comm, load=lambda key, block: 1.0 + key, strategy=rotate, **options)
    return dealt(lb, range(4 * comm.size), lambda key: [key])


def whole_ranks(comm, lb, n=12):
    for it in lb.iterate(n):
        halo(comm, it)
        for _ in lb.local():
            pass


def runs_of(comm, call, lb):
    """Check that all ranks raise an error; a single rank raises none and does both LB steps."""
    if comm.size == 1:
        call()
        assert [r.iteration for r in lb.history.lb_steps] == [2, 5]
    else:
        raised(DomainError, SAYS, call)
        assert [r.iteration for r in lb.history.lb_steps] in ([2], [])


def without_a_lag(comm):
    lb = balancer(comm, trigger=differs(comm))
    runs_of(comm, lambda: whole_ranks(comm, lb), lb)
    if comm.size > 1:
        whole_ranks(comm, lb, 2)  # the program can continue


def with_a_lag(comm):
    for lag in (1, 2, 4):
        lb = balancer(comm, trigger=differs(comm, 8), lag=lag)
        if comm.size == 1:
            whole_ranks(comm, lb, 20)
            assert len(lb.history.lb_steps) == 2
        else:
            raised(DomainError, SAYS, lambda lb=lb: whole_ranks(comm, lb, 20))
            assert len(lb.metrics.time) >= 9
            comm.barrier()  # all ranks raised at the same iteration, so they come here


def with_objects_at_their_own_pace(comm):
    for lag in (2, math.inf):
        # The loop stays open, so it gets its own communicator.
        lb = balancer(comm.Dup(), pylb.AsyncBalancer, trigger=differs(comm), lag=lag)
        if comm.size == 1:
            own_pace(lb)
        else:
            raised(DomainError, SAYS, lambda lb=lb: own_pace(lb, 400))
            comm.barrier()


def own_pace(lb, n=12):
    lb.begin(n)
    runs = {key for key, _ in lb.local()}
    while (state := lb.at_sync()) is not AtSync.END:
        if state is AtSync.BALANCE:
            lb.lb_step()
            runs = {key for key, _ in lb.local()}
        for key, _ in lb.local():
            runs.discard(key)
            if lb.at_sync(key) is AtSync.GO:
                runs.add(key)


def the_same_answers(comm):
    """If the answers are the same on all ranks, LB steps follow them, with a lag and without."""
    for lag in (0, 1, 3):
        lb = balancer(comm, trigger=lambda c: c.iteration % 6 == 0, lag=lag)
        whole_ranks(comm, lb, 30)
        steps = [r.iteration for r in lb.history.lb_steps]
        assert steps == [k + lag for k in range(0, 30, 6)], steps


def an_advisor(comm):
    for lag in (0, 2):
        lb = pylb.Advisor(comm, trigger=differs(comm), lag=lag)
        keys = np.arange(comm.rank, 4 * comm.size, comm.size)

        def call(lb=lb, keys=keys):
            for it in lb.iterate(12):
                halo(comm, it)
                lb.advise(loads=1.0 + keys, keys=keys)

        if comm.size == 1:
            call()
        else:
            raised(DomainError, SAYS, call)


def rows(comm):
    part = pylb.RowPartition(comm, 40, tol=0.0, trigger=differs(comm, 3))
    calls = []

    def call():
        x = np.zeros(part.counts[comm.rank])
        for _ in range(6):
            with part.timed():
                sum(range(1000))
            x = part.redistribute(x)
            calls.append(1)

    if comm.size == 1:
        call()
    else:
        raised(DomainError, SAYS, call)
        assert len(calls) == 2

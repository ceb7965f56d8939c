"""pylb.Machine and its monitor in a job."""

import time

import numpy as np
from each_case import raised, told_clock

import pylb
from pylb import errors


def measured(comm):
    machine = pylb.Machine.measure(comm, seconds=0.02)
    shown = comm.allgather(repr(machine))
    assert all(s == shown[0] for s in shown)
    assert machine.n_ranks == comm.size
    assert (machine.speed > 0).all()
    assert len(machine.node) == comm.size
    assert np.isclose(machine.power().sum(), 1.0)
    assert machine.counts(100).sum() == 100
    quick = pylb.Machine.measure(comm, seconds=0.005, network=False)
    assert len(quick.nodes) == len(machine.nodes)
    raised(errors.DomainError, "seconds is 0", lambda: pylb.Machine.measure(comm, seconds=0))
    last = comm.rank == comm.size - 1  # an error of one rank is an error of all
    seconds = 0 if last else 0.01
    raised(errors.DomainError, "seconds is 0", lambda: pylb.Machine.measure(comm, seconds=seconds))
    if comm.size > 1:
        raised(
            *(errors.DomainError, "arguments differ"),
            lambda: pylb.Machine.measure(comm, seconds=0.01, network=last),
        )


def followed(comm):
    """To the monitor, a rank whose work takes longer is a slower rank."""
    machine = pylb.Machine.measure(comm, seconds=0.005, network=False)
    monitor = pylb.measure.Monitor(machine, comm)
    with told_clock() as spend, monitor.timed(work=10.0):
        spend(0.01 * (1 + 3 * (comm.rank == 0)))
    now = monitor.update()
    assert len(monitor.history) == 1
    assert now is monitor.machine
    if comm.size > 1:
        assert now.speed[0] < 0.6 * now.speed[1]
        assert now.part_sizes()[0] < now.part_sizes()[1]
    again = monitor.update()  # no rank has computed: no change
    assert np.allclose(again.speed, now.speed)
    with monitor.timed():
        time.sleep(0.02)  # no processor time, as if other programs used the core
    assert (monitor.update().busy > 0.5).all()
    other = pylb.Machine.parse(f"node:{comm.size + 1}")
    last = comm.rank == comm.size - 1
    raised(
        errors.DomainError,
        "ranks: expected",
        lambda: pylb.measure.Monitor(other if last else machine, comm),
    )
    raised(errors.DomainError, "comm is 3", lambda: pylb.measure.Monitor(machine, 3))


CASES = (measured, followed)

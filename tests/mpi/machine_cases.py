"""pylb.Machine and its monitor in a job."""

import dataclasses
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from each_case import in_blocks, raised, told_clock
from mpi4py import MPI

import pylb
from pylb.errors import DomainError as domain


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
    raised(domain, "seconds is 0", lambda: pylb.Machine.measure(comm, seconds=0))
    last = comm.rank == comm.size - 1  # an error of one rank is an error of all
    seconds = 0 if last else 0.01
    raised(domain, "seconds is 0", lambda: pylb.Machine.measure(comm, seconds=seconds))
    if comm.size > 1:
        raised(domain, "arguments differ", lambda: pylb.Machine.measure(comm, network=last))


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
    last = comm.rank == comm.size - 1
    other = pylb.Machine.parse(f"node:{comm.size + 1}") if last else machine
    raised(domain, "ranks: expected", lambda: pylb.measure.Monitor(other, comm))
    raised(domain, "comm is 3", lambda: pylb.measure.Monitor(machine, 3))


def linked(comm):
    """`network=` of a Balancer: measured, a machine, its file; one of another machine."""
    p, host = comm.size, MPI.Get_processor_name()
    measured = _ring(comm, network="measure")
    assert "near" not in measured.parameters.get("distances", {})  # all ranks are on one host
    rank, half = pylb.model.Place("rank"), (p + 1) // 2
    sides = tuple(pylb.model.Place("node", host, (rank,) * n) for n in (half, p - half) if n)
    near = np.eye(len(sides), dtype=bool)
    root = pylb.model.Place("machine", children=sides)
    machine = pylb.Machine(root, alpha=np.where(near, 1e-6, 1e-3), beta=np.where(near, 1e-9, 1e-6))
    run = _ring(comm, network=machine)
    folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    file = Path(folder, "machine.json")
    if comm.rank == 0:
        machine.save(file)
    comm.Barrier()
    again = _ring(comm, network=file)
    comm.Barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)
        assert np.array_equal(run.stretches[-1].rank, again.stretches[-1].rank)
        known = again.parameters.get("distances")
        assert (known is None) == (machine.near is None)
        assert known is None or known["node"] == machine.node.tolist()
    other = pylb.Machine.parse(f"node:{p + 1}")
    text = f"a machine with {p + 1} ranks: expected one with {p}"
    raised(domain, text, lambda: pylb.Balancer(comm, network=other))
    if p > 1:
        unknown = pylb.Machine(root)
        text = "alpha or beta of the machine is not known"
        raised(domain, text, lambda: pylb.Balancer(comm, network=unknown))
    elsewhere = tuple(
        dataclasses.replace(side, name="elsewhere" if side is sides[-1] else host) for side in sides
    )
    root = dataclasses.replace(root, children=elsewhere)
    other = pylb.Machine(root, alpha=machine.alpha, beta=machine.beta)
    text = "is on host 'elsewhere'", f"but on {host!r}"
    raised(domain, text, lambda: _ring(comm, network=other))


def _ring(comm, **words):
    lb = pylb.Balancer(
        comm, strategy="RefineCommLB", every=2, load=lambda key, _: 1.0 + key, **words
    )
    n = 6 * comm.size
    in_blocks(lb, n, lambda key: [0])
    for _ in lb.iterate(6):
        for key, _ in lb.local():
            lb.send((key + 1) % n, key, b"x" * 1000)
    folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    lb.save(Path(folder, "run.h5"))
    out = pylb.RunRecord.load(Path(folder, "run.h5"))
    comm.Barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)
    return out

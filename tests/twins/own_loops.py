"""The programs of examples/c and examples/fortran with declared seconds, in Python.

Each function is the program of one virtual rank.  It returns the LB steps: (step, migrations,
max/mean before, max/mean expected after it); a program that redistributes in its own way has no
migrations.
"""

import numpy as np
from in_order import added

import pylb


def lb_steps(lb):
    return [
        (r.iteration, r.migrations, r.before, r.predicted)
        for r in lb.history
        if r.choice == "balance"
    ]


def exchange_owners(comm, owner, mine, rank):
    for cells, to in comm.allgather((mine, rank)):
        owner[cells] = to


def particles_c(comm):
    """examples/c/particles.c: 192 cells on a ring, with a crowd of particles that goes round."""
    n_cells, n, pair, lb_step = 192, 12_000, 5e-9, 2e-3
    lb = pylb.Advisor(comm, strategy="BestFitLB")
    owner = np.arange(n_cells) * comm.size // n_cells
    i = np.arange(n)
    crowd = i % 2 == 0
    x = (i + 0.5) / np.where(crowd, 4 * n, n)
    v = np.where(crowd, 0.002, 0.0)
    for _ in range(200):
        mine = np.flatnonzero(owner == comm.rank)
        count = np.bincount((x * n_cells).astype(int), minlength=n_cells)[mine]
        loads = pair * (count * (count - 1.0) / 2)
        x += v
        x -= np.where(x >= 1.0, 1.0, 0.0)
        count = np.bincount((x * n_cells).astype(int), minlength=n_cells)[mine]
        if plan := lb.advise(loads=loads, keys=mine, nbytes=16 * count):
            exchange_owners(comm, owner, mine, plan.rank)
            lb.rebalanced(lb_step)
    return lb_steps(lb)


def jacobi_c(comm):
    """examples/c/jacobi.c: 240 rows; rows near a front are swept 20 times."""
    n_rows, n_steps, sweep, lb_step = 240, 300, 1e-6, 5e-4
    lb = pylb.Advisor(comm)
    first = [n_rows * r // comm.size for r in range(comm.size + 1)]
    row = np.arange(n_rows)
    for step in range(n_steps):
        front = step * (n_rows // 2) // n_steps + n_rows // 8
        seconds = sweep * np.where(np.abs(row - front) < n_rows // 12, 20, 1)
        mine = seconds[first[comm.rank] : first[comm.rank + 1]]
        if lb.advise(seconds=added(mine)):
            whole, done, first = added(seconds), 0.0, [0]
            for k, s in enumerate(seconds.tolist()):
                while len(first) < comm.size and done + 0.5 * s >= whole * len(first) / comm.size:
                    first.append(k)
                done += s
            first += [n_rows] * (comm.size + 1 - len(first))
            lb.rebalanced(lb_step)
    return lb_steps(lb)


def particles_fortran(comm):
    """examples/fortran/particles.f90: 128 cells, more time steps near a source that moves."""
    n_cells, n_steps, push, lb_step = 128, 200, 1e-7, 1e-3
    lb = pylb.Advisor(comm, strategy="BestFitLB")
    mine = np.arange(n_cells * comm.rank // comm.size, n_cells * (comm.rank + 1) // comm.size)
    count = 40 + 7 * np.arange(n_cells) % 20
    for step in range(1, n_steps + 1):
        near = np.abs(mine - n_cells * step // n_steps) < n_cells // 8
        loads = push * (np.where(near, 40, 2) * count[mine])
        if plan := lb.advise(loads=loads, keys=mine, nbytes=16 * count[mine]):
            mine = plan.migrate(mine)
            lb.rebalanced(lb_step)
    return lb_steps(lb)

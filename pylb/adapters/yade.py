"""Yade: it moves particles between neighbouring subdomains, and pylb decides when.

The script needs the clock "mpi", so start it by ``pylb run -- mpiexec -n 4 yade -n -x script.py``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from pylb.run.advisor import Advisor


def balance(mp: Any, **arguments: Any) -> Advisor | None:
    """Let pylb decide when Yade's module `mpy` reallocates particles to subdomains.  Collective.

    Call it before ``mp.mpirun``.  It replaces a fixed ``mp.REALLOCATE_FREQUENCY``: each time Yade
    detects collisions again, pylb decides whether particles move.  They move only between
    neighbours, so several LB steps may follow each other (``partial=True`` of `Advisor.advise`).

    Parameters
    ----------
    mp : module
        ``yade.mpy``, with one process for each rank of ``mpirun``.
    **arguments
        Arguments of `pylb.Advisor`, e.g. ``mode="off"``; default: ``clock="mpi"``.

    Returns
    -------
    Advisor or None
        It has `report()`, `n_lb_steps` and `history`.  None on Yade's master, which has no
        particles.

    Examples
    --------
    >>> pylb.adapters.yade.balance(mp)  # doctest: +SKIP
    >>> mp.mpirun(1000)  # doctest: +SKIP
    """
    comm, reallocate = mp.comm, mp.reallocateBodiesToSubdomains
    workers = comm.Split(mp.rank > 0)
    lb = Advisor(workers, **{"clock": "mpi", **arguments}) if mp.rank > 0 else None
    begun = False  # whether a step has begun; what precedes it made the scene

    def reallocate_if_it_pays(*args: Any, **kwargs: Any) -> None:
        nonlocal begun
        due: bool | Exception = False
        if lb is not None and not begun:
            lb._watch.resume()
        elif lb is not None:
            try:
                due = lb.advise(partial=True) is not None
            except Exception as error:
                due = error
        begun = True
        if isinstance(due := comm.bcast(due, root=1), Exception):
            raise due
        if due:
            with nullcontext() if lb is None else lb.rebalancing():
                reallocate(*args, **kwargs)

    mp.reallocateBodiesToSubdomains, mp.REALLOCATE_FREQUENCY = reallocate_if_it_pays, 1
    return lb

"""Yade: it moves particles between neighbouring subdomains, and pylb decides when.

The script needs the clock "mpi", so start it by ``pylb run -- mpiexec -n 4 yade -n -x script.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from pylb.errors import DomainError, RemoteError
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

    Raises
    ------
    DomainError
        Yade has only one process.
    RemoteError
        The first worker has failed, e.g. because `arguments` are wrong; the error names the cause.

    Examples
    --------
    >>> pylb.adapters.yade.balance(mp)  # doctest: +SKIP
    """
    comm, reallocate = mp.comm, mp.reallocateBodiesToSubdomains
    if comm.size < 2:
        raise DomainError("Yade has 1 process: expected its master and one or more workers")
    workers = comm.Split(mp.rank > 0)
    begun = False  # whether a step has begun; what precedes it made the scene

    def told(call: Callable[[], Any]) -> Any:
        """Return the first worker's result of `call` on all ranks, or raise its error on all."""
        result, error = None, ""
        if mp.rank > 0:
            try:
                result = call()
            except Exception as why:
                if mp.rank > 1:  # all workers have the same error
                    comm.bcast(None, root=1)
                    raise
                error = f"{type(why).__name__}: {why}"
        answer, error = comm.bcast((bool(result), error), root=1)
        if error:
            raise RemoteError(f"rank 1: {error}")
        return result if mp.rank > 0 else answer

    def decide() -> bool:
        assert lb is not None
        if begun:
            return lb.advise(partial=True) is not None
        lb._watch.resume()
        return False

    made = told(lambda: Advisor(workers, **{"clock": "mpi", **arguments}))
    lb: Advisor | None = made if mp.rank > 0 else None

    def reallocate_if_it_pays(*args: Any, **kwargs: Any) -> None:
        nonlocal begun
        due = told(decide)
        begun = True
        if due:
            with nullcontext() if lb is None else lb.rebalancing():
                reallocate(*args, **kwargs)

    mp.reallocateBodiesToSubdomains, mp.REALLOCATE_FREQUENCY = reallocate_if_it_pays, 1
    return lb

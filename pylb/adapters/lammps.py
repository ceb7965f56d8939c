"""LAMMPS: its command ``balance`` places the atoms, and pylb decides when.

The program needs the clock "mpi", so start it by ``pylb run -- mpiexec -n 4 python program.py``.
"""

from __future__ import annotations

import math
from typing import Any

from pylb import optional
from pylb.model import checks
from pylb.run.advisor import Advisor


def run(
    lmp: Any,
    steps: int,
    balance: str,
    *,
    piece: int = 50,
    lb: Advisor | None = None,
    **arguments: Any,
) -> Advisor:
    """Run LAMMPS for a number of time steps, and let it rebalance when that pays.  Collective.

    It replaces ``lmp.command(f"run {steps}")``.  The time steps run in pieces; after each piece
    pylb decides.  LAMMPS prints a line of thermo output at the ends of each piece.

    Parameters
    ----------
    lmp : lammps.lammps
        LAMMPS' Python object, on any communicator.
    steps : int
        Number of time steps.
    balance : str
        Commands of LAMMPS that redistribute the atoms, e.g. ``"balance 1.0 shift x 20 1.02"``; the
        threshold 1.0 lets LAMMPS carry out each LB step that pylb decides on.
    piece : int
        Number of time steps between two decisions.  The end of a piece costs energies, pressure and
        some waiting: with 10 instead of 50, a run on shared cores took 15 % longer.
    lb : Advisor, optional
        The result of an earlier call: pylb then goes on with what it has learned.
    **arguments
        Arguments of `pylb.Advisor`, e.g. ``mode="off"``; default: ``clock="mpi"``.

    Returns
    -------
    Advisor
        It has `report()`, `n_lb_steps` and `history`.

    Examples
    --------
    >>> lb = pylb.adapters.lammps.run(lmp, 3000, "balance 1.0 rcb")  # doctest: +SKIP
    """
    steps, piece = checks.whole("steps", steps, 0), checks.whole("piece", piece, 1)
    lb = lb or Advisor(_comm(lmp), **{"clock": "mpi", **arguments})
    lmp.command("run 0 post no")  # make neighbour lists and forces for the pieces
    now = lmp.extract_global("ntimestep")
    end = now + steps
    whole = f"start {now} stop {end}"  # ramps, e.g. of a temperature, extend over all steps
    for _ in lb.iterate(math.ceil(steps / piece)):
        lmp.command(f"run {min(piece, end - now)} {whole} pre no post no")
        now += piece
        if lb.advise():
            with lb.rebalancing():
                lmp.commands_string(balance)
                lmp.command("run 0 post no")
    return lb


def _comm(lmp: Any) -> Any:
    """Return the communicator; with mpi4py 4, `lmp.get_mpi_comm` of old versions returns None."""
    optional.require("mpi4py")
    from mpi4py import MPI

    return MPI.Comm.f2py(lmp.lib.lammps_get_mpi_comm(lmp.lmp))

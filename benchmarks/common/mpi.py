"""MPI programs that benchmarks start."""

from __future__ import annotations

import os
import subprocess
import sys


def ask_mpi() -> None:
    """Allow more ranks than cores, also as root; let ranks yield when they wait; use one thread."""
    root = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") if not os.geteuid() else ()
    asked = ("OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_mpi_yield_when_idle")
    for variable in (*asked, *root, "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")  # Open MPI 5


def on_ranks(n: int) -> None:
    """Start this program again, on n ranks, and exit; do nothing if mpiexec has started it.

    Call this function before mpi4py starts MPI; afterwards mpiexec cannot be started.
    """
    if not os.environ.keys() & {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}:
        ask_mpi()
        raise SystemExit(subprocess.call(["mpiexec", "-n", str(n), sys.executable, *sys.argv]))

"""MPI programs that benchmarks start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from pylb.run.mpi_engines import more_ranks


def ask_mpi() -> None:
    """Allow more ranks than cores, also as root; let ranks yield when they wait; use one thread."""
    for variable, value in {**more_ranks(), "OMP_NUM_THREADS": "1"}.items():
        os.environ.setdefault(variable, value)


def on_ranks(n: int) -> None:
    """Start this program again, on n ranks, and exit; do nothing if mpiexec has started it.

    Call this function before mpi4py starts MPI; afterwards mpiexec cannot be started.
    """
    if not os.environ.keys() & {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}:
        ask_mpi()
        raise SystemExit(subprocess.call(["mpiexec", "-n", str(n), sys.executable, *sys.argv]))


def answer_of(n: int, *words: object) -> Any:
    """Run this benchmark with ``--program`` and the words on n ranks; return its JSON."""
    ask_mpi()
    done = subprocess.run(
        ["mpiexec", "-n", str(n), sys.executable, sys.argv[0], "--program", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])

"""Run a program of this folder under mpiexec."""

import os
import subprocess
import sys
from pathlib import Path

import pylb

HERE = Path(__file__).parent
PYLB = Path(pylb.__file__).resolve().parents[1]  # the same pylb for the ranks


def launch(mpiexec, ranks, *words, **environment):
    """Run a program of tests/mpi; after 400 s, which no busy machine needs, it is killed."""
    path = os.pathsep.join([str(PYLB), str(HERE), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*mpiexec, "-n", str(ranks), sys.executable, "-W", "error", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    ) as process:
        try:
            out, said = process.communicate(timeout=400)
        finally:
            process.kill()
    return process.returncode, out, said

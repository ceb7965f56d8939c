"""An allocation of the recorder fails: the program ends soon, with a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")
HERE = Path(__file__).parents[1] / "mpi"
EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))


@pytest.mark.slow
def test_the_recorder_has_no_memory(mpiexec, tmp_path):
    of_pypi = Path(mpiexec[0]).parent == Path(sys.executable).parent
    if of_pypi or not sys.platform.startswith("linux"):
        pytest.skip("no mpicc of this MPI, or not Linux with glibc")
    program, library = tmp_path / "program", tmp_path / "no_malloc.so"
    source = HERE / "no_memory_recorded.c"
    subprocess.run(["mpicc", source, "-o", program, "-ldl"], check=True)
    source = HERE / "no_malloc.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    env = {**os.environ, "LD_PRELOAD": str(library), "NO_MALLOC_IN": "pylb/_record"}
    at, step, whole = 0, 1 if EXPLORE else 25, False
    while not whole:
        words = [sys.executable, "-m", "pylb", "record", "-o", tmp_path / "run", "--"]
        words += [*mpiexec, "-n", "2", program, str(at)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        whole = "whole" in done.stdout and "failed" not in done.stdout
        assert whole == (done.returncode == 0), said
        assert whole or "pylb record: out of memory: the program ends" in said
        at += step
    assert at > step

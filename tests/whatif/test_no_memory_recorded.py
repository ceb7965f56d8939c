"""An allocation of the recorder fails: the program ends soon, with a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pylb.cli.main import main

pytest.importorskip("h5py")
HERE = Path(__file__).parents[1] / "mpi"
EXPLORE = bool(os.environ.get("PYLB_EXPLORE"))


@pytest.mark.slow
def test_the_recorder_has_no_memory(mpiexec, no_malloc, tmp_path, monkeypatch, capfd):
    of_pypi = Path(mpiexec[0]).parent == Path(sys.executable).parent
    if of_pypi or not sys.platform.startswith("linux"):
        pytest.skip("no mpicc of this MPI, or not Linux with glibc")
    program = tmp_path / "program"
    source = HERE / "no_memory_recorded.c"
    subprocess.run(["mpicc", source, "-o", program, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", no_malloc)
    monkeypatch.setenv("NO_MALLOC_IN", "pylb/_record")
    at, step, whole = 0, 1 if EXPLORE else 25, False
    while not whole:
        words = ["record", "-o", str(tmp_path / "run"), "--", *mpiexec, "-n", "2"]
        code = main([*words, str(program), str(at)])
        out, said = capfd.readouterr()
        whole = "whole" in out and "failed" not in out
        assert whole == (code == 0), out + said
        assert whole or "pylb record: out of memory: the program ends" in out + said
        at += step
    assert at > step

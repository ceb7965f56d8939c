"""Every reader survives a number of changed files, and the harness notices failures."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")
pytest.importorskip("brotli")
pytest.importorskip("yaml")
HERE = Path(__file__).with_name("python")


def test_changed_files_are_read_or_refused():
    """Forty files of each kind are tried; ``make fuzz SECONDS=...`` tries more."""
    words = [sys.executable, str(HERE / "run.py"), "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert len(rows) == 15
    assert all(row[1] == "40" and row[4] == "0" for row in rows)
    assert sum(int(row[2]) for row in rows) > 50  # many of the changed files can still be read
    assert sum(int(row[3]) for row in rows) > 50


FAULTS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import run
from pylb.errors import FormatError

def fault(path):
    seed = int(path.read_bytes())
    if seed == 1:
        raise KeyError("raw")
    if seed == 2:
        signal.pause()
    if seed == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed == 4:
        bytearray(8 << 30)
    if seed == 5:
        raise FormatError("x" * 3000)
    if seed == 6:
        raise FormatError("short")
    while seed == 8:
        pass

run.LIMIT, run.WAIT = 0.2, 6  # far apart, because the machine may be busy
run.case, run.keep = lambda target, seed: str(seed).encode(), print
at, board = 0, run.Board()
target = run.Target("file", [b""], fault)
while at < 9:
    at, counts, said = run.batch(target, range(at, 9), Path(sys.argv[2]), board)
    print(at - 1, counts, said)
"""


def test_the_harness_sees_every_kind_of_failure(tmp_path):
    words = [sys.executable, "-c", FAULTS, str(HERE), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "1 [1, 0, 1] KeyError: 'raw'",
        "2 [0, 0, 1] waits for 6 s",
        "3 [0, 0, 1] SIGSEGV",
        "4 [0, 0, 1] MemoryError: ",
        "5 [0, 0, 1] a message of 3000 characters",
        "8 [1, 1, 1] computes for 0.2 s",
    ]

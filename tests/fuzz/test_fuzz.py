"""Every reader survives a number of changed files, and the harness notices failures."""

import re
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


# ---- odd arguments of the public functions raise errors of pylb, and nothing crashes or hangs --


def test_odd_calls():
    words = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "python" / "odd.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(re.fullmatch(r"(\d+) calls, 0 wrong\n", done.stdout.lstrip("\n")).group(1)) > 8000

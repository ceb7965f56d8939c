"""Odd arguments of the public functions raise errors of pylb, and nothing crashes or hangs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")
pytest.importorskip("yaml")


def test_odd_calls():
    words = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "python" / "odd.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(re.fullmatch(r"(\d+) calls, 0 wrong\n", done.stdout.lstrip("\n")).group(1)) > 8000

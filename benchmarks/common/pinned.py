"""MPI programs on chosen cores and shares of them, recorded or only timed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pylb.lab import Lab
from pylb.prediction.recorder.launch import TOKEN, RecordMonitor, loaded
from pylb.prediction.recorder.recording import Recording

PIN = Path(__file__).with_name("pin.py")


@dataclass(frozen=True)
class Place:
    """The core of each rank, and which part of this core the rank may use.

    Attributes
    ----------
    cores : tuple of int
    shares : tuple of float
        Empty: each rank may use its whole core.
    """

    cores: tuple[int, ...]
    shares: tuple[float, ...] = ()

    def __str__(self) -> str:
        shares = " at " + ",".join(f"{s:g}" for s in self.shares) if self.shares else ""
        return ",".join(map(str, self.cores)) + shares

    def command(self, program: Sequence[str]) -> list[str]:
        """Return the whole command line that runs a program on these cores."""
        return [
            *("mpiexec", "-n", str(len(self.cores)), "--bind-to", "none"),
            *(sys.executable, "-I", "-S", str(PIN), ",".join(map(str, self.cores))),
            *program,
        ]


def run(program: Sequence[str], place: Place, *, only_time: bool = False) -> Recording:
    """Run a program on the cores of `place`, and record it."""
    monitor = RecordMonitor()
    words = loaded(place.command(program), monitor.address, only_time=only_time)
    os.environ[TOKEN] = monitor.token
    done = threading.Event()
    thread = threading.Thread(target=monitor.serve_until, args=(done.is_set,))
    thread.start()
    try:
        code = _run(words, place.shares)
    finally:
        done.set()
        thread.join()
        monitor.close()
    recording = monitor.recording(words)
    if code != 0 or recording.seconds is None:
        raise SystemExit(f"{program} on {place}: exit code {code}, {recording.warnings}")
    return recording


def _run(words: list[str], shares: Sequence[float]) -> int:
    """Run a command without showing its output; return its exit code."""
    out = os.dup(1)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
    try:
        if not shares:
            return subprocess.run(words, stderr=subprocess.DEVNULL).returncode
        with Lab(shares) as lab:
            return lab.run(words)
    finally:
        os.dup2(out, 1)
        os.close(out)

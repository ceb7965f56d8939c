"""The experience file: what the runs of a program have learned, for its next runs."""

from __future__ import annotations

import fcntl
import logging
import math
import os
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pylb import _core, files
from pylb.comm.agreement import Agreement, Step
from pylb.console import count, json_text
from pylb.decide.registry import Trigger, trigger
from pylb.errors import FormatError, MissingFileError, PylbError
from pylb.model import checks
from pylb.model.snapshot import F64

log = logging.getLogger("pylb")
FORMAT = "pylb experience"
BEGIN = b'{\n "format": "pylb experience"'
FIELDS = _core.experience()  # (name, n, unit, help): what a run learns, n values under each name
PATIENCE = 2.0  # seconds to wait while another run writes


class Damaged(FormatError):
    """The file was cut off, or changed by hand; a run replaces it."""


class Experience:
    """The file ``experience=path``, which only rank 0 reads and writes.

    Each program has an entry for each number of ranks.  At its end, a run replaces the entry by
    what earlier runs and the run itself have learned.
    """

    def __init__(self, path: Any, kind: str, rank: int, size: int) -> None:
        """Check `path`; `kind` is "Balancer" or "Advisor"."""
        self.path, self._is_root = files.named(path), rank == 0
        program = os.path.basename(sys.argv[0]) or "python"
        self.entry = f"{program}, {kind}, {count(size, 'rank')}"
        self.runs = 0  # number of earlier runs from whose experience this run has started
        self._done = 0  # iterations of this run when it last wrote its entry
        folder = os.path.dirname(os.path.realpath(self.path))
        if self._is_root and not os.path.isdir(folder):
            raise MissingFileError(f"experience is {self.path!r}: there is no folder {folder}")
        if self._is_root and os.path.exists(self.path):
            with files.reading(self.path) as file:
                if not BEGIN.startswith(file.read(len(BEGIN))):
                    raise FormatError(
                        f"experience is {self.path!r}, another kind of file: expected an "
                        "experience file, or the path of a new one"
                    )

    def begin(self, which: Trigger, agreement: Agreement) -> tuple[float, str]:
        """Start the trigger from what earlier runs have learned, before a loop.  Collective.

        Returns the cost of an LB step (nan: not known), and a text that names the source.
        """
        told = agreement.together(
            Step.FORESEE, lambda: self._read().tobytes() if self._is_root else b""
        )
        runs, *numbers = np.frombuffer(agreement.transport.allgather(told)[0]).tolist() or [0]
        if not numbers:
            return math.nan, ""
        self.runs = int(runs)
        which.begin(numbers)
        return named(numbers)["cost"], f"{self.path}, {count(self.runs, 'earlier run')}"

    def write_at_end(self, which: Trigger, agreement: Agreement) -> None:
        """Also write when `agreement` is freed, or at the end of the program."""
        if self._is_root:
            end = lambda: self.write(which, is_whole=not hasattr(sys, "last_value"))  # noqa: E731
            weakref.finalize(agreement, end)

    def _read(self) -> F64:
        """Return the number of runs and what they have learned; empty: there is no such entry."""
        try:
            entries = read(self.path)
            if self.entry in entries:
                entry = entries[self.entry]
                return np.array([entry["runs"], *_numbers(entry)])
            log.warning(
                "pylb: %s: no entry for (%s) yet, only for (%s)",
                *(self.path, self.entry, "), (".join(entries)),
            )
        except MissingFileError:
            pass
        except (PylbError, OSError) as why:
            log.warning("pylb: %s; the run begins without experience", why)
        return np.zeros(0)

    def write(self, which: Trigger, is_whole: bool) -> None:
        """Replace the entry.  `is_whole`: the run has not ended early."""
        done = which.state()["iteration"] + 1
        if not self._is_root or done == self._done:
            return
        if self.runs and not which.told:
            log.warning(
                "pylb: %s: the mean load differs from that of earlier runs by more than a factor "
                "of 2, so their experience was not used",
                self.path,
            )
            self.runs = 0
        entry = {"runs": self.runs + 1, **named(which.learned())}
        entry["iterations"] = done if is_whole else None
        try:
            with _locked(self.path):
                try:
                    entries = read(self.path)
                except (MissingFileError, Damaged):
                    entries = {}
                entries[self.entry] = entry
                content = {"format": FORMAT, "version": 1, "entries": entries}
                files.write_text(self.path, json_text(content, indent=1) + "\n")
        except (PylbError, OSError) as why:
            log.warning("pylb: %s; what this run has learned is not stored", why)
        self._done = done


def read(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Return the entries; each has the number of `runs` and what they have learned (None: unknown).

    Raises MissingFileError, OSError, Damaged, or FormatError for a file of another version.
    """
    name = files.decoded(path)
    try:
        found = files.json_of(path)
        if (version := found["version"]) == 1:
            entries: dict[str, dict[str, Any]] = found["entries"]
            for entry in entries.values():
                trigger("auto").begin(_numbers(entry))
                checks.whole("runs", entry["runs"], 1)
            return entries
    except (PylbError, AttributeError, KeyError, TypeError, ValueError) as why:
        if isinstance(why, MissingFileError):
            raise
        raise Damaged(f"{name} was cut off or damaged: expected an experience file") from None
    raise FormatError(f"{name} has version {version!r} of an experience file: expected 1")


def named(numbers: list[float]) -> dict[str, Any]:
    """Return what a trigger has learned, as a dict; `numbers` are the values of `FIELDS`."""
    rest = iter(numbers)
    return {f: next(rest) if n == 1 else [next(rest) for _ in range(n)] for f, n, *_ in FIELDS}


def _numbers(entry: dict[str, Any]) -> list[float]:
    """Return an entry as the numbers from which a trigger starts; nan: unknown."""
    each = [entry[name] if n > 1 else [entry[name]] for name, n, *_ in FIELDS]
    return [math.nan if x is None else x for values in each for x in values]


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Lock the folder, so that no other run writes; after `PATIENCE`, go on without the lock."""
    fd = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:  # another run writes, or the file system has no locks
                time.sleep(0.01)
        yield
    finally:
        os.close(fd)

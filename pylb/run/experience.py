"""The experience file: what the runs of a program have learned, for its next runs."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from pylb import _core, files
from pylb.comm.agreement import Agreement, Step
from pylb.console import count
from pylb.decide.registry import Trigger
from pylb.errors import FormatError, MissingFileError

log = logging.getLogger("pylb")
KIND = '{"pylb experience": '
COST = 2  # the cost of an LB step, among the numbers of PLB_EXPERIENCE (csrc/decide/trigger.h)


class Experience:
    """The file ``experience=path``, which only rank 0 reads and writes (csrc/lib/experience.h).

    Each program has an entry for each number of ranks.  At its end, a run adds a line with what
    earlier runs and the run itself have learned.
    """

    def __init__(self, path: Any, kind: str, rank: int, size: int) -> None:
        """Check `path`; `kind` is "Balancer" or "Advisor"."""
        self.path, self._is_root = files.named(path), rank == 0
        program = os.path.basename(sys.argv[0]) or "python"
        self.entry = entry_of(f"{program}, {kind}", size)
        self.runs = 0  # number of earlier runs from whose experience this run has started
        self._done = 0  # iterations of this run when it last wrote its entry
        folder = os.path.dirname(os.path.realpath(self.path))
        if self._is_root and not os.path.isdir(folder):
            raise MissingFileError(f"experience is {self.path!r}: there is no folder {folder}")
        if self._is_root:
            _core.read_experience(self.path, self.entry)  # raises if it is another kind of file

    def begin(self, which: Trigger, agreement: Agreement) -> tuple[float, str]:
        """Start the trigger from what earlier runs have learned, before a loop.  Collective.

        Returns the cost of an LB step (nan: not known), and a text that names the source.
        """

        def read() -> bytes:
            past, words = _core.read_experience(self.path, self.entry)
            self._say(words)
            return past.tobytes()

        told = agreement.together(Step.FORESEE, lambda: read() if self._is_root else b"")
        runs, *numbers = np.frombuffer(agreement.transport.allgather(told)[0]).tolist()
        self.runs = int(runs)
        if not self.runs:
            return math.nan, ""
        which.begin(numbers)
        return numbers[COST], f"{self.path}, {count(self.runs, 'earlier run')}"

    def write_at_end(self, which: Trigger, agreement: Agreement) -> None:
        """Also write when `agreement` is freed, or at the end of the program."""
        if self._is_root:
            end = lambda: self.write(which, is_whole=not hasattr(sys, "last_value"))  # noqa: E731
            weakref.finalize(agreement, end)

    def write(self, which: Trigger, is_whole: bool) -> None:
        """Add a line to the file.  `is_whole`: the run has not ended early."""
        if self._is_root:
            self._done, words = which.write(self.path, self.entry, self.runs, is_whole, self._done)
            self._say(words)

    def _say(self, words: str) -> None:
        if words:
            log.warning("pylb: %s", words)


def entry_of(program: str, n_ranks: int) -> str:
    """Return the name of an entry."""
    plain = re.sub(r'[^ -~]|["\\]', " ", program)
    return f"{plain}, {count(n_ranks, 'rank')}"


def read(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Return the entries; each has the number of `runs` and what they have learned (None: unknown).

    Raises MissingFileError, OSError or FormatError.
    """
    content, out = files.text(path), {}
    if not content.startswith(KIND):
        raise FormatError(f"{os.fspath(path)}: not an experience file")
    for line in content.splitlines():
        with suppress(KeyError, TypeError, ValueError):  # a line that was cut off
            entry = json.loads(line)
            if entry.pop("pylb experience") == 1:
                out[entry.pop("program")] = entry
    return out

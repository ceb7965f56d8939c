"""Read run records of both formats: HDF5 from Python programs, JSON from the C library."""

from __future__ import annotations

import os

from pylb.io import advisor_run, h5
from pylb.io.run_record import RunData


def is_record(path: str | os.PathLike[str]) -> bool:
    """Say whether a file is a run record, by its suffix or its first bytes."""
    return h5.is_record(path) or advisor_run.is_record(path)


def read(path: str | os.PathLike[str]) -> RunData:
    """Read a run record; its errors are those of `pylb.RunRecord.read`."""
    return advisor_run.read(path) if advisor_run.is_record(path) else h5.read(path)

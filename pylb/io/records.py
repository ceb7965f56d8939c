"""Read run records: HDF5 from Python programs, JSON from the C library (``csrc/lib/record.c``)."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from pylb.decide.decider import receipt_of
from pylb.decide.receipts import History, Receipt
from pylb.errors import FormatError
from pylb.files import begins, decoded, json_of, understood
from pylb.io import h5
from pylb.io.run_record import FIGURES, MOST, Loop, RunData, Stretch, check_figures
from pylb.model.snapshot import F64

FORMAT, VERSION = "pylb advisor", 1
START = f'{{"format": "{FORMAT}"'.encode()
SETTINGS = (
    *("pylb", "strategy", "strategy_params", "trigger", "trigger_params"),
    *("mode", "lag", "seed", "clock", "pause_if_useless"),
)


def _run(name: str, record: dict[str, Any]) -> RunData:
    """Return the run of a record.  Each rank counts as one object, with its load in each step."""
    if record.get("format") != FORMAT:
        raise FormatError(f"{name}: JSON, but not a run record of pylb's C library")
    if record["version"] != VERSION:
        raise FormatError(f"{name}: version {record['version']}: expected version {VERSION}")
    figures = np.array(record["figures"], np.float64).reshape(-1, len(FIGURES))
    p = int(record["n_ranks"])
    load = np.array(record["loads"], np.float64).reshape(p, -1).T
    if len(load) != len(figures):
        raise FormatError(
            f"{name}: it has figures of {len(figures)} steps, but loads of {len(load)}: expected "
            "the same number"
        )
    check_figures(figures)
    if not ((load >= 0) & (load <= MOST)).all():
        raise FormatError(f"{name}: loads: expected numbers from 0 to {MOST:g}")
    columns: dict[str, Any] = dict(zip(FIGURES, figures.T, strict=True))
    parameters = {word: record[word] for word in SETTINGS}
    if "cores" in record:
        parameters["cores"] = record["cores"]
    if known := record.get("sharing"):  # assume that successive ranks are on the same host
        n = max(int(known["ranks"]), 1)
        group = [r // n * n for r in range(p)]
        parameters["sharing"] = {**known, "group": group, "cores": [known["cores"]] * p}
    return RunData(
        n_ranks=p,
        stretches=[_stretch(load)] if len(load) else [],
        parameters=parameters | {"advisor": True, "keyed": False},
        history=History(_receipt(row, record) for row in record["receipts"]),
        loops=[Loop(0, len(load))],
        path=name,
        **columns,
    )


def _stretch(load: F64) -> Stretch:
    """Return a stretch with one object per rank, which may not migrate."""
    p = load.shape[1]
    key, rank = np.arange(p, dtype=np.int64), np.arange(p, dtype=np.int32)
    none, nothing = np.zeros(0, np.int32), np.zeros(0)
    size, unknown = np.zeros(p, np.int64), np.full(p, -1, np.int64)
    fixed = np.zeros(p, bool)
    return Stretch(
        0, key, rank, size, unknown, fixed, load, none, none, nothing, nothing, rank.copy()
    )


def _receipt(row: dict[str, Any], record: dict[str, Any]) -> Receipt:
    known = {k: math.nan if v is None else v for k, v in row.items()}
    known["speed"] = tuple(row["speed"])
    known["alternatives"] = [
        [math.nan if x is None else x for x in pair] for pair in row["alternatives"]
    ]
    return receipt_of(known, record["strategies"], record["trigger"], record["seed"])


# ---- both formats -------------------------------------------------------------------------------


def is_record(path: str | os.PathLike[str]) -> bool:
    """Say whether a file is a run record, by its suffix or its first bytes."""
    return h5.is_record(path) or begins(path, START)


def read(path: str | os.PathLike[str]) -> RunData:
    """Read a run record; its errors are those of `pylb.RunRecord.load`."""
    if not begins(path, START):
        return h5.read(path)
    name = decoded(path)
    with understood(name, "a readable run record"):
        return _run(name, json_of(name))

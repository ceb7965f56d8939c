"""A swap file for the ranks' memory beyond their limits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pylb.errors import NotAllowedError
from pylb.lab import units
from pylb.lab.state import State, must

FOLDER = Path("/var/tmp")  # on a disk, which /tmp need not be
KEPT = 0.5  # part of the free disk that a swap file may take


def swap_on(state: State, size: int) -> str:
    """Provide swap of `size` bytes as long as the lab lives; return what was done.

    The machine's own swap is used if enough of it is free.

    Raises
    ------
    NotAllowedError
        No swap file can be made or used here; the message says what would help.
    """
    free = swap_free()
    if free >= size:
        return f"swap: {units.shown_bytes(free)} free of the machine's own"
    if size > KEPT * shutil.disk_usage(FOLDER).free:
        raise NotAllowedError(
            f"swap is {units.shown_bytes(size)}: expected at most half of what is free in {FOLDER}"
        )
    path = FOLDER / f"{state.name}.swap"
    state.will("swap", str(path))
    try:
        with open(path, "xb", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            os.posix_fallocate(file.fileno(), 0, size)
        must(["mkswap", str(path)])
        must(["swapon", str(path)])
    except OSError as why:
        raise NotAllowedError(
            f"no swap for what is above a rank's memory ({why}): run as root on a machine whose "
            f"{FOLDER} can hold a swap file, or give the machine {units.shown_bytes(size)} of swap"
        ) from why
    return f"swap: {units.shown_bytes(size)} in {path}"


def swap_free() -> int:
    """Bytes of the machine's swap that are free."""
    words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(words.get("SwapFree", "0 kB").split()[0])

"""Provide swap for the memory that ranks use above their limits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pylb.errors import NotAllowedError
from pylb.lab import units
from pylb.lab.state import State, must

FOLDER = Path("/var/tmp")  # usually on a disk; /tmp can be in memory
MOST = 0.5  # largest size of a swap file, as a fraction of the free disk space


def swap_on(state: State, size: int) -> str:
    """Provide `size` bytes of swap as long as the lab lives; return a message about it.

    The machine's own swap is used if enough of it is free.
    """
    free = swap_free()
    if free >= size:
        return f"swap: the machine's own, {units.shown_bytes(free)} free"
    if size > MOST * shutil.disk_usage(FOLDER).free:
        raise NotAllowedError(
            f"swap is {units.shown_bytes(size)}: expected at most half the free space of {FOLDER}"
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
            f"no swap file could be made in {FOLDER} ({why}): run as root where {FOLDER} is on a "
            f"disk, or give the machine {units.shown_bytes(size)} of swap"
        ) from why
    return f"swap: {units.shown_bytes(size)} in {path}"


def swap_free() -> int:
    """Return the free bytes of the machine's swap."""
    words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(words.get("SwapFree", "0 kB").split()[0])

"""The memory that a rank may use: its share of what its machine or its control group has."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pylb.comm.agreement import Agreement
from pylb.errors import DomainError
from pylb.run.partners import ranks_with

UNLIMITED = 1 << 60  # bytes; a limit this high means "none" (control groups of version 1: 2^63)


class Bound(NamedTuple):
    """A memory limit of this process."""

    nbytes: int
    name: str  # the same for all processes that share the limit


def share(agreement: Agreement, iteration: int, before: int) -> int:
    """Return the bytes that objects of this rank may occupy.  Collective.

    This is L / s - B / r.  L: limit of the machine or of the control group; s: number of ranks that
    share this limit; B: `before`, the bytes that the process used before there were objects; r:
    number of ranks in the process.
    """
    bound, process = tightest(), f"{socket.gethostname()} {os.getpid()}"
    sharing, in_process = (
        len(ranks_with(agreement, iteration, name)) or agreement.transport.size
        for name in (bound.name, process)
    )
    return max(bound.nbytes // sharing - before // in_process, 0)


def resident(proc: Path = Path("/proc")) -> int:
    """Return the bytes of memory that this process uses now; 0: not known."""
    try:
        pages = int((proc / "self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def tightest(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Bound:
    """Return the memory of the machine, or the limit of a control group if that is lower."""
    host = socket.gethostname()
    found = [Bound(nbytes, f"{host} {path}") for path, nbytes in _limits(proc, groups)]
    total = _machine(proc)
    if total:
        found.append(Bound(total, host))
    if not found:
        raise DomainError(
            "memory_limit is 'auto', but the memory of this machine is not known: expected bytes"
        )
    return min(found)


def _machine(proc: Path) -> int:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) << 10
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _limits(proc: Path, groups: Path) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each control group's limit for this process, its own group first."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, kinds, path = line.split(":", 2)
        if number == "0":  # control groups of version 2
            yield from _limits_upwards(groups, path, "memory.max")
        elif "memory" in kinds.split(","):
            yield from _limits_upwards(groups / "memory", path, "memory.limit_in_bytes")


def _limits_upwards(root: Path, path: str, name: str) -> Iterator[tuple[str, int]]:
    group = root / path.lstrip("/")
    while True:
        try:
            content, place = (group / name).read_text().strip(), str(group.stat().st_ino)
        except OSError:  # a group above the container's root, or without memory control
            content, place = "max", ""
        if content.isdigit() and int(content) < UNLIMITED:
            yield place, int(content)
        if group == root or root not in group.parents:
            return
        group = group.parent

"""Control groups of a lab: find where they can be made; make, change, read and remove them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pylb.errors import NotAllowedError
from pylb.lab import state
from pylb.lab.plan import SLACK, Limit, Usage
from pylb.lab.state import words

ADVICE = (
    "run as root, or in a delegated cgroup v2: "
    "systemd-run --user --scope -p Delegate=yes pylb lab ..."
)
ABSENT = "no cgroup hierarchy with the controller {} is mounted: " + ADVICE

# ---- the files of a group, of versions 1 and 2 --------------------------------------------------

# The largest weights that the kernel accepts: ranks get their shares even if other processes want
# the cores.  Other processes get the remaining time.
WEIGHTS = {"cpu.shares": "262144", "cpu.weight": "10000"}

# Where to read each field of `Usage`: (file, key in this file, unit).  The key is "" if the file is
# a single number.  The first file that has the number counts.
READ = {
    "cpu_seconds": (("cpuacct.usage", "", 1e-9), ("cpu.stat", "usage_usec", 1e-6)),
    "periods": (("cpu.stat", "nr_periods", 1),),
    "throttled": (("cpu.stat", "nr_throttled", 1),),
    "throttled_seconds": (
        ("cpu.stat", "throttled_time", 1e-9),
        ("cpu.stat", "throttled_usec", 1e-6),
    ),
    "memory": (("memory.peak", "", 1), ("memory.max_usage_in_bytes", "", 1)),
    "paged": (("memory.stat", "total_pgmajfault", 1), ("memory.stat", "pgmajfault", 1)),
    "killed": (("memory.events", "oom_kill", 1), ("memory.oom_control", "oom_kill", 1)),
}


def control(limit: Limit) -> list[tuple[str, str]]:
    """Return (file, text) pairs to write, in this order, of v1 and v2: a group has some of them."""
    quota, period = str(limit.quota_us), str(limit.period_us)
    out = [
        ("cpu.max", f"{quota} {period}"),
        ("cpu.cfs_period_us", period),
        ("cpu.cfs_quota_us", quota),
    ]
    if limit.memory is not None:
        out.append(("memory.max", str(limit.memory)))
        slack = str(limit.memory + SLACK)  # see `Lab._keeping`
        out.append(("memory.limit_in_bytes", slack))
    return out


# ---- where groups can be made -------------------------------------------------------------------


def hierarchies(mountinfo: str, cgroup: str) -> dict[str, tuple[Path, Path]]:
    """Return the hierarchy of each controller: its top directory, and this process's group in it.

    The hierarchy of version 2 has the key "".  For the arguments see proc(5) and cgroups(7).
    """
    own, out = {}, {}
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, point = left.split(" ")[3:5]
        controllers = {"cgroup": options.split(","), "cgroup2": [""]}
        for name in {*controllers.get(kind, ())} & own.keys():
            below = os.path.relpath(own[name], root)
            # In a container, the path may be one of the host, which does not exist here.
            inside = Path() if below.startswith("..") else Path(below)
            if name or name not in out:  # of several mounts of version 2, the first one
                out[name] = (Path(point), Path(point) / inside)
    return out


def parents(mountinfo: str, cgroup: str, memory: bool = False) -> list[Path]:
    """Return where a lab makes its directories: one place in each hierarchy that it needs.

    The arguments are the texts of /proc/self/mountinfo and /proc/self/cgroup, and whether a rank
    has a memory limit.  If version 1 controls the processor, version 2 cannot control it.
    """
    seen = hierarchies(mountinfo, cgroup)
    found = {name: seen[name][1] for name in ("cpu", "cpuacct", "memory") if name in seen}
    if {"cpu", "cpuacct"} <= found.keys():
        if memory and "memory" not in found:
            raise NotAllowedError(ABSENT.format("memory"))
        if not (memory or os.access(found.get("memory", ""), os.W_OK)):
            found.pop("memory", None)  # without a limit, the group would only count memory
        return sorted(set(found.values()))
    if "" in seen:
        return [_delegated(*seen[""], ["cpu", "memory"] if memory else ["cpu"])]
    raise NotAllowedError(ABSENT.format("cpu"))


def _delegated(top: Path, own: Path, wanted: Sequence[str]) -> Path:
    """Return the nearest directory from `own` up to `top` whose groups can have the controllers.

    A directory that already permits them is preferred.  In version 2, only the machine's root group
    can have both processes and children with controllers.  So if this process is alone in a group,
    it moves to a child group.
    """
    up_to_top = itertools.takewhile(lambda f: f != top.parent, (own, *own.parents))
    folders = [
        folder
        for folder in up_to_top
        if os.access(folder, os.W_OK) and set(wanted) <= set(words(folder / "cgroup.controllers"))
    ]
    for folder in folders:
        if set(wanted) <= set(words(folder / "cgroup.subtree_control")):
            return folder
    for folder in folders:
        inside = words(folder / "cgroup.procs")
        real_root = not (folder / "cgroup.type").exists()
        if real_root or set(inside) <= {str(os.getpid())}:
            if inside and not real_root:
                (folder / "pylb").mkdir(exist_ok=True)
                (folder / "pylb/cgroup.procs").write_text(str(os.getpid()))
            (folder / "cgroup.subtree_control").write_text(f"+{' +'.join(wanted)}")
            return folder
    what = f"can have children with {', '.join(wanted)}"
    raise NotAllowedError(f"no group from {own} upwards {what}: {ADVICE}")


class Groups:
    """A directory in each hierarchy, `bases`, with a group for each rank and one for the rest."""

    def __init__(self, lab: state.State, where: Sequence[Path], memory: bool = False) -> None:
        self.bases = [folder / lab.name for folder in where]
        for base in self.bases:
            if base.exists():  # it must not come into the journal, because others may use it
                raise NotAllowedError(f"{base} exists: expected no group of this name")
        try:
            for base in self.bases:
                lab.will("group", str(base))
                base.mkdir()
                for name, most in WEIGHTS.items():
                    if (base / name).exists():
                        (base / name).write_text(most)
                if (base / "cgroup.subtree_control").exists():
                    wanted = "+cpu +memory" if memory else "+cpu"
                    (base / "cgroup.subtree_control").write_text(wanted)
        except OSError as error:
            raise NotAllowedError(f"cannot make {base} ({error.strerror}): {ADVICE}") from error

    def ranks(self) -> list[int]:
        """Return the ranks that have a group."""
        return sorted(int(p.name.removeprefix("rank")) for p in self.bases[0].glob("rank*"))

    def files(self, rank: int, name: str) -> list[Path]:
        """Return the files of this name in the rank's groups."""
        files = [base / f"rank{rank}" / name for base in self.bases]
        return [file for file in files if file.exists()]

    def change(self, rank: int, limit: Limit) -> None:
        """Give a running rank another limit; raise OSError if the kernel refuses it."""
        for name, value in control(limit):
            for file in self.files(rank, name):
                file.write_text(value)

    def usage(self, rank: int, limit: Limit, host: str = "") -> Usage:
        """Return what a rank has used so far."""
        out: dict[str, Any] = dict.fromkeys(READ) | {"killed": 0}
        for field, places in READ.items():
            numbers = (
                (file, key, unit) for name, key, unit in places for file in self.files(rank, name)
            )
            for file, key, unit in numbers:
                found = words(file) if key else ["", *words(file)]
                known = dict(zip(found[::2], found[1::2], strict=False))  # []: the group is gone
                if not out[field] and known.get(key):
                    out[field] = unit * int(known[key])
        return Usage(rank, limit, host=host, **out)

    def kill(self) -> None:
        """Kill all processes in the groups."""
        for base in self.bases:
            state.kill(base)

    def clear(self) -> None:
        """Kill all processes and remove all groups, with their counters; keep the directories."""
        for base in self.bases:
            state.remove_groups(base)

"""A lab's folder: files for its processes, and a journal of what must be removed at the end.

Namespaces and swap files outlive the process that made them.  Each is written to the journal before
it is made, so that the next lab can remove what a killed lab has left."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pylb.errors import NotAllowedError
from pylb.lab import units

PREFIX = "pylb-lab-"
JOURNAL = "journal"


def attempt(command: Sequence[str]) -> str:
    """Run a command; return "" if it succeeds, else its error message."""
    made = subprocess.run(command, capture_output=True, text=True)
    return " ".join(made.stderr.split()) or "failed" if made.returncode else ""


def must(command: Sequence[str]) -> None:
    """Run a command; raise OSError with its error message if it fails."""
    if failed := attempt(command):
        raise OSError(f"{' '.join(command)}: {failed}")


def home() -> Path:
    """Return the private folder for all labs of this user; make it if it is missing."""
    if os.geteuid() == 0:
        folder = Path("/run/pylb-lab")
    else:
        folder = Path(tempfile.gettempdir()) / f"pylb-lab-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise NotAllowedError(f"{folder} is not a folder of this user: remove it")
    return folder


def claim(parent: Path) -> tuple[Path, int]:
    """Make a folder that is locked as long as the returned descriptor is open."""
    for number in itertools.count():
        folder = parent / f"{PREFIX}{os.getpid()}-{number}"
        try:
            folder.mkdir()
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileExistsError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():  # otherwise, another lab has removed it before it was locked
            return folder, lock
        os.close(lock)
    raise AssertionError


def abandoned(parent: Path) -> Iterator[Path]:
    """Yield the folders of labs that were killed; a folder is locked until the next is yielded."""
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # another lab has removed it, or it belongs to another user
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
        except BlockingIOError:
            pass  # locked: its lab is still running
        finally:
            os.close(lock)


class State:
    """The folder of one lab; the names of all things that the lab makes begin with `name`."""

    def __init__(self) -> None:
        self.folder, self._lock = claim(home())
        self.name = self.folder.name

    def will(self, kind: str, name: str) -> None:
        """Write to the journal what will be made: its kind (a key of `UNDO`) and its name."""
        with open(self.folder / JOURNAL, "a") as journal:
            journal.write(f"{kind} {name}\n")
            journal.flush()
            os.fsync(journal.fileno())

    def remove(self) -> list[str]:
        """Remove all that the lab has made; return what failed.  May be called twice."""
        if self._lock < 0:
            return []
        failed = _undo(self.folder)[1]
        os.close(self._lock)
        self._lock = -1
        return failed


def remove_stale() -> list[str]:
    """Clean up after killed labs; return messages about what was removed."""
    out = []
    for folder in abandoned(home()):
        done, failed = _undo(folder)
        out += [f"removed {thing}" for thing in done] + failed
    return out


def _undo(folder: Path) -> tuple[list[str], list[str]]:
    """Remove what the journal lists, last entry first; return what was removed, and failures."""
    try:
        lines = (folder / JOURNAL).read_text().splitlines()
    except OSError:
        lines = []
    done, failed = [], []
    for line in reversed(lines):
        kind, _, name = line.partition(" ")
        try:
            if UNDO[kind](name):
                done.append(f"{kind} {name}")
        except (OSError, KeyError) as why:
            failed.append(f"cannot remove {kind} {name}: {why}")
    if not failed:  # otherwise the folder stays, and the next lab tries again
        shutil.rmtree(folder, ignore_errors=True)
    return done, failed


def _remove_namespace(name: str) -> bool:
    path = Path("/run/netns") / name
    if not path.exists():
        return False
    must(["ip", "netns", "delete", name])
    return True


def _remove_swap(name: str) -> bool:
    path = Path(name)
    used = any(line.split()[0] == name for line in Path("/proc/swaps").read_text().splitlines()[1:])
    if used:
        must(["swapoff", name])
    existed = path.exists()
    with suppress(FileNotFoundError):
        path.unlink()
    return existed


UNDO: dict[str, Callable[[str], bool]] = {
    "namespace": _remove_namespace,
    "swap": _remove_swap,
}


# ---- swap ---------------------------------------------------------------------------------------


FOLDER = Path("/var/tmp")  # usually on a disk; /tmp can be in memory
MOST = 0.5  # largest size of a swap file, as a fraction of the free disk space


def swap_on(state: State, size: int) -> str:
    """Provide `size` bytes of swap as long as the lab lives; return a message about it.

    The machine's own swap is used if enough of it is free.
    """
    words = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = 1024 * int(words.get("SwapFree", "0 kB").split()[0])
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

"""A lab's folder: what its processes read, and a journal of what has to be undone.

Namespaces and swap files outlive the process that made them.  Each is written down before it is
made, so that whoever finds the folder of a lab that was killed can undo it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pylb.errors import NotAllowedError

PREFIX = "pylb-lab-"
JOURNAL = "journal"


def home() -> Path:
    """The folder of all labs of this user, for nobody else."""
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
    """A new folder, locked as long as the descriptor is open."""
    for attempt in itertools.count():
        folder = parent / f"{PREFIX}{os.getpid()}-{attempt}"
        try:
            folder.mkdir()
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileExistsError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():  # else another lab took it for a stale one just now
            return folder, lock
        os.close(lock)
    raise AssertionError


def abandoned(parent: Path) -> Iterator[Path]:
    """Folders that no living lab has locked; each is ours until the next one is asked for."""
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # another lab is faster, or it is not ours
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
        except BlockingIOError:
            pass  # its lab lives
        finally:
            os.close(lock)


class State:
    """The folder of one lab.

    Attributes
    ----------
    folder : Path
    name : str
        Of the folder, and the beginning of the names of all that the lab makes.
    """

    def __init__(self) -> None:
        self.folder, self._lock = claim(home())
        self.name = self.folder.name

    def will(self, kind: str, name: str) -> None:
        """Something is about to be made that does not go by itself: a key of `UNDO`, its name."""
        with open(self.folder / JOURNAL, "a") as journal:
            journal.write(f"{kind} {name}\n")
            journal.flush()
            os.fsync(journal.fileno())

    def remove(self) -> list[str]:
        """Undo everything; what could not be.  Twice is fine."""
        if self._lock < 0:
            return []
        failed = _undo(self.folder)[1]
        os.close(self._lock)
        self._lock = -1
        return failed


def remove_stale() -> list[str]:
    """Undo what labs left that were killed themselves; what that was."""
    out = []
    for folder in abandoned(home()):
        done, failed = _undo(folder)
        out += [f"removed {thing}" for thing in done] + failed
    return out


def _undo(folder: Path) -> tuple[list[str], list[str]]:
    """What was undone, the last first, and what could not be."""
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
    if not failed:  # else the next lab tries again
        shutil.rmtree(folder, ignore_errors=True)
    return done, failed


def _remove_namespace(name: str) -> bool:
    path = Path("/run/netns") / name
    if not path.exists():
        return False
    _run("ip", "netns", "delete", name)
    return True


def _remove_swap(name: str) -> bool:
    path = Path(name)
    used = any(line.split()[0] == name for line in Path("/proc/swaps").read_text().splitlines()[1:])
    if used:
        _run("swapoff", name)
    existed = path.exists()
    with suppress(FileNotFoundError):
        path.unlink()
    return existed


def _run(*words: str) -> None:
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode:
        raise OSError(f"{' '.join(words)}: {made.stderr.strip()}")


UNDO: dict[str, Callable[[str], bool]] = {
    "namespace": _remove_namespace,
    "swap": _remove_swap,
}

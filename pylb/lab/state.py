"""A lab's folder: files for its processes, and a journal of what must be removed at the end.

Control groups, namespaces and swap files outlive the process that made them.  Each is written to
the journal before it is made, so that it can be removed if the lab is killed, e.g. by ``kill -9``.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pylb.errors import NotAllowedError
from pylb.lab import units

PREFIX = "pylb-lab-"
JOURNAL = "journal"
PATIENCE = 5.0  # seconds to wait until killed processes have left their groups

# A shell waits for a line from the lab.  If the lab ends without a line, the shell executes Python,
# which cleans up.  So no Python process runs beside the ranks that are measured.
WAIT = 'trap "" HUP INT TERM; read line || exec "$@"'
CLEAN = "from pylb.lab import state; state.remove_stale()"


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


class State:
    """The folder of one lab; the names of all things that the lab makes begin with `name`.

    The folder is locked while the lab lives.  A guard, which is another process, waits for the end
    of the lab, and cleans up if the lab was killed.
    """

    def __init__(self) -> None:
        for number in itertools.count():
            self.folder = home() / f"{PREFIX}{os.getpid()}-{number}"
            try:
                self.folder.mkdir()
                self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileExistsError:
                continue
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if self.folder.exists():  # otherwise, another lab has removed it before it was locked
                break
            os.close(self._lock)
        self.name = self.folder.name
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", WAIT, "sh", sys.executable, "-c", CLEAN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # no signal to the lab's process group reaches it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )

    def will(self, kind: str, name: str) -> None:
        """Write to the journal what will be made: a "group", "namespace" or "swap", by its name."""
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
        self._guard.communicate(b"\n")
        return failed


def remove_stale() -> list[str]:
    """Clean up after killed labs; return messages about what was removed."""
    out: list[str] = []
    for folder in sorted(home().glob(f"{PREFIX}*")):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # another lab has removed it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            done, failed = _undo(folder)
            out += [f"removed {thing}" for thing in done] + failed
        except BlockingIOError:
            pass  # locked: its lab is still running
        finally:
            os.close(lock)
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
            if _remove(kind, name):
                done.append(f"{kind} {name}")
        except OSError as why:
            failed.append(f"cannot remove {kind} {name}: {why}")
    if not failed:  # otherwise the folder stays, and the next lab tries again
        shutil.rmtree(folder, ignore_errors=True)
    return done, failed


# ---- control groups, namespaces, swap -----------------------------------------------------------


def _until_gone() -> Iterator[None]:
    """Yield every 5 ms for `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.005)


def words(path: Path) -> list[str]:
    """Return the words in a file of the kernel; none if it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def kill(base: Path) -> None:
    """Kill all processes in the groups below `base`; wait at most `PATIENCE` for their end."""
    for _ in _until_gone():
        pids = {pid for path in base.glob("*/cgroup.procs") for pid in words(path)}
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def remove_groups(base: Path, *more: Path) -> None:
    """Kill all processes in the groups below `base`; remove these groups, and then `more`."""
    kill(base)
    for folder in (*(path.parent for path in base.glob("*/cgroup.procs")), *more):
        for _ in _until_gone():
            try:
                folder.rmdir()  # also removes the kernel's files in it
            except FileNotFoundError:
                break
            except OSError:
                continue
            break
        else:
            raise OSError(f"{folder} still has processes")


def _remove(kind: str, name: str) -> bool:
    """Remove a thing of the journal; return whether it was still there."""
    path = Path("/run/netns" if kind == "namespace" else "", name)
    existed = path.exists()
    if kind == "group":
        remove_groups(path, path)
    elif kind == "namespace" and existed:
        must(["ip", "netns", "delete", name])
    elif kind == "swap":
        swaps = Path("/proc/swaps").read_text().splitlines()[1:]
        if name in (line.split()[0] for line in swaps):
            must(["swapoff", name])
        path.unlink(missing_ok=True)
    return existed


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
        most = f"at most half the free space of {FOLDER}"
        raise NotAllowedError(f"swap is {units.shown_bytes(size)}: expected {most}")
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

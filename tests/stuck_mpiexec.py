"""End an mpiexec that hangs after all its ranks have ended.

The mpiexec of Open MPI 4.1 with PMIx 4.2.2 (Debian 12) does so in one of ten to twenty runs in
which a rank dies while another is in MPI_Finalize: PMIx_server_finalize waits for a lock of its
own.  Nothing that a rank does can prevent it.
"""

import os
import signal
import threading
import time
from pathlib import Path

NAMES = {"mpiexec", "mpirun", "orterun", "prterun"}
PATIENCE = 3.0  # seconds that mpiexec may sleep after the end of its ranks


def processes():
    """Return the name and the parent of each process that is not a zombie.

    The ranks of an mpiexec that hangs are zombies.
    """
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:  # the process has just ended
            continue
        state, parent, *_ = rest.split()
        if state != "Z":
            found[int(path.parent.name)] = name, int(parent)
    return found


def sleeps(process):
    """Return whether all threads wait for an event; on a busy machine, they may wait for a core."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/stat")]
    except OSError:  # a thread has just ended
        return False
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


def descends(process, ancestor, found):
    while process in found and process != ancestor:
        process = found[process][1]
    return process == ancestor


class Watch:
    """Look for an mpiexec, started by `ancestor`, that had ranks, has none any more, and sleeps."""

    def __init__(self, ancestor, sleeping=sleeps):
        self.ancestor, self.sleeping = ancestor, sleeping
        self.seen = {}  # for each mpiexec: when it last had ranks, or was awake

    def stuck(self, found, now):
        """Return the processes that have been without ranks for too long."""
        parents = {parent for _, parent in found.values()}
        for process, (name, _) in found.items():
            # A process whose parent ends becomes a child of init; so an mpiexec that was seen stays
            # ours.
            ours = process in self.seen or descends(process, self.ancestor, found)
            if name not in NAMES or not ours:
                continue
            if process in parents or (process in self.seen and not self.sleeping(process)):
                self.seen[process] = now
        self.seen = {process: when for process, when in self.seen.items() if process in found}
        return [process for process, when in self.seen.items() if now - when > PATIENCE]


def kill_those(watch):
    while True:
        for process in watch.stuck(processes(), time.monotonic()):
            os.kill(process, signal.SIGKILL)
        time.sleep(1.0)


def start():
    """Look every second, in the background, as long as this process lives."""
    threading.Thread(target=kill_those, args=(Watch(os.getpid()),), daemon=True).start()

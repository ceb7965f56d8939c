"""Clean up after labs that were killed, e.g. by ``kill -9``.

Usage: ``python -m pylb.lab.guard DIRECTORY...``, the directories where labs make control groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pylb.lab import cgroup, state

# A shell waits for a line from the lab.  If the lab ends without a line, the shell executes Python,
# which cleans up.  So no Python process runs beside the ranks that are measured.
WAIT = 'trap "" HUP INT TERM; read line || exec "$@"'


class Guard:
    """A process that outlives the lab, and cleans up in `where` if the lab was killed."""

    def __init__(self, where: Sequence[Path]) -> None:
        command = [sys.executable, "-m", "pylb.lab.guard", *map(str, where)]
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", WAIT, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # no signal to the lab's process group reaches it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )

    def close(self) -> None:
        """Tell the process that the lab has cleaned up itself; may be called twice."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.communicate(b"\n")


def main(argv: Sequence[str]) -> None:
    cgroup.remove_stale([Path(name) for name in argv])
    state.remove_stale()


if __name__ == "__main__":
    main(sys.argv[1:])

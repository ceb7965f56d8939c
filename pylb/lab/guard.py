"""Clean up after a lab that was killed by a signal that no process can catch.

Usage: ``python -m pylb.lab.guard DIRECTORY...``.  In each DIRECTORY, every lab has made a directory
of its own.
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
    """A process that outlives the lab; if the lab was killed, it cleans up.

    Parameters
    ----------
    where : sequence of Path
        The directories in which the lab has made its own directories.
    """

    def __init__(self, where: Sequence[Path]) -> None:
        command = [sys.executable, "-m", "pylb.lab.guard", *map(str, where)]
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", WAIT, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it gets no signal that is sent to the lab's process group
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )

    def close(self) -> None:
        """Tell the process that the lab has cleaned up itself; may be called twice."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.communicate(b"\n")


def main(argv: Sequence[str]) -> None:
    """Clean up after all killed labs."""
    cgroup.remove_stale([Path(name) for name in argv])
    state.remove_stale()


if __name__ == "__main__":
    main(sys.argv[1:])

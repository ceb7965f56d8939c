"""Step into a group, then become the program.  Runs by path, without pylb, to start quickly.

Usage: ``python -I -S join.py BASES NAME LIMITS program arguments``

BASES
    The lab's directories, one in each hierarchy, separated by ``:``.
NAME
    The group: ``rest`` has no limit; ``rank`` stands for ``rank<r>`` with the r that mpiexec tells.
LIMITS
    A JSON file: what is written to which files of the group, in order; under ``ranks`` for each
    rank (the list repeats) or under ``hosts`` by name.  The host of a rank is noted beside it.

The group exists before the program, and all that the program starts inherits it: no instruction of
the program runs without its limit.
"""

import json
import os
import socket
import sys

# Open MPI, any launcher that speaks PMIx, MPICH's Hydra; 0 where the lab itself starts the program.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PYLB_LAB_RANK")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _limits(path: str, rank: int) -> list[list[str]]:
    with open(path) as file:
        known = json.load(file)
    if "hosts" not in known:
        return list(known["ranks"][rank % len(known["ranks"])])
    host = socket.gethostname()
    _write(os.path.join(os.path.dirname(path), f"rank{rank}"), host)
    return list(known["hosts"][host])


def _join(bases: list[str], name: str, limits: str) -> None:
    control: list[list[str]] = []
    if name == "rank":
        rank = next((int(os.environ[v]) for v in RANK_VARIABLES if v in os.environ), None)
        if rank is None:
            sys.exit("pylb lab: this mpiexec does not tell its ranks their numbers")
        name, control = f"rank{rank}", _limits(limits, rank)
    for group in (f"{base}/{name}" for base in bases):
        os.makedirs(group, exist_ok=True)
        for file, value in control:
            if os.path.exists(f"{group}/{file}"):
                _write(f"{group}/{file}", value)
        _write(f"{group}/cgroup.procs", str(os.getpid()))


def main(argv: list[str]) -> None:
    """Join and exec; never returns."""
    bases, name, limits, *command = argv
    try:
        _join(bases.split(":"), name, limits)
    except OSError as error:
        sys.exit(f"pylb lab: cannot hold {command[0]!r} to its share: {error}")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"pylb lab: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)  # as shells do


if __name__ == "__main__":
    main(sys.argv[1:])

"""Move this process into a control group, then become the program.

This file is run by its path and does not import pylb, so that it starts quickly.

Usage: ``python -I -S join.py BASES NAME LIMITS program arguments``

BASES
    The lab's directories, one in each hierarchy, separated by ``:``.
NAME
    The group: ``rest`` has no limit; ``rank`` means ``rank<r>``, where mpiexec sets the number r
    (see `RANK_VARIABLES`).
LIMITS
    A JSON file that says what to write to which files of the group: under ``ranks`` a list by rank,
    which repeats if there are more ranks; or under ``hosts`` by the host's name.  With hosts, the
    host of rank r is written to the file ``rank<r>`` in the folder of LIMITS.

So the program, and all that it starts, runs with the limit from its first instruction on.
"""

import json
import os
import socket
import sys

# Variables with the number of the rank: of Open MPI, of any launcher with PMIx, of MPICH's Hydra,
# and of the lab for a program without mpiexec.
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


def main(argv: list[str]) -> None:
    bases, name, limits, *command = argv
    try:
        control: list[list[str]] = []
        if name == "rank":
            rank = next((int(os.environ[v]) for v in RANK_VARIABLES if v in os.environ), None)
            if rank is None:
                sys.exit(
                    "pylb lab: expected OMPI_COMM_WORLD_RANK, PMIX_RANK or PMI_RANK from mpiexec"
                )
            name, control = f"rank{rank}", _limits(limits, rank)
        for group in (f"{base}/{name}" for base in bases.split(":")):
            os.makedirs(group, exist_ok=True)
            for file, value in control:
                if os.path.exists(f"{group}/{file}"):
                    _write(f"{group}/{file}", value)
            _write(f"{group}/cgroup.procs", str(os.getpid()))
    except OSError as error:
        sys.exit(f"pylb lab: cannot limit {command[0]!r} to its share: {error}")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"pylb lab: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)  # as shells do


if __name__ == "__main__":
    main(sys.argv[1:])

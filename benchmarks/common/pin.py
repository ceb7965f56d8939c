"""Pin this process to one core, then become a program.

Run by path: ``python -I -S pin.py 0,1,0,1 program arguments``, with a core for each rank.  If
permitted, the program gets a higher priority than pylb and mpiexec; these then take only a
hundredth of a core.
"""

import contextlib
import os
import sys

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")

if __name__ == "__main__":
    cores = sys.argv[1].split(",")
    rank = next(int(os.environ[v]) for v in RANK_VARIABLES if v in os.environ)
    os.sched_setaffinity(0, {int(cores[rank])})
    with contextlib.suppress(PermissionError):
        os.nice(-20)
    os.execvp(sys.argv[2], sys.argv[2:])

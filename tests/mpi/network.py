"""Every rank prints alpha and beta as JSON: ``mpiexec -n 3 python tests/mpi/network.py``."""

import json

from mpi4py import MPI

from pylb.model.network import measure_network

lines = MPI.COMM_WORLD.gather(json.dumps(measure_network(MPI.COMM_WORLD)))
print(*(lines or []), sep="\n", end="\n" if lines else "")

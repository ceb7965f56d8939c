"""Spheres fall into a heap, in Yade: Yade moves them between subdomains, pylb says when.

    pylb run -- mpiexec -n 3 yade -n -x examples/own_loop/yade_heap.py

At first the first worker has most of the spheres.  PERIOD in the environment: a fixed number of
collision updates from one reallocation to the next, without pylb (0: never).  Debian: ``apt-get
install yade``; its Python finds pylb by PYTHONPATH, see docs/your_code.md.
"""

# ruff: noqa: F821  Yade defines O, sphere, collider, ... for its scripts
import os
import sys
import time

from yade import mpy as mp

import pylb

WIDTH, HEIGHT, STEPS = 40, int(os.environ.get("HEIGHT", "20")), int(os.environ.get("STEPS", "400"))
period = os.environ.get("PERIOD")
n = mp.numThreads - 1  # workers; rank 0 has only the floor
for i in range(WIDTH):
    for j in range(HEIGHT):
        key = O.bodies.append(sphere((i + 0.3 * (j % 2), j, 0.0), 0.5))
        O.bodies[key].subdomain = 1 + min(n - 1, i * i * n // WIDTH**2)
O.bodies.append(box(center=(WIDTH / 2, -1, 0), extents=(5 * WIDTH, 0.5, 2), fixed=True))
O.engines = [engine for engine in O.engines if engine is not timeStepper]  # one time step for all
collider.verletDist, collider.targetInterv = 0.1, 0
newton.gravity, newton.damping = (0, -10, 0), 0.1
O.dt, mp.AUTO_COLOR, mp.ERASE_REMOTE_MASTER = 1e-3, False, False


def border(here, there, surplus):
    """Return spheres near the border, for a neighbour that has fewer."""
    # medianFilter of Yade 2023.02 moves nothing from a worker with more to one with fewer spheres
    near = [key for key in O.subD.intersections[there] if not O.bodies[key].isSubdomain]
    return near[: max(surplus, 0)]


mp.REALLOCATE_FILTER = border
lb = None
if period is None:
    lb = pylb.adapters.yade.balance(mp)
else:
    mp.REALLOCATE_FREQUENCY = int(period)
start = time.perf_counter()
mp.mpirun(STEPS)
seconds = time.perf_counter() - start
counts = mp.comm.gather(len(O.subD.ids))
if mp.rank == 0:
    print(f"{seconds:.2f} s; spheres of each worker at the end: {counts[1:]}", flush=True)
elif lb is not None:
    lb.finish()
    if lb.rank == 0:
        print(lb.report(), flush=True)
mp.comm.Barrier()
sys.stdout.flush()
mp.MPI.Finalize()
os._exit(0)  # Yade's own exit waits for commands from its master

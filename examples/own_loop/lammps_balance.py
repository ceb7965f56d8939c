"""LAMMPS says where atoms go (`balance`); pylb says when.

    pylb run -- mpiexec -n 4 python examples/own_loop/lammps_balance.py            # a slab expands
    pylb run -- mpiexec -n 4 python examples/own_loop/lammps_balance.py droplet    # a droplet moves
    ... --every 200 1000                                               # and two fixed intervals

In an input script, `fix balance Nfreq thresh shift x 10 1.05` asks for an interval and a threshold.
Here neither is needed.  Debian: ``apt-get install python3-lammps liblammps-dev``.
"""

import argparse
import sys
import time

from mpi4py import MPI

import pylb

try:
    from lammps import lammps
except ImportError:  # Debian's module is not visible in a virtual environment
    sys.path.append("/usr/lib/python3/dist-packages")
    from lammps import lammps

STEPS, LENGTH, SIDE = 3000, 40, 8  # time steps; length and side of the box, in lattice units

START = """
units lj
atom_style atomic
lattice fcc 0.8442
boundary {boundary}
processors {processors}
comm_style {comm}
region box block 0 {length} 0 {side} 0 {side}
create_box 1 box
region matter {region}
create_atoms 1 region matter
mass 1 1.0
velocity all create {temperature} 87287 loop geom
velocity all set {speed} 0 0 sum yes
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 10 check yes
fix integrate all nve
{walls}
thermo 1000000
run 0 post no
"""

CASES = {
    "slab": {
        "boundary": "f p p",
        "processors": "* 1 1",
        "comm": "brick",
        "region": "block 0.1 {quarter} INF INF INF INF",
        "temperature": 3.0,
        "speed": 0.0,
        "walls": "fix walls all wall/reflect xlo EDGE xhi EDGE",
        "balance": "balance 1.0 shift x 20 1.02",
    },
    "droplet": {
        "boundary": "p p p",
        "processors": "* * *",
        "comm": "tiled",
        "region": "sphere {quarter} {middle} {middle} {radius}",
        "temperature": 0.7,
        "speed": 2.0,
        "walls": "",
        "balance": "balance 1.0 rcb",
    },
}


def start(case):
    """Return a new LAMMPS instance with the atoms of this case."""
    lmp = lammps(cmdargs=["-log", "none", "-screen", "none", "-nocite"])
    words = dict(CASES[case], length=LENGTH, side=SIDE)
    words["region"] = words["region"].format(
        quarter=LENGTH / 4, middle=SIDE / 2, radius=0.45 * SIDE
    )
    lmp.commands_string(START.format(**words))
    return lmp


def run(case, steps, **arguments):
    """Run a case; return max/mean of the ranks' work in each piece, and the LB steps."""
    lmp = start(case)
    lb = pylb.adapters.lammps.run(lmp, steps, CASES[case]["balance"], **arguments)
    lmp.close()
    work = lb.rank_loads()
    return work.max(axis=1) / work.mean(axis=1), lb.n_lb_steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="?", choices=CASES, default="slab")
    parser.add_argument("--steps", type=int, default=STEPS, help="time steps (%(default)s)")
    parser.add_argument(
        "--every", type=int, nargs="*", default=[], help="also run with these fixed intervals"
    )
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    ways = {"without pylb": {"mode": "off"}, "with pylb": {}}
    ways |= {f"every {n} steps": {"every": max(n // 50, 1)} for n in args.every}
    if comm.rank == 0:
        print(f"{comm.size:2} ranks          max/mean   seconds  LB steps")
    for name, way in ways.items():
        comm.Barrier()
        began = time.perf_counter()
        ratios, lb_steps = run(args.case, args.steps, **way)
        seconds = time.perf_counter() - began
        if comm.rank == 0:
            print(f"{name:17} {ratios.mean():8.3f} {seconds:9.4f} {lb_steps:9}", flush=True)


if __name__ == "__main__":
    main()

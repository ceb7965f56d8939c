"""A heated plate that writes checkpoints, and continues from the newest one when started again.

    mpiexec -n 4 python examples/restart.py plate --steps 100
    mpiexec -n 2 python examples/restart.py plate --steps 200     # continues, on half the ranks

Kill it at any time: the newest complete checkpoint stays readable.  The plate is that of heat.py,
with one time step in each iteration; its temperatures depend neither on the number of ranks nor on
how often the program was killed.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path
from typing import Any

from heat import Block, Plate

import pylb

PLATE = Plate(blocks=6, size=8)


def pack(key: int, block: Block) -> Any:
    """Return a block as plain values."""
    return {"t": block.t, "step": block.step, "sweeps": block.sweeps}


def unpack(key: int, said: Any) -> Block:
    """Return the block from which `pack` made this value."""
    block = Block(PLATE, key)
    block.t, block.step, block.sweeps = said["t"], said["step"], said["sweeps"]
    return block


def begin(comm: Any, folder: Path) -> pylb.Balancer:
    """Return a balancer with the blocks of the newest checkpoint, or with new blocks."""
    if (folder / "checkpoint.json").exists():
        return pylb.Balancer.restore(comm, folder, unpack=unpack, strategy="RefineLB")
    lb = pylb.Balancer(comm, strategy="RefineLB")
    for key in range(lb.rank, PLATE.blocks**2, lb.n_ranks):
        lb.add(key, Block(PLATE, key))
    return lb


def run(comm: Any, folder: Path, steps: int, every: int) -> int:
    """Run until `steps` time steps are done; return a checksum of this rank's temperatures."""
    lb = begin(comm, folder)
    for step in lb.iterate(max(steps - lb.iteration, 0)):
        if step % every == 0 and step:
            lb.checkpoint(folder, pack=pack)
        for key, block in lb.local():
            for source, border in lb.inbox(key):
                block.receive(source, border)
            block.advance()
            for side, neighbour in PLATE.neighbours(key).items():
                lb.send(neighbour, key, block.border(side))
    lb.checkpoint(folder, pack=pack)
    return sum(zlib.crc32(block.t.tobytes(), key) for key, block in lb.local())


def main() -> None:
    """Run on all ranks, and print a checksum of the plate."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the checkpoints are")
    parser.add_argument("--steps", type=int, default=100, help="time steps, including earlier runs")
    parser.add_argument("--every", type=int, default=20, help="time steps between checkpoints")
    given = parser.parse_args()
    comm = MPI.COMM_WORLD
    total = comm.allreduce(run(comm, given.folder, given.steps, given.every))
    if comm.rank == 0:
        print(f"{comm.size} ranks, {given.steps} time steps, checksum {total:x}")


if __name__ == "__main__":
    main()

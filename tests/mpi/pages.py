"""Every block of Python on the pages: ``mpiexec -n 2 python tests/mpi/pages.py``.

The blocks of a page run in order, with the names that the blocks before them made.  If a page uses
other names, a function of this file with the page's name yields them before each block.  A page
without `comm` runs on rank 0.  tests/tree/test_blocks.py runs this program.
"""

import os
import re
import shutil
import sys
import textwrap
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.sparse
from mpi4py import MPI

import pylb

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^(<!-- .+ -->\n)?```python( not-run)?\n(.*?)^```", re.S | re.M)
LONG = re.compile(r"iterate\(\d{3,}\)")
ELSEWHERE = {  # other tests run them
    "README.md",  # tests/tree/test_pages.py
    "experts",  # tests/place/test_copies.py
    "lab",  # tests/lab/test_lab.py
}
ALONE = {"virtual"}  # its programs get a `comm` of virtual ranks
comm = MPI.COMM_WORLD


class Block:
    """A piece of a program; its work takes a measurable time."""

    def __init__(self, key):
        self.key = key

    def receive(self, source, data):
        assert data == source

    def update(self, received):
        assert all(data == source for source, data in received)
        self.advance()

    def advance(self):
        np.sqrt(np.arange(100 if self.key % 4 else 1000)).sum()

    def border(self):
        return self.key

    def exchange(self, comm):
        pass

    def has_its_messages(self):
        return True


def mesh(n):
    """Return the graph of n x n points as a matrix of scipy.sparse."""
    line = scipy.sparse.diags([1.0, 1.0], [-1, 1], (n, n))
    return scipy.sparse.csr_matrix(scipy.sparse.kronsum(line, line))


def rows_of(A):
    """Return the rows of a matrix that belong to this rank: a block of them."""
    first, last = (A.shape[0] * r // comm.size for r in (comm.rank, comm.rank + 1))
    return A[first:last]


def points(n=256):
    return np.random.default_rng(1).random((n, 3))


def recorded(path="run.h5"):
    """Return a small run, the same in every call."""
    pylb.demo.run(4, 32, 24, save=path)
    return pylb.Trace.load(path)


# ---- what the pages take for granted ---------------------------------------------------------


def cluster():
    blocks = [(key, Block(key)) for key in range(comm.rank, 16, comm.size)]
    names = {"comm": comm, "my_blocks": blocks, "folder": Path("checkpoints")}
    yield names | {"pack": lambda key, block: block.key, "unpack": lambda key, said: Block(said)}


def decider():
    yield {"comm": comm}


def index():
    yield {}


def looking():
    recorded()
    yield {}


def partitioning():
    A = mesh(16)
    n, xyz = A.shape[0], points()
    start = np.arange(n + 1, dtype=np.int64)
    names = {"A": A, "xyz": xyz, "w": np.ones(n), "comm": comm, "MPI": MPI}
    yield names | {"start": start, "pin": np.arange(n), "weight": np.ones(n)}
    mine = rows_of(A)
    ids = np.arange(n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size)
    yield {"start": mine.indptr, "to": mine.indices, "ids": ids}
    yield {"part": np.arange(n) % 8, "nbytes": np.full(n, 8)}
    yield {"new_xyz": xyz[:9], "lo": xyz[:5] - 0.1, "hi": xyz[:5] + 0.1}
    yield {}
    yield {"xyz": xyz[comm.rank :: comm.size]}
    yield {"parent": np.repeat([-1, 0, 1, 2], [1, 4, 4, 4]), "w": np.ones(10)}


def phases():
    class Device:
        n = 0

        def compute(self, block):
            self.n += 1

        def seconds(self):
            return 1e-3 * self.n

    yield {"comm": comm}
    yield {"np": np}
    yield {"Device": Device}


def recorded_runs():
    recorded().save("run")
    yield {}


def lending():
    def burn(T, Y):
        time.sleep(1e-4 * len(T))
        return T + 1.0, Y * 2.0

    names = {"comm": comm, "n": 4, "burn": burn, "np": np, "cool": np.sqrt}
    yield names | {"T": np.zeros(8), "Y": np.ones((8, 3))}


def rows():
    A, b = mesh(8) + 9 * scipy.sparse.eye(64, format="csr"), np.ones(64)
    names = {"comm": comm, "n": 64, "x": np.zeros(64), "diagonal": 9.0, "np": np}
    yield names | {"load": lambda local: (A[local], b[local])}


def runtime():
    blocks = [(key, Block(key)) for key in range(comm.rank, 16, comm.size)]
    yield {"comm": comm, "my_blocks": blocks, "neighbour": 3}
    yield {}
    ready = dict.fromkeys(range(16), True)
    yield {"may_run": ready, "receive_what_has_come": lambda: None}
    lb = pylb.Balancer(comm)
    for key, block in blocks:
        lb.add(key, block)
    for _ in lb.iterate(9):
        for _, block in lb.local():
            block.advance()
    yield {"lb": lb}


def services():
    to = np.array([1, 0]) % comm.size
    mine, others = np.arange(2) + 2 * comm.rank, np.arange(2) + 2 * (comm.rank ^ 1)
    names = {"comm": comm, "destination": to, "x": mine + 0.5, "f": np.sqrt, "np": np}
    yield names
    yield {}
    yield {"my_ids": mine, "xyz": np.ones((2, 3)), "ids": others, "old_ids": mine[:1]}
    ghosts = {"ghost_ids": others[:1], "forces_on_ghosts": np.ones(1)}
    yield ghosts | {"x": mine + 0.5, "ids": mine, "part": to, "new_ids": mine}
    yield {"graph": mesh(4)}
    yield {"graph": rows_of(mesh(4))}


def strategies():
    trace = recorded(f"run{comm.rank}.h5")
    n = trace[0].n_objects
    names = {"np": np, "rank": trace[0].rank, "cpu": np.ones(n), "gpu": np.arange(n) / n}
    yield names | {"comm": comm, "trace": trace}
    yield {"snap": trace[0]}
    k = np.arange(1024)
    ring = (k, np.roll(k, 1), np.full(1024, 800))
    snap = pylb.Snapshot(np.ones(1024), k // 4, edges=ring)
    yield {"snap": snap, "plan": pylb.place(snap, "GreedyLB")}
    yield {}
    yield {"snap": trace[0]}


def triggers():
    yield {"trace": recorded(f"run{comm.rank}.h5"), "comm": comm}


def shapes():
    yield {}


def virtual():
    yield {"Block": Block}


def whatif():
    shutil.copy(ROOT / "notebooks" / "spa.h5", "run")
    yield {}


def amrex():
    n = 32
    names = {"costs": np.linspace(1, 2, n), "dm": np.arange(n) // 8, "n_ranks": 4}
    yield names | {"centres": points(n), "box_bytes": np.full(n, 800)}


def charm():
    yield {"Block": Block, "MPI": MPI}


def vt():
    recorded().save("lb_data")
    yield {}


def your_code():
    """Names for the blocks "before"; the other blocks are lines of the examples, tested in
    tests/examples.
    """
    sys.path.insert(0, str(ROOT / "examples" / "own_loop"))
    import curve
    import particles

    def nothing():
        comm.Barrier()

    both = {"compute_and_communicate": nothing, "redistribute": nothing}
    yield {"comm": comm, "n_steps": 9, **both}
    yield {"comm": comm, "Ring": particles.Ring, "STEPS": 9}

    def compute(x, which):
        x[which] += 1.0
        return np.isin(np.arange(len(x)), which) * (1.0 + comm.rank)

    yield {"np": np, "keys": 4 * comm.rank + np.arange(4), "x": np.zeros(4), "compute": compute}
    yield {"Curve": curve.Curve, "STEPS": 30}


def zoltan():
    trace = recorded()
    yield {"A": mesh(8), "snap": trace[0]}


# ---- running them ----------------------------------------------------------------------------


def pages():
    """Return {page: its blocks as (line of the page, text)}, without those that other tests run."""
    found = {}
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        if page.stem in ELSEWHERE or page.name in ELSEWHERE or "_build" in page.parts:
            continue
        text = LONG.sub("iterate(20)", page.read_text())
        blocks = [
            (text.count("\n", 0, block.start(3)), textwrap.dedent(block[3]))
            for block in BLOCK.finditer(text)
            if not (block[1] or block[2])
        ]
        if blocks:
            found[page] = blocks
    return found


def run(page, blocks):
    given = globals()[page.stem]()
    module = sys.modules[f"page_{page.stem}"] = ModuleType(f"page_{page.stem}")  # for pickle
    names = vars(module)
    names["pylb"] = pylb
    for line, text in blocks:
        names |= next(given, {})
        exec(compile("\n" * line + text, str(page), "exec"), names)  # noqa: S102
    next(given, None)


def meet():
    """Wait for the other ranks without using a core, which rank 0 needs for its pages."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def main(folder):
    for page, blocks in pages().items():
        talks = any(re.search(r"\bcomm\b|COMM_WORLD", text) for _, text in blocks)
        together = talks and page.stem not in ALONE
        if comm.rank == 0:
            print(page.relative_to(ROOT), len(blocks), flush=True)
            os.makedirs(folder / page.stem)
        meet()
        if together or comm.rank == 0:
            os.chdir(folder / page.stem)
            run(page, blocks)
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Random programs that share work, against a serial program, with faults on some ranks.

mpiexec -n 3 python tests/mpi/share_random.py [programs, default 2000] [first]
"""

import sys
import time

import numpy as np
from mpi4py import MPI

import pylb
from pylb import errors

CALLS = 5
DTYPES = ["f8", "f4", "i4", "u1", "c16", "M8[s]", "?", "S3"]
#: What goes wrong, in one call; each on one rank, or for one row wherever it is computed.
FAULTS = ["raise", "raise on a host", "rows", "rows on a host", "dtype on a host", "array", "bytes"]


class Broken(Exception):
    """The fault of a random program."""


class Program:
    """One program: the rows of this rank in each call, the function, and perhaps a fault."""

    def __init__(self, seed, comm):
        self.comm, self.same = comm, np.random.default_rng(seed)
        self.own = np.random.default_rng([seed, comm.rank])
        same = self.same
        self.kinds = [
            (same.choice(DTYPES), tuple(same.integers(1, 4, same.integers(0, 3))))
            for _ in range(same.integers(1, 4))
        ]
        self.shape = same.choice(["alike", "jump", "front", "one rank", "one row", "nothing"])
        self.seconds = 10 ** same.uniform(-4.0, -2.3)  # of a rank in a call
        self.several, self.writes, self.changes = same.random(3) < 0.5
        self.resizes = same.random() < 0.2
        self.option = same.choice(["", "chunk", "verify", "cost", "features"])
        self.mode = same.choice(["on", "shadow", "off"], p=[0.8, 0.1, 0.1])
        self.reactive = bool(same.random() < 0.7)
        self.fault, self.call_of_fault = "", -1
        if same.random() < 0.35:
            self.fault = str(same.choice(FAULTS))
            self.call_of_fault, self.bad = (
                int(same.integers(CALLS - 1)),
                int(same.integers(comm.size)),
            )
        self.n = self.rows()

    def rows(self):
        return int(self.own.integers(0, 60)) * int(self.own.random() < 0.85)

    def costs(self, n, call):
        """Return the seconds of each row of this rank."""
        rank, size = self.comm.rank, self.comm.size
        out = np.ones(n)
        if self.shape == "jump":
            out = self.own.lognormal(0.0, 1.0, n)
        elif self.shape == "front":
            place = (rank + np.arange(n) / max(n, 1)) / size
            out = np.where((place - 0.1 * call) % 1.0 < 0.2, 20.0, 1.0)
        elif self.shape == "one rank":
            out *= 10.0 if rank == size - 1 else 1.0
        elif self.shape == "one row":
            out[: int(rank == 0)] = 100.0
        return out * (self.seconds / max(n, 1)) * (self.shape != "nothing")

    def arrays(self, n):
        return [self.own.integers(0, 100, (n, *shape)).astype(d) for d, shape in self.kinds]

    def compute(self, mark, pause, *rows):
        """The function: the first row with a mark of 1 is the faulty one."""
        time.sleep(float(pause.sum()))
        here = self.comm.rank != self.bad if self.fault.endswith("host") else True
        if self.fault and here and (mark == 1.0).any():
            if self.fault.startswith("raise"):
                raise Broken("on purpose")
            if self.fault.startswith("rows"):
                rows = [r[1:] for r in rows]
                mark = mark[1:]
            elif self.fault.startswith("dtype"):
                mark = mark.astype("f4")
        if self.writes:
            rows[0][...] = rows[0]
            pause[...] = 0.0
        first = mark[:, None] + np.arange(2.0) if self.changes else mark * 2.0
        out = (first, *(np.flip(r, axis=0)[::-1] if r.dtype.kind in "MSb" else -r for r in rows))
        return out if self.several else out[-1] if not self.fault else out[0]

    def run(self):
        """Run all calls; return the error of this rank and its call, or None."""
        sharer = pylb.Sharer(self.comm, mode=self.mode, reactive=self.reactive)
        for call in range(CALLS + 130 * (self.call_of_fault >= 0)):
            n = self.n = self.rows() if self.resizes else self.n
            pause, arrays, mark = self.costs(n, call), self.arrays(n), np.zeros(n)
            if call > self.call_of_fault + 2 and self.fault:
                pause *= 0.0  # only waits for the ranks' next decision
            faulty = call == self.call_of_fault and self.comm.rank == self.bad
            if faulty:
                mark[-1:] = 1.0
                if self.fault == "array":
                    mark = mark[:, None][:-1] if n else np.zeros(1)
                elif self.fault == "bytes":
                    arrays[0] = np.zeros((n, 7))
            options = {
                "chunk": {"chunk": 3},
                "verify": {"verify": 0.1},
                "cost": {"cost": 5.0 * pause},
                "features": {"features": np.stack([pause, np.ones(n)], axis=1)},
            }.get(self.option, {})
            try:
                got = sharer.share(self.compute, mark, pause, *arrays, **options)
            except (Broken, errors.PylbError) as error:
                return call, error
            if faulty and self.fault in ("raise", "rows") and n:
                raise AssertionError(f"the fault {self.fault!r} was not noticed")
            if self.writes:
                pause = np.zeros(n)
            serial = self.compute(mark, np.zeros(n), *arrays) if not faulty else got
            assert isinstance(got, tuple) == self.several, type(got)
            pairs = zip(got, serial, strict=True) if self.several else [(got, serial)]
            for a, b in pairs:
                assert a.dtype == b.dtype, (a.dtype, b.dtype)
                assert np.array_equal(a, b), (a, b)
        return None


def main():
    comm = MPI.COMM_WORLD
    words = [int(word) for word in sys.argv[1:]]
    n, first = (*words, *(2000, 0)[len(words) :])
    failed = 0
    for seed in range(first, first + n):
        program = Program(seed, comm)
        try:
            end = program.run()
        except BaseException:
            print(f"program {seed}: {vars(program)}", file=sys.stderr, flush=True)
            raise
        calls = comm.allgather(None if end is None else end[0])
        ends = [c for c in calls if c is not None]
        failed += len(ends) > 0
        # nobody goes on alone: all fail, or nobody does
        lonely = program.mode == "off" or comm.size == 1
        if ends and None in calls and not lonely:
            raise AssertionError(f"program {seed}: ranks ended in calls {calls}: {end}")
        if not program.fault and ends:
            raise AssertionError(f"program {seed}: {end[1]!r}") from end[1]
    print(f"done: {n} programs, {failed} of them failed as they should")


if __name__ == "__main__":
    main()

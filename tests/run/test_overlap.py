"""Objects that migrate while the program goes on; tests/mpi/overlap_cases.py has more."""

import numpy as np

import pylb


def test_objects_that_come_are_last_in_the_next_loop():
    def program(comm):
        lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + s.key % 2) % 2, every=1, overlap=True)
        for key in range(4 * comm.rank, 4 * comm.rank + 4):
            lb.add(key, np.full(10_000, float(key)))
        return [[key for key, block in lb.local() if block[-1] == key] for _ in lb.iterate(2)]

    first, second = pylb.VirtualCluster(2).run(program)
    assert first == [[0, 1, 2, 3], [0, 2, 5, 7]]
    assert second == [[4, 5, 6, 7], [4, 6, 1, 3]]

"""Objects that migrate while the program goes on, under mpiexec and on virtual ranks."""

import numpy as np
import pytest
from launch import every_case_is_done

import pylb


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_cases(mpiexec, ranks):
    every_case_is_done(mpiexec, ranks, "overlap_cases.py")


def test_objects_that_come_are_last_in_the_next_loop():
    def program(comm):
        lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + s.key % 2) % 2, every=1, overlap=True)
        for key in range(4 * comm.rank, 4 * comm.rank + 4):
            lb.add(key, np.full(10_000, float(key)))
        return [[key for key, block in lb.local() if block[-1] == key] for _ in lb.iterate(2)]

    first, second = pylb.VirtualCluster(2).run(program)
    assert first == [[0, 1, 2, 3], [0, 2, 5, 7]]
    assert second == [[4, 5, 6, 7], [4, 6, 1, 3]]

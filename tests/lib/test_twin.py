"""The advisor of the C library and that of Python decide alike, to the bit."""

import sys

import pytest
from advisor_drift import drift
from compiled import run
from launch import HERE
from test_lib import mpi_program  # noqa: F401 a fixture

import pylb


def told(text):
    return [line.replace("-nan", "nan") for line in text]


@pytest.mark.parametrize(
    ("ranks", "kind"),
    [(2, "seconds"), (3, "cells"), (5, "learn_speeds"), (2, "keyless"), (2, "ignored")],
)
def test_they_decide_alike(mpi_program, mpiexec, ranks, kind):  # noqa: F811
    said = run([*mpiexec, "-n", str(ranks), str(mpi_program("drift")), "120", "0", kind])
    cluster = pylb.VirtualCluster(ranks, clock="none", network=(0.0, 0.0))
    found = cluster.run(lambda comm: drift(comm, 120, 0, kind))
    assert all(rows == found[0] for rows in found)
    assert told(said.splitlines()) == told(found[0])


@pytest.mark.parametrize(("ranks", "alpha"), [(2, 0.003), (3, 0.03)])
def test_they_decide_alike_with_a_network(mpi_program, mpiexec, ranks, alpha):  # noqa: F811
    """Both estimate the cost of the first LB step from the network."""
    words = ["120", "0", "cells", f"network={alpha} 0"]
    said = run([*mpiexec, "-n", str(ranks), str(mpi_program("drift")), *words])
    cluster = pylb.VirtualCluster(ranks, clock="none", network=(0.0, 0.0))
    found = cluster.run(lambda comm: drift(comm, 120, 0, "cells", network=(alpha, 0.0)))
    assert told(said.splitlines()) == told(found[0])


def test_a_first_cost_is_measured(mpi_program, mpiexec):  # noqa: F811
    """If times are measured, both rehearse an LB step in the first step."""
    words = ["120", "0", "cells", "clock=wall", "network=1e-6 1e-9"]
    said = run([*mpiexec, "-n", "2", str(mpi_program("drift")), *words])
    assert "BestFitLB" in said


def test_they_decide_alike_with_a_lag(mpi_program, mpiexec):  # noqa: F811
    words = ["120", "2", "seconds"]
    said = run([*mpiexec, "-n", "3", str(mpi_program("drift")), *words])
    twin = [sys.executable, str(HERE / "advisor_drift.py"), *words]
    found = run([*mpiexec, "-n", "3", *twin]).splitlines()
    # The C program prints its receipts before the statistics of the last two steps are known.
    made = told(said.splitlines())
    last = max([i for i, line in enumerate(made) if line.split()[1] == "1"], default=len(made) - 1)
    assert told(found)[:last] == made[:last]
    assert last > 10

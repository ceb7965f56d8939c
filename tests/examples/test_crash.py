"""examples/crash.py: it finds the contacts of an exhaustive search, on any number of ranks."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from launch import printed

from pylb.partitioning import libraries

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

pytestmark = pytest.mark.skipif(not libraries.available("Zoltan"), reason="no Zoltan here")


def contacts(side, when):
    """Return all pairs of boxes that overlap, by exhaustive search."""
    import crash

    surface = crash.surfaces(side, when)
    lo, hi = surface.boxes()
    plate = np.flatnonzero(surface.is_plate)
    tube = np.flatnonzero(~surface.is_plate)
    meet = (lo[tube][:, None] <= hi[plate]) & (lo[plate] <= hi[tube][:, None])
    return int(meet.all(axis=2).sum())


@pytest.mark.parametrize("method", ["rcb", "hsfc"])
def test_contacts_on_one_rank(method):
    import crash

    rows = crash.Crash(None, 16, 3, 1, method).run()
    assert [row["contacts"] for row in rows] == [contacts(16, t) for t in (0.0, 0.5, 1.0)]
    assert rows[-1]["contacts"] > 0


@pytest.mark.parametrize("ranks", [2, 3])
def test_contacts_under_mpiexec(mpiexec, ranks):
    words = ["--side", "16", "--steps", "3", "--every", "1", "--json"]
    rows = json.loads(printed(mpiexec, ranks, ROOT / "examples" / "crash.py", *words))
    assert [row["contacts"] for row in rows] == [contacts(16, t) for t in (0.0, 0.5, 1.0)]
    assert all(row["max/mean"] < 1.1 for row in rows)
    assert all(row["moved"] < 16**2 for row in rows)  # there are 1,185 elements

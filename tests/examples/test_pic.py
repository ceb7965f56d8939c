"""examples/pic.py: the same result on any placement; each of its phases is balanced."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import pylb

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "mpi4py", None)
    import pic

SMALL = pic.Line(patches=16, particles=4000, cells=16, refined=256, sweeps=4)


def run(n_ranks: int, **options):
    def main(comm):
        lb = pic.solve(comm, SMALL, 12, **options)
        return pic.state(lb), list(lb.phases), lb.report().migrations

    every = pylb.VirtualCluster(n_ranks).run(main)
    whole = {key: one for part, _, _ in every for key, one in part.items()}
    return [whole[key] for key in sorted(whole)], every[0][1], every[0][2]


def test_the_result_is_the_same_on_any_placement():
    alone, names, _ = run(1)
    moved, _, migrations = run(4, strategy="VectorLB", every=3)
    without, none, _ = run(3, named=False)
    assert names == ["push", "deposit", "fields"]
    assert none == []
    assert migrations > 0
    assert moved == alone == without


def test_no_particle_is_lost_and_the_field_follows_the_current():
    before = sum(len(SMALL.make(key).x) for key in range(SMALL.patches))
    after, _, _ = run(2)
    assert sum(n for n, _ in after) == before
    patch = SMALL.make(4)
    patch.deposit()
    assert patch.current.sum() == pytest.approx(patch.v.sum() * 16 / SMALL.particles)
    patch.line = pic.Line(sweeps=0)
    patch.advance()
    assert np.allclose(patch.field, -pic.DT * patch.current)

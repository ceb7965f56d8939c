"""The strategy "auto" of `pylb.place`, for snapshots with and without keys."""

import numpy as np
import pytest

import pylb


@pytest.mark.parametrize("keys", [None, np.arange(100, 160)])
def test_auto_names_the_heaviest_object(keys):
    load = np.ones(60)
    load[7] = 50.0
    placed = pylb.place(pylb.Snapshot(load, np.zeros(60, int), n_ranks=4, key=keys), "auto")
    assert placed.after.max == 50.0
    assert f"Object {7 if keys is None else 107} alone takes" in placed.why

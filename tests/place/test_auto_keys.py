"""The strategy "auto" of `pylb.place`, for snapshots with and without keys."""

import numpy as np
import pytest

import pylb


@pytest.mark.parametrize("keys", [None, np.arange(100, 160)])
@pytest.mark.parametrize("heavy", [1.0, 50.0])
def test_auto_needs_no_keys(keys, heavy):
    load = np.ones(60)
    load[7] = heavy
    placed = pylb.place(pylb.Snapshot(load, np.zeros(60, int), n_ranks=4, key=keys), "auto")
    assert placed.after.max == max(15.0, heavy)

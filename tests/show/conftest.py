import pytest

import pylb


@pytest.fixture(scope="session")
def trace():
    return pylb.replaying.hotspot(n_ranks=6, n_objects=60, n_phases=30, seed=3)

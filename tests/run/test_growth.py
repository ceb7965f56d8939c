"""With more ranks, only a rank that places all objects sends, receives and keeps more."""

from pathlib import Path

import pytest

SMALL, TIMES = 24, 4  # ranks of the small program; the large one has TIMES as many
LIKE_ALL = 0.8 * TIMES  # a part that grows by this factor counts as proportional to all objects


@pytest.fixture
def growth(monkeypatch):
    """Return a function of a strategy: by how much each part grows, on the rank with most of it."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    from growth import PARTS, run

    def measure(strategy, **facts):
        small, large = (run(p, strategy, 4, **facts) for p in (SMALL, TIMES * SMALL))
        out = {part: max(large[part]) / max(1, max(small[part])) for part in PARTS}
        if strategy == "DiffusionLB":  # load diffuses over more ranks in more rounds, up to a limit
            out["placement"] *= small["steps"] / large["steps"]
        for name in ("kept, places", "kept, own", "collectives"):
            out[name] = large[name] / max(1, small[name])
        return out

    return measure


@pytest.mark.parametrize("strategy", ["GossipLB", "HierarchicalLB", "DiffusionLB"])
def test_no_part_grows_with_all_objects(growth, strategy):
    """Under a distributed strategy no part grows with the number of ranks."""
    found = growth(strategy)
    assert max(found.values()) < LIKE_ALL, found


def test_given_speeds_and_limits_stay_where_they_matter(growth):
    """No rank gets the speeds or memory limits of all ranks."""
    found = growth("GossipLB", speed=lambda: 1.0, memory_limit="auto")
    assert max(found.values()) < LIKE_ALL, found


def test_only_the_placing_rank_grows_under_a_central_strategy(growth):
    found = growth("BestFitLB")
    assert found.pop("placement") > LIKE_ALL  # the load database, on rank 0
    assert max(found.values()) < LIKE_ALL, found

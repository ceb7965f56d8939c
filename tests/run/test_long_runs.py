"""Runs of many iterations: memory stays constant, and the report says what was left out."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from each_case import dealt

import pylb
from pylb.errors import DomainError
from pylb.run import records as iteration_log
from pylb.run.records import IterationLog, Row
from pylb.run.report import IterationMetrics


@pytest.mark.parametrize("n", [1, 255, 256, 1000, 1023, 1024, 1025, 5000, 100_000])
def test_a_log_is_thinned(monkeypatch, n):
    """The rows of a long log are means of several iterations."""
    monkeypatch.setattr(iteration_log, "MOST_ROWS", 1024)
    rows = np.random.default_rng(n).random((n, 8))
    log = IterationLog()
    log.extend(rows[: n // 3].tolist())
    for row in rows[n // 3 :].tolist():
        log.append(row)
    assert len(log) == n
    assert log.span > 1 or log.last == Row(*rows[-1])
    assert log.span == next(s for s in 2 ** np.arange(20) if n < 1024 * s)
    starts = np.arange(0, n, log.span)
    want = np.add.reduceat(rows, starts) / np.diff(starts, append=n)[:, None]
    want[:, 4] = np.minimum.reduceat(rows[:, 4], starts)
    assert np.allclose(log.table(), want, rtol=1e-13)
    assert np.array_equal(log.first(), starts)
    assert len(log.table()) <= 1024


def program(n, **options):
    lb = dealt(pylb.Balancer(clock="wall", **options), range(4), lambda key: [key])
    for _ in lb.iterate(n):
        for _ in lb.local():
            pass
        yield lb


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only")
@pytest.mark.parametrize(
    "options",
    [
        {"record": False, "mode": "off"},
        {"record": True, "every": 100},
        {"record": False, "every": 500, "lag": 2},
        {"record": False, "every": 20, "mode": "shadow"},
    ],
)
def test_memory_stays_flat(monkeypatch, options):
    """From n to 2 n iterations, memory grows by a bounded amount."""
    monkeypatch.setattr(iteration_log, "MOST_ROWS", 1 << 11)
    monkeypatch.setattr("pylb.run.modes.KEPT_RECEIPTS", 64)
    monkeypatch.setattr("pylb.run.records.KEPT_BYTES", 1 << 20)
    n = 100_000 if os.environ.get("PYLB_EXPLORE") else 5_000
    found = []
    for i, lb in enumerate(program(2 * n + 1, **options)):
        if i == n // 4:
            tracemalloc.start()  # started late, because it slows down the program
        if i in (n, 2 * n):  # as long after an LB step: what is kept up to the next one is equal
            lb.metrics, lb.history  # noqa: B018
            found.append((tracemalloc.get_traced_memory()[0], resident()))
    tracemalloc.stop()
    (python, all_of_it), (python_later, all_later) = found
    assert python_later - python < 100_000  # 337 bytes for each of at most 256 rows
    assert all_later - all_of_it < 1_000_000  # 200 bytes an iteration


def test_the_report_says_what_was_thinned(monkeypatch):
    monkeypatch.setattr(iteration_log, "MOST_ROWS", 1024)
    lb = list(program(5000, mode="off"))[-1]
    it = lb.metrics
    assert np.array_equal(it.first, np.arange(0, 5000, 8))
    assert np.array_equal(it.span, np.full(625, 8))
    report = lb.report()
    assert (report.iterations, report.span) == (5000, 8)
    assert "mean of 8 iterations" in " ".join(str(report).split())
    assert report.iteration_seconds == pytest.approx(8 * it.time.sum())
    assert lb.rank_loads().shape == (625, 1)


def test_receipts_of_the_middle_are_dropped(monkeypatch, tmp_path):
    monkeypatch.setattr("pylb.run.modes.KEPT_RECEIPTS", 16)
    monkeypatch.setattr("pylb.run.records.WRITE_EVERY", 4)  # iterations until the record is written
    path = tmp_path / "run.h5"
    lb = list(program(80, every=1, record=path, strategy=lambda s: s.rank))[-1]
    history, report = lb.history, lb.report()
    kept = [r.iteration for r in history]
    assert kept[:4] == [0, 1, 2, 3]
    assert kept[4:] == list(range(kept[4], 79))
    assert 8 <= len(kept[4:]) <= 12
    assert history.dropped.n_lb_steps == history.dropped.n == 79 - len(kept)
    assert lb.n_lb_steps == report.n_lb_steps == 79
    assert report.lb_cost > sum(r.cost for r in history)
    assert report.lb_seconds > sum(r.step_seconds for r in history)
    assert "after the first 4 are not stored" in " ".join(str(report).split())
    assert [r.iteration for r in pylb.RunRecord.load(path).history] == list(range(79))


def test_a_page_of_too_many_iterations(monkeypatch, tmp_path):
    monkeypatch.setattr("pylb.run.results.GATHER", 100)
    lb = list(program(101, mode="off"))[-1]
    with pytest.raises(DomainError, match="too large"):
        lb.report(tmp_path / "run.html")
    lb.report(tmp_path / "run.txt")


def test_many_loops(monkeypatch):
    """Memory stays constant in a program that calls `iterate` for each of its steps."""
    monkeypatch.setattr("pylb.run.records.KEPT_BYTES", 20_000)
    lb = pylb.Balancer()
    lb.add(1, [1])
    for _ in range(200):
        for _ in lb.iterate(1):
            pass
    assert len(lb._state.records.loops) < 40
    assert len(lb.metrics.time) == 200


def test_metrics_of_a_log():
    rows = np.arange(96.0).reshape(12, 8)
    log = IterationLog()
    assert IterationMetrics.of(log).time.shape == (0,)
    log.extend(rows.tolist())
    made = IterationMetrics.of(log)
    assert np.array_equal(made.utilization, rows[:, 4])
    assert np.array_equal(made.idle_mean, rows[:, 1] - rows[:, 2])
    assert np.array_equal(made.idle_max, rows[:, 1] - rows[:, 5])


# ---- with more ranks, only a rank that places all objects sends, receives and keeps more -------


SMALL, TIMES = 24, 3  # ranks of the small program; the large one has TIMES as many
LIKE_ALL = 0.8 * TIMES  # a part that grows by this factor counts as proportional to all objects


@pytest.fixture
def growth(monkeypatch):
    """Return a function of a strategy: by how much each part grows, on the rank with most of it."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    from growth import PARTS, run

    monkeypatch.setattr("growth.ITERATIONS", 5)  # one LB step

    def measure(strategy, **facts):
        small, large = (run(p, strategy, 4, **facts) for p in (SMALL, TIMES * SMALL))
        out = {part: max(large[part]) / max(1, max(small[part])) for part in PARTS}
        if strategy == "DiffusionLB":  # load diffuses over more ranks in more rounds, up to a limit
            out["placement"] *= small["steps"] / large["steps"]
        for name in ("kept, places", "kept, own", "collectives"):
            out[name] = large[name] / max(1, small[name])
        return out

    return measure


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["HierarchicalLB", "DiffusionLB"])
def test_no_part_grows_with_all_objects(growth, strategy):
    """Under a distributed strategy no part grows with the number of ranks."""
    found = growth(strategy)
    assert max(found.values()) < LIKE_ALL, found


@pytest.mark.slow
def test_given_speeds_and_limits_stay_where_they_matter(growth):
    """No rank gets the speeds or memory limits of all ranks, nor anything else."""
    found = growth("GossipLB", speed=lambda: 1.0, memory_limit="auto")
    assert max(found.values()) < LIKE_ALL, found


@pytest.mark.slow
def test_only_the_placing_rank_grows_under_a_central_strategy(growth):
    found = growth("BestFitLB")
    assert found.pop("placement") > LIKE_ALL  # the load database, on rank 0
    assert max(found.values()) < LIKE_ALL, found

"""Rows on ranks of different speed.

tests/run/test_rows.py runs the cases on virtual ranks too.
"""

import numpy as np
from each_case import dealt, loop, raised, told_clock
from scipy import sparse

import pylb
from pylb import errors
from pylb.run import rows as module


def take(comm, part, seconds):
    """Let a block count as exactly these seconds, however busy the machine is."""
    with part.timed():
        pass
    part._watch.work.seconds += seconds


def several_arrays(comm):
    """Rows keep their contents while the parts move through the ranks."""
    n = 57
    whole = np.arange(n)
    eye = 3.0 * sparse.eye_array(n, format="csr")
    for model in module.MODELS:
        part = pylb.RowPartition(comm, n, model, tol=0.01)
        mine = whole[part.local]
        a, b = mine.copy(), np.outer(mine, [1.0, 0.5, 2.0])
        more = [np.asfortranarray(b), eye[part.local], eye[part.local].tocoo()]
        for k in range(8):
            slow = 1.0 + 5.0 * (comm.rank == k % comm.size)
            take(comm, part, slow * part.counts[comm.rank])
            a, b, *more = part.redistribute(a, b, *more)
            mine = whole[part.local]
            assert np.array_equal(a, mine)
            assert np.array_equal(b, np.outer(mine, [1.0, 0.5, 2.0]))
            assert np.array_equal(more[0], b)
            assert [m.format for m in more[1:]] == ["csr", "coo"]
            for m in more[1:]:
                assert np.array_equal(m.toarray(), 3.0 * np.eye(n)[part.local])
        assert part.counts.sum() == n
        assert comm.size == 1 or any(d.moved for d in part.history)
        every = comm.allgather([[*map(np.ndarray.tolist, d[:2]), *d[2:]] for d in part.history])
        assert all(e == every[0] for e in every)


def balance(comm):
    """Ranks of speeds 1, 2, ... are balanced after one redistribution."""
    n = 60 * comm.size * (comm.size + 1) // 2
    part = pylb.RowPartition(comm, n, "cpm", tol=1e-6)
    x = np.arange(n)[part.local]
    for _ in range(3):
        take(comm, part, part.counts[comm.rank] * 100.0 / (1 + comm.rank))
        same = x
        x = part.redistribute(x)
    assert same is x
    assert part.balanced
    assert part.counts.tolist() == [60 * (r + 1) for r in range(comm.size)]


def tiles(comm):
    """Cells of a grid keep their contents while the rectangles change."""
    shape = (23, 31)
    whole = np.arange(23 * 31).reshape(shape)
    for model in module.MODELS:
        part = pylb.TilePartition(comm, shape, model, tol=0.01)
        a, b = whole[part.local], np.asfortranarray(0.5 * whole[part.local])
        for k in range(6):
            slow = 1.0 + 5.0 * (comm.rank == k % comm.size)
            take(comm, part, slow * part.counts[comm.rank])
            a, b = part.redistribute(a, b)
            assert np.array_equal(a, whole[part.local])
            assert np.array_equal(b, 0.5 * a)
            assert part.counts.sum() == whole.size
            covered = np.zeros(shape, int)
            for first, end, left, right in part.boxes:
                covered[first:end, left:right] += 1
            assert (covered == 1).all()
        assert comm.size == 1 or any(d.moved for d in part.history)
    even = pylb.TilePartition(comm, (4 * comm.size, 3), "cpm", tol=0.5)
    take(comm, even, 1.0)
    x = np.zeros(even.counts[comm.rank]).reshape([s.stop - s.start for s in even.local])
    assert even.redistribute(x) is x
    last = comm.rank == comm.size - 1
    for wrong in (3, (2.5, 3), "23"):
        said = f"shape is {wrong!r}"
        raised(
            *(errors.DomainError, said),
            lambda wrong=wrong: pylb.TilePartition(comm, wrong if last else (2, 3)),
        )
    if comm.size > 1:
        raised(
            *(errors.DomainError, "arguments differ"),
            lambda: pylb.TilePartition(comm, (3, 2) if last else (2, 3)),
        )
    wrong = np.zeros((1, 1000))
    take(comm, even, 1.0)
    raised(errors.DomainError, "array 0 is (1, 1000)", lambda: even.redistribute(wrong))


def few_rows(comm):
    """There may be fewer rows than ranks, one row, or none."""
    for n in (comm.size // 2, 1, 0):
        for model in module.MODELS:
            part = pylb.RowPartition(comm, n, model)
            x = np.arange(n)[part.local]
            for _ in range(3):
                if len(x):
                    take(comm, part, float(len(x)))
                x = part.redistribute(x)
                assert np.array_equal(x, np.arange(n)[part.local])
            assert part.counts.sum() == n


def zero_times(comm):
    part = pylb.RowPartition(comm, 10 * comm.size)
    x = np.zeros(len(range(10 * comm.size)[part.local]))
    for k in range(3):
        part._watch.work.add(0.0 if k else float(comm.rank))
        x = part.redistribute(x)
    assert part.counts.sum() == 10 * comm.size


def learned(comm):
    part = pylb.RowPartition(comm, 100, "fpm", tol=0.0)
    for _ in range(3):
        take(comm, part, float(part.counts[comm.rank]) / (1 + comm.rank))
        part.redistribute()
    again = pylb.RowPartition(comm, 1000, "fpm", models=part.models)
    weights = 1.0 + np.arange(comm.size)
    assert np.abs(again.counts - 1000 * weights / weights.sum()).max() < 5
    before = part.models.speed.copy()
    take(comm, again, 1e6)
    again.redistribute()
    assert np.array_equal(part.models.speed, before)  # given models do not change


def wrong_use(comm):
    part = pylb.RowPartition(comm, 4 * comm.size)
    x = np.zeros(4)
    raised(errors.StateError, "without a timed() block", lambda: part.redistribute(x))
    with part.timed():
        raised(errors.StateError, "inside a timed() block", lambda: part.timed().__enter__())
    last = comm.rank == comm.size - 1
    raised(
        errors.DomainError,
        ["array 0 is (5,)", "rows of this rank, (4,)"],
        lambda: part.redistribute(np.zeros(5 if last else 4)),
    )
    raised(errors.DomainError, "is list", lambda: part.redistribute([0.0] * 4))
    masked = np.ma.array(np.zeros(4), mask=last)
    raised(errors.DomainError, "array 0 has masked", lambda: part.redistribute(masked))
    raised(errors.DomainError, "n is -1", lambda: pylb.RowPartition(comm, -1))
    raised(
        *(errors.DomainError, "models is 'speed.json'"),
        lambda: pylb.RowPartition(comm, 1, models="speed.json" if last else None),
    )
    raised(errors.DomainError, "model is 'x'", lambda: pylb.RowPartition(comm, 1, "x"))
    raised(errors.DomainError, "tol is nan", lambda: pylb.RowPartition(comm, 1, tol=float("nan")))
    models = pylb.SpeedModels([([1], [1.0])] * (comm.size + 1))
    raised(errors.DomainError, "ranks: expected", lambda: pylb.RowPartition(comm, 1, models=models))
    if comm.size > 1:
        n = 7 + last
        raised(errors.DomainError, "arguments differ", lambda: pylb.RowPartition(comm, n))
        some = [x] * (1 + last)
        raised(errors.DomainError, "arguments differ", lambda: part.redistribute(*some))


def timed(comm):
    """The rank whose rows take longer gets fewer rows."""
    part = pylb.RowPartition(comm, 40 * comm.size, tol=0.2)
    with told_clock() as spend:
        for _ in range(3):
            with part.timed():
                spend(1e-3 * part.counts[comm.rank] * (1 + 2 * (comm.rank == 0)) / 4)
            part.redistribute()
    assert comm.size == 1 or part.counts[0] < part.counts[1]


def speeds_learned(comm):
    """All ranks learn the speeds from objects that move; load estimates are for the new rank."""

    def wander(snapshot):
        # Different objects move each time: if the same objects came back, their work could seem
        # periodic.
        places.append(snapshot)
        moves = np.random.default_rng(len(places)).random(snapshot.n_objects) < 0.4
        return (snapshot.rank + moves) % snapshot.n_ranks

    places = []
    slow = 1.0 + comm.rank % 3
    look = pylb.register_strategy(wander, looks_at=["speed"])
    lb = pylb.Balancer(
        comm,
        every=2,
        learn_speeds=True,
        strategy=look,
        pause_if_useless=False,
        load=lambda key, block: (1.0 + key % 5) * slow,
    )
    dealt(lb, range(60))
    loop(lb, 12)
    if comm.rank == 0 and comm.size > 1:
        last = places[-1]
        np.testing.assert_allclose(
            last.speed / last.speed[0], 1.0 / (1.0 + np.arange(comm.size) % 3), rtol=0.01
        )
        work = last.load / (1.0 + last.key % 5)
        # The estimates still contain a part from before the first move, when speeds were unknown.
        np.testing.assert_allclose(work, work[0], rtol=0.1)

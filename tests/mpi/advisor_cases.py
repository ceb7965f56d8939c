"""Cases of an advisor that hold on any number of ranks."""

import tempfile
from pathlib import Path

import numpy as np

import pylb
from pylb import errors


def raised(call):
    """Return the error of a call on this rank, or None."""
    try:
        call()
    except errors.PylbError as why:
        return why
    return None


def drift(comm, lag, steps=150, own=False, **given):
    """Ask only when to redistribute; the work of higher ranks grows faster."""
    lb, mine = pylb.Advisor(comm, lag=lag, **given), 1.0
    for _ in range(steps) if own else lb.iterate(steps):
        mine *= 1 + 0.02 * comm.rank
        if lb.advise(seconds=mine):
            mine = 1.0
            lb.rebalanced(1.0)
    return lb


def alike(comm, value):
    """Check that the value is the same on all ranks, and return it."""
    every = comm.allgather(repr(value))
    assert every == [every[0]] * comm.size
    return value


def when_only(comm):
    for lag in (0, 1, 4):
        for own in (False, True):
            lb = drift(comm, lag, own=own)
            if own:
                lb.finish()
            assert len(alike(comm, lb.metrics.max.tolist())) == 150
            alike(comm, lb.history)
            assert (lb.n_lb_steps > 2) == (comm.size > 1)
            assert lb.rank_loads().shape == (150, comm.size)
            assert np.array_equal(lb.rank_loads().max(axis=1), lb.metrics.max)


def the_program_may_stop_early_and_go_on(comm):
    for lag in (0, 3):
        lb = pylb.Advisor(comm, lag=lag)
        for step in lb.iterate(100):
            lb.advise(seconds=1.0 + comm.rank)
            if step == 20:
                break
        lb.advise(seconds=1.0) if lag == 0 else None
        assert list(lb.iterate(0)) == []
        first = lb.iteration
        for i, step in enumerate(lb.iterate(10)):
            assert step == first + i
            lb.advise(seconds=1.0)
        assert lb.iteration == first + 10 == 31 + (lag == 0)
        assert len(lb.metrics.max) == lb.iteration


def cells(comm, lag, steps=80, ahead=False, **given):
    lb, moving = pylb.Advisor(comm, lag=lag, **given), None
    n = 60
    keys = np.array_split(np.arange(n), comm.size)[comm.rank]
    x = 1.0 * keys
    for step in lb.iterate(steps):
        loads = 1 + 9 * np.exp(-(((keys - 0.4 * step) % n - n / 2) ** 2) / 30)
        plan = lb.advise(loads=loads, keys=keys, ahead=ahead)
        if due := moving if ahead else plan:
            x, words, keys = due.migrate(x, [str(key) for key in keys], keys)
            assert np.array_equal(x, keys)
            assert words == [str(key) for key in keys]
        moving = plan
    assert sorted(np.concatenate(comm.allgather(keys))) == list(range(n))
    return lb


def when_and_where(comm):
    for lag in (0, 2):
        for given in ({"every": 10}, {}):
            lb = cells(comm, lag, strategy="GreedyLB", **given)
            alike(comm, lb.history)
            assert lb.n_lb_steps >= (given.get("every", 0) > 0 and comm.size > 1)


def some(snapshot):
    """A strategy: a third of the cells stay, the others go to the next two ranks."""
    return (snapshot.rank + snapshot.key % 3) % snapshot.n_ranks


def cells_move_while_the_program_computes(comm):
    """With `ahead`, during the step after the advice; otherwise, before it."""
    n, me = 60, comm.rank
    for lag, ahead, form in [(0, False, 0), (0, True, 1), (2, True, 2), (2, False, 1)]:
        lb = pylb.Advisor(comm, lag=lag, every=4, strategy=some)
        keys = np.array_split(np.arange(n), comm.size)[me]
        rows, start = np.repeat(keys, 1 + keys % 3) + 0.25, np.append(0, np.cumsum(1 + keys % 3))
        moving, plans = None, 0
        for step in lb.iterate(30):
            loads = 1 + 9 * np.exp(-(((keys - 0.4 * step) % n - n / 2) ** 2) / 30)
            pending = begin(moving, keys, rows, start, form) if moving and ahead else None
            stays = np.ones(len(keys), bool) if moving is None else moving.rank == me
            rows[np.repeat(stays, np.diff(start))] += 1  # compute
            plan = lb.advise(loads=loads, keys=keys, ahead=ahead)
            assert not (plan and pending)
            if plan and not ahead:
                moving, plan = plan, None
                pending = begin(moving, keys, rows, start, form)
                rows[np.repeat(moving.rank == me, np.diff(start))] += 1
            if pending:
                then = moving.migrate(rows, offset=start)
                keys, rows, start = end(pending)
                plans += 1
                assert np.array_equal(rows, then[0])
                assert np.array_equal(start, then[1])
                assert np.array_equal(np.diff(start), 1 + keys % 3)
            moving = plan
        assert sorted(np.concatenate(comm.allgather(keys))) == list(range(n))
        assert (plans > 3) == (comm.size > 1)
        assert comm.size == 1 or plans - lb.n_lb_steps in (0, 1)  # the last one may not be over
        assert all(r.seconds_hidden > 0 for r in lb.history.lb_steps if r.migrations)


def begin(plan, keys, rows, start, form):
    """Begin to move all; form: as arrays, as objects, as an array of objects."""
    objects = [str(key) for key in keys]
    words = objects if form < 2 else np.array([*objects, None], object)[:-1]
    first = plan.migrate_begin(words) if form else None
    if first:  # an object that stays may be replaced
        here = plan.rank == plan.here
        for i in np.flatnonzero(here):
            words[i] = "stays"
    return first, plan.migrate_begin(keys), plan.migrate_begin(rows, offset=start)


def end(pending):
    words, keys, rows = pending
    new = keys.wait()
    if words:
        came = words.wait()
        assert all(word in (str(key), "stays") for word, key in zip(came, new, strict=True))
    return new, *rows.wait()


def a_migration_ends_once(comm):
    """The last rank does not end it before the next step, or tries to end it twice."""
    odd = comm.rank == comm.size - 1

    def program(ahead, ends):
        lb = pylb.Advisor(comm, every=1, strategy=lambda s: (s.rank + 1) % s.n_ranks)
        pending, keys = None, 4 * comm.rank + np.arange(4)
        for _ in range(4):
            plan = lb.advise(loads=np.ones(4), keys=keys, ahead=ahead)
            if pending and (ends or not odd):
                assert len(pending.wait()) == 4
                assert "has ended already" in str(raised(pending.wait))
            pending = plan.migrate_begin(keys) if plan else None
            if pending and not ahead and (ends or not odd):
                pending.wait()
                pending = None

    for ahead in (False, True):
        assert raised(lambda ahead=ahead: program(ahead, True)) is None
        why = raised(lambda ahead=ahead: program(ahead, False))
        assert (why is None) == (comm.size == 1), why
        assert not odd or why is None or "while cells are on their way" in str(why), why


def records(comm):
    folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    for lag, ahead in [(0, False), (2, False), (0, True), (2, True)]:
        path = Path(folder, f"{lag}{ahead}.h5")
        lb = cells(comm, lag, ahead=ahead, strategy="GreedyLB", every=20)
        lb.save(path)
        lb.report(Path(folder, "run.html"))
        run = pylb.RunRecord.load(path)
        assert run.n_iterations == 80
        assert np.array_equal(run.max, lb.metrics.max)
        sums = np.concatenate([s.load.sum(axis=1) for s in run.stretches])
        assert np.allclose(sums, lb.rank_loads().sum(axis=1))
        assert len(run.trace.replay("RefineLB", every=10).metrics["max"]) == 80
        assert run.trace.replay("GreedyLB", every=20, lag=lag).decisions == lb.history
        lb = cells(comm, lag, ahead=ahead)
        lb.save(path)
        assert pylb.Trace.load(path).replay(lag=lag).decisions == lb.history


def errors_reach_all(comm):
    odd = comm.size - 1

    def wrong(lag, number):
        lb = pylb.Advisor(comm, lag=lag)
        for step in lb.iterate(20):
            lb.advise(seconds=-1.0 if step == number and comm.rank == odd else 1.0)

    for lag in (0, 1, 5):
        for number in (0, 3, 19):
            why = raised(lambda lag=lag, number=number: wrong(lag, number))
            assert isinstance(why, errors.DomainError), (lag, number, why)
            assert "seconds is -1.0" in str(why)
    drift(comm, 2)  # the ranks can continue


def a_rank_that_leaves(comm):
    def leave(lag):
        lb = pylb.Advisor(comm, lag=lag)
        for step in lb.iterate(20):
            if step == 5 and comm.rank == 0:
                break
            lb.advise(seconds=1.0)
        lb.finish()
        return lb

    for lag in (0, 2):
        why = raised(lambda lag=lag: leave(lag))
        assert (why is None) == (comm.size == 1), why


def a_wrong_migration(comm):
    odd = comm.rank == comm.size - 1
    right = [np.ones(8)], np.arange(0, 9, 2)

    def move(values, offset):
        lb = pylb.Advisor(comm, every=1, strategy=lambda s: (s.rank + 1) % s.n_ranks)
        if plan := lb.advise(loads=np.ones(4), keys=4 * comm.rank + np.arange(4)):
            plan.migrate(*values, offset=offset)

    for values, offset, says in [
        ([], None, "expected at least one array"),
        (right[0], [0, 1], "offset has shape (2,): expected (5,)"),
        (right[0], [0, 2, 1, 4, 8], "offset[2] is 1: expected a whole number, not less"),
        (right[0], [1, 2, 4, 6, 8], "offset[0] is 1: expected 0"),
        (right[0], ["a"] * 5, "offset: expected an array of numbers"),
        ([np.ones(4)], None, "arguments differ"),
    ]:
        why = raised(
            lambda values=values, offset=offset: move(*((values, offset) if odd else right))
        )
        assert (why is None) == (comm.size == 1), why
        assert why is None or (type(why) is errors.DomainError and says in str(why)), why
    assert raised(lambda: move(*right)) is None  # the ranks can continue


def freed(comm):
    mine = comm.Dup()
    lb = pylb.Advisor(mine)
    lb.advise(seconds=1.0)
    mine.Free()
    lb.advise(seconds=1.0)
    why = raised(lambda: pylb.Advisor(mine))
    assert isinstance(why, errors.MPIError)

"""Work lent within a step."""

import functools
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from each_case import raised

import pylb
from pylb import errors


def slow(seconds):
    """Return a function of rows that sleeps for the seconds of each row."""

    def compute(cost, *arrays):
        time.sleep(float(np.sum(cost)) * seconds)
        return tuple(2.0 * a for a in arrays) if len(arrays) > 1 else 2.0 * arrays[0]

    return compute


def uneven(comm, n=40):
    """Return costs of which the last rank has most, and an array of rows."""
    heavy = 30.0 if comm.rank == comm.size - 1 else 1.0
    return np.full(n, heavy), np.arange(n) + 100.0 * comm.rank


def rows_go_where_they_are_computed_sooner(comm):
    """The last rank lends, the others borrow; results are in order."""
    sharer = pylb.Sharer(comm)
    cost, x = uneven(comm)
    for _ in range(6):
        assert np.array_equal(sharer.share(slow(1e-4), cost, x), 2.0 * x)
    if comm.size > 1:
        table = sharer.metrics
        assert comm.bcast(table["rows"].sum(), root=comm.size - 1) > 0
        assert comm.bcast(table["lent"].sum(), root=comm.size - 1) > 0
        assert (table["longest"][1:] > table["bound"][1:]).all()


def shadow_lends_nothing(comm):
    sharer = pylb.Sharer(comm, mode="shadow")
    cost, x = uneven(comm)
    for _ in range(4):
        assert np.array_equal(sharer.share(slow(1e-4), cost, x), 2.0 * x)
    if comm.size > 1:
        assert not sharer.metrics["rows"].any()
        assert sharer.metrics["saved"][-1] > 0
    lb = pylb.Balancer(comm, mode="shadow")
    lb.add(comm.rank, "an object")
    for _ in lb.iterate(4):
        lb.share(slow(1e-4), cost, x)
    if comm.size > 1:
        assert lb.report().lending_saved > 0.0
        assert "would be saved by lending" in str(lb.report())


def a_balancer_sees_what_lending_leaves(comm):
    """The seconds of a rank, with those of its guests, are the load of its objects."""
    least = {}
    for mode in ("off", "on"):
        lb = pylb.Balancer(comm, mode=mode, every=1000)
        cost, x = uneven(comm)
        for key in range(2):
            lb.add(2 * comm.rank + key, "an object")
        keys = 2 * comm.rank + (np.arange(len(x)) >= 10)  # 10 and 30 rows
        for _ in lb.iterate(5):
            assert np.array_equal(lb.share(slow(1e-4), cost, x, keys=keys), 2.0 * x)
        loads = lb.rank_loads()[2:]
        least[mode] = (loads.max(axis=1) / loads.mean(axis=1)).min()
        assert (loads > 0.0).all()
        report, text = lb.report(), str(lb.report())
        last = comm.size > 1 and comm.rank == comm.size - 1 and mode == "on"
        assert report.lent >= report.hidden >= 0.0
        assert (report.lent > 0.0) >= last
        assert ("work of this rank that others did" in text) == (report.lent > 0.0)
        assert ("saved by lending" in text) == (report.lending_saved != 0.0)
        shown = Path(tempfile.gettempdir(), f"pylb-{os.getpid()}.html")
        lb.report(shown)
        if comm.rank == 0:
            assert ("saved by lending" in shown.read_text()) == (report.lending_saved != 0.0)
            shown.unlink()
    if comm.size > 1:
        assert least["on"] < least["off"], least
    lb = pylb.Balancer(comm)
    lb.add(comm.rank, "an object")
    wrong = [comm.rank, comm.rank + 1000 * (comm.rank == 0)]
    raised(
        errors.RemoteError if comm.rank else errors.UnknownKeyError,
        "has failed" if comm.rank else "key 1000: no such object on rank 0",
        lambda: lb.share(np.sqrt, np.ones(2), keys=wrong),
    )


def bad_arguments(comm):
    """An error of the arguments is raised at the door, on the ranks that have it."""
    x = np.arange(4.0)
    for text, arguments, options in [
        ("array 1 has 3 rows, array 0 has 4", (np.add, x, x[:3]), {}),
        ("got no arrays", (np.add,), {}),
        ("fn is 3", (3, x), {}),
        ("without Python objects", (np.copy, [{}, {}]), {}),
        ("verify is 2", (np.copy, x), {"verify": 2}),
        ("cost has shape (3,)", (np.copy, x), {"cost": x[:3]}),
        ("cost and features", (np.copy, x), {"cost": x, "features": x[:, None]}),
    ]:
        call = functools.partial(pylb.Sharer(comm).share, *arguments, **options)
        raised(errors.DomainError, text, call)
    raised(errors.DomainError, "mode is 'maybe'", lambda: pylb.Sharer(comm, mode="maybe"))
    if comm.size > 1:
        own = functools.partial(pylb.Sharer, comm, mode="on" if comm.rank else "off")
        raised(errors.DomainError, "mode is off, on on different ranks", own)
        other = pylb.Sharer(comm)
        mine = x.astype("i8") if comm.rank else x
        raised(errors.DomainError, "same dtypes", lambda: other.share(np.copy, mine))
        other = pylb.Sharer(comm)
        raised(
            errors.DomainError if comm.rank == 1 else errors.RemoteError,
            "cost[2] is -1" if comm.rank == 1 else "rank 1",
            lambda: other.share(np.copy, x, cost=np.array([1, 1, 1 - 2 * (comm.rank == 1), 1])),
        )


def a_host_that_fails(comm):
    """The owner gets the error with rows and traceback; all other ranks end with an error."""
    if comm.size == 1:
        return
    for wrong, says in (
        ("raise", ("could not compute rows", "broken on purpose")),
        ("rows", ("could not compute rows", "fn returned 0 rows")),
        ("dtype", ("float32", "expected the same dtype")),
    ):
        sharer, last = pylb.Sharer(comm), comm.size - 1
        cost, x = uneven(comm)

        def compute(cost, x, comm=comm, wrong=wrong, last=last):
            time.sleep(float(cost.sum()) * 1e-4)
            if comm.rank != last and (x >= 100.0 * last).any():
                if wrong == "raise":
                    raise SystemExit("broken on purpose")
                return x[:0] if wrong == "rows" else x.astype("f4")
            return x

        def call(sharer=sharer, compute=compute, cost=cost, x=x):
            for _ in range(10):
                sharer.share(compute, cost, x)

        kind = errors.DomainError if wrong == "dtype" else errors.RemoteError
        if comm.rank == last:
            raised(kind, says, call)
        else:
            raised(errors.RemoteError, "has failed", call)


def no_rows(comm):
    """Ranks without rows borrow; calls without any rows return arrays without rows."""
    sharer, first = pylb.Sharer(comm), comm.rank == 0
    cost, x = np.full(40 * first, 1.0), np.arange(40.0 * first)
    for _ in range(4):
        assert np.array_equal(sharer.share(slow(1e-3), cost, x), 2.0 * x)
    for _ in range(2):
        none = sharer.share(slow(1.0), cost[:0], x[:0])
        assert none.shape == (0,)
        assert none.dtype == x.dtype
    sharer, calls = pylb.Sharer(comm), []
    for _ in range(4):  # where there are no rows, only the first call asks fn for its results
        only, y = sharer.share(lambda a, b: (calls.append(len(a)), (b, b))[1], x, x)
        assert only.dtype == y.dtype
    assert first or calls.count(0) <= 1, calls


def a_failure_where_nothing_is_lent(comm):
    """The other ranks end with an error when they next decide: within 128 short calls."""
    if comm.size == 1:
        return
    sharer = pylb.Sharer(comm, mode="shadow")

    def compute(x, comm=comm):
        if comm.rank == 0 and (x == 3.0).any():
            raise ValueError("broken at home")
        return x

    for _ in range(3):
        sharer.share(compute, np.zeros(2))

    def go_on():
        for _ in range(129):
            sharer.share(compute, np.zeros(2))

    if comm.rank == 0:
        raised(ValueError, "broken at home", lambda: sharer.share(compute, np.full(2, 3.0)))
    else:
        sharer.share(compute, np.full(2, 3.0))
        raised(errors.RemoteError, "rank 0 has failed", go_on)


def a_function_of_the_rank_is_noticed(comm):
    if comm.size == 1:
        return
    sharer = pylb.Sharer(comm)
    cost, x = uneven(comm)

    def compute(cost, x):
        time.sleep(float(cost.sum()) * 1e-4)
        return x + comm.rank

    def call():
        for _ in range(10):
            sharer.share(compute, cost, x, verify=1.0)

    try:
        call()
    except errors.DomainError as why:
        assert "computed different results" in str(why)  # noqa: PT017
    except errors.RemoteError as why:
        assert "has failed" in str(why)  # noqa: PT017
    else:
        raise AssertionError("no error")

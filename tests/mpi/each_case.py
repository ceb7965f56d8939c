"""Run the cases of files of this folder: ``mpiexec -n 3 python each_case.py FILE...``.

A case is a function whose only argument is `comm`; the name of a helper like that begins with "_".
Shared by the files: check that a call raises an error; add objects; an empty loop; a strategy; a
clock that is told.
"""

import contextlib
import inspect
import json
import sys
from importlib import import_module
from unittest import mock

from pylb import _core


def raised(error, text, call):
    """Check that `call` raises exactly this error on this rank."""
    try:
        call()
    except error as why:
        assert type(why) is error, repr(why)  # noqa: PT017
        missing = [w for w in ((text,) if isinstance(text, str) else text) if w not in str(why)]
        assert not missing, f"{missing} not in {why}"  # noqa: PT017
        return
    raise AssertionError(f"no {error.__name__}")


def dealt(lb, keys, block=lambda key: None, **properties):
    """Add the objects `keys` to the ranks in turn; return the balancer."""
    for key in keys[lb.rank :: lb.n_ranks]:
        lb.add(key, block(key), **properties)
    return lb


def in_blocks(lb, n, block=lambda key: None):
    """Add the objects 0 ... n - 1 to the ranks, a block of them to each; return the balancer."""
    for key in range(n):
        if key * lb.n_ranks // n == lb.rank:
            lb.add(key, block(key))
    return lb


def loop(lb, n):
    """Iterate n times over the objects, and do nothing."""
    for _ in lb.iterate(n):
        for _ in lb.local():
            pass


def rotate(snapshot):
    """A strategy: all objects go to the next rank."""
    return (snapshot.rank + 1) % snapshot.n_ranks


@contextlib.contextmanager
def told_clock():
    """Replace pylb's clock by one that stands still; the yielded function lets seconds pass."""
    now = [0.0]

    def spend(seconds):
        now[0] += seconds

    def clock(name="wall"):
        return now[0]

    with mock.patch.multiple(_core, clock=clock, load_clock=clock):
        yield spend


def cases_of(module):
    """Return the cases of a file, in their order there."""
    return [
        f
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and not name.startswith("_")
        if [*inspect.signature(f).parameters] == ["comm"]
    ]


def each_case(cases):
    """Run half of the cases on COMM_WORLD, the others on parts of it; of three ranks, also on one.

    The parts are a duplicate; of five ranks, the first three and the last two, at the same time.
    Return {name: answer}; an answer must not depend on the communicator.  Rank 0 prints the name.
    """
    world = MPI.COMM_WORLD
    part = world.Split(world.rank >= 3)
    found = {}
    for i, case in enumerate(cases, world.size // 2):
        if world.rank == 0:
            print(case.__name__, file=sys.stderr, flush=True)
        found[case.__name__] = case(world if i % 2 else part)
    for case in cases[world.rank :: 3] if world.size == 3 else ():
        assert case(MPI.COMM_SELF) == found[case.__name__]
    assert all(other == found for other in world.allgather(found))
    return found


def main(files):
    """Run the cases of some files of this folder; rank 0 prints their answers as JSON."""
    found = {}
    with contextlib.redirect_stdout(sys.stderr):
        for file in map(import_module, files):
            found[file.__name__] = each_case(cases_of(file))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    from mpi4py import MPI

    main(sys.argv[1:])

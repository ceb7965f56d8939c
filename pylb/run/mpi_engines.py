"""Real MPI ranks for a notebook: engines of ipyparallel, which mpiexec has started."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pylb import optional
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.replaying.replayed import Replay
from pylb.replaying.trace import RunRecord

GRACE = 15.0  # seconds that the other ranks may go on after one has failed


def more_ranks() -> dict[str, str]:
    """Return variables that let Open MPI (4, 5) start more ranks than cores, also as root.

    With them, a rank that waits leaves its core to other ranks.  MPICH needs no variables.
    """
    root = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") if not os.geteuid() else ()
    return {
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        **dict.fromkeys(root, "1"),
    }


class Cluster:
    """``pylb.cluster(n)``: MPI ranks, perhaps more than cores, for a notebook, itself one process.

    The ranks are engines of ipyparallel under ``mpiexec``.  They stop at the end of the ``with``
    statement, or by ``stop()``.  ``results`` is what the program of the most recent `run` has
    returned on each rank.

    Examples
    --------
    >>> def program(comm):
    ...     lb = pylb.Balancer(comm, strategy="GreedyLB", every=5)
    ...     for key in range(lb.rank, 16, lb.n_ranks):
    ...         lb.add(key, key)
    ...     for it in lb.iterate(20):
    ...         for key, _ in lb.local():
    ...             sum(range(1000 * (1 + key % 4)))
    >>> with pylb.cluster(2) as c:
    ...     run = c.run(program)
    >>> run.trace.n_ranks
    2
    """

    def __init__(self, n: int) -> None:
        parallel = optional.require("ipyparallel")
        optional.require("cloudpickle")
        optional.require("mpi4py")
        self.n = checks.whole("n", n, 1, "a number of ranks")
        self.results = [None] * n
        self._folder = tempfile.TemporaryDirectory(prefix="pylb-cluster-")
        beside = str(Path(sys.executable).parent)  # where an MPI from PyPI has its mpiexec
        path = os.pathsep.join([beside, os.environ.get("PATH", "")])
        if shutil.which("mpiexec", path=path) is None:
            raise StateError("there is no mpiexec: expected Open MPI or MPICH on the PATH")
        variables = {**more_ranks(), "PATH": path}
        self._cluster = parallel.Cluster(engines="mpi", n=n, log_level=40)
        self._engines: Any = None
        with _environment(variables):
            try:
                self._engines = self._cluster.start_and_connect_sync(activate=False)
            except Exception as why:
                self.stop()
                raise StateError(f"the ranks did not start: {why}") from why

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the ranks; may be called twice."""
        if self._engines is not None:
            # Its thread would try to connect for ever, by rand(), which METIS uses, too.
            self._engines.close()
        self._cluster.stop_cluster_sync()
        self._folder.cleanup()

    def run(self, program: Callable[..., Any], *args: Any, **kwargs: Any) -> Replay:
        """Run ``program(comm, *args, **kwargs)`` on every rank, and return the run.

        The program gets ``comm``, MPI.COMM_WORLD, and makes a `Balancer` or `Advisor` with it.  It
        may use names of the notebook; they are copied.  In a notebook, the widget of `pylb.watch`
        shows the run while it goes on.  What rank 0 prints is printed at the end.  If the program
        raises an error on a rank, all ranks are stopped.

        The result is the run as recorded: ``run.saved``, ``run.trace.replay(...)``.
        """
        if not callable(program):
            raise DomainError(f"program is {program!r}: expected a function, program(comm)")
        record = Path(self._folder.name, f"run-{time.monotonic_ns()}.h5")
        sent = optional.require("cloudpickle").dumps((program, args, kwargs))
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if not hasattr(get_ipython(), "kernel") or find_spec("anywidget") is None:
            shown = None
        else:
            from pylb.show.explorer import watch

            shown = watch(record)
            display(shown)  # type: ignore[no-untyped-call]
        try:
            answers = [
                self._engines[i].apply_async(_call, sent, str(record)) for i in self._engines.ids
            ]
            until = None
            while not all(answer.ready() for answer in answers):
                time.sleep(0.05)
                failed = [a for a in answers if a.ready() and not a.successful()]
                until = until or (time.monotonic() + GRACE if failed else None)
                if until is not None and time.monotonic() > until:
                    self.stop()
                    failed[0].get()
            for answer in answers:
                answer.get()
        finally:
            if shown is not None:
                shown.stop()
        ranks = sorted((answer.get()[0], i) for i, answer in enumerate(answers))
        self.results = [answers[i].get()[1] for _, i in ranks]
        print(answers[ranks[0][1]].stdout, end="")
        if not record.exists():
            raise StateError("no iteration was recorded: expected a Balancer or Advisor in program")
        return RunRecord.load(record).trace.replay("none")

    def __repr__(self) -> str:
        return f"<Cluster: {self.n} MPI ranks>"


cluster = Cluster


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set these variables for the processes that the block starts."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:  # only of these: the program may set others
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


def _call(sent: bytes, record: str) -> tuple[int, Any]:
    """Run the program on an engine; return the engine's MPI rank, and the program's result."""
    from mpi4py import MPI

    program, args, kwargs = pickle.loads(sent)
    with _environment({"PYLB_RECORD": record}):
        return MPI.COMM_WORLD.rank, program(MPI.COMM_WORLD, *args, **kwargs)

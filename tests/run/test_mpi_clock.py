"""The clock "mpi": bodies of known length in programs that wait within MPI, in C and in Python."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from compiled import finished, flags, needs, run
from launch import PYLB, SHARED_CORES

import pylb
from pylb import _core

ROOT = Path(__file__).parents[2]
needs_library = pytest.mark.skipif(find_spec("pylb._pmpi") is None, reason="built without MPI")
RUN = [sys.executable, "-m", "pylb", "run", "--"]


def under_run(words):
    """Run a command by `pylb run`; return its exit code and what it printed."""
    env = {**os.environ, "PYTHONPATH": str(PYLB)}
    done = subprocess.run(
        [*RUN, *map(str, words)], capture_output=True, text=True, timeout=400, env=env
    )
    return done.returncode, done.stdout, SHARED_CORES.sub("", done.stderr)


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    needs("mpicc")
    program = tmp_path_factory.mktemp("bodies") / "mpi_clock"
    run(["mpicc", "-std=gnu11", "-O2", ROOT / "benchmarks" / "mpi_clock.c", "-o", program])
    return program


@needs_library
@pytest.mark.parametrize("ranks", [2, 3])
def test_work_is_what_the_bodies_take(mpiexec, bodies, ranks):
    """Whichever way ranks wait; benchmarks/mpi_clock.py has a smaller limit, on idle cores.

    The clock is at least the processor time of the bodies and at most their wall time.
    """
    code, out, said = under_run([*mpiexec, "-n", ranks, bodies, "2", "20"])
    assert code == 0, said
    ends = {way: [*map(float, rest)] for way, *rest in map(str.split, out.splitlines())}
    assert len(ends) == 9
    wrong = [way for way, (least, _, of_wall) in ends.items() if least < 0.85 or of_wall > 1.3]
    assert wrong == [], ends


PROGRAM = """
import sys, time
import numpy as np
from mpi4py import MPI
import pylb

comm, share = MPI.COMM_WORLD, [8, 2, 2, 2, 2][MPI.COMM_WORLD.rank]
lb = pylb.Advisor(comm{arguments})
def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
for step in lb.iterate(60):
    compute(1e-3 * share)
    comm.Barrier()  # the fast ranks wait here
    if lb.advise():
        share = 2 + 6 / comm.size
        compute(0.05)
assert share < 8, "not balanced"
if comm.rank == 0:
    print(lb.history.lb_steps[0].cost)
"""


@needs_library
def test_two_lines_balance_a_program(mpiexec, tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM.format(arguments=""))
    words = [*mpiexec, "-n", 3, sys.executable, "-W", "error", tmp_path / "prog.py"]
    code, out, said = under_run(words)
    assert code == 0, said
    assert float(out) > 0  # estimated: the program has not timed its redistribution


@needs_library
def test_the_clock_is_refused_where_nothing_is_loaded(mpiexec, tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM.format(arguments=", clock='mpi'"))
    words = [*mpiexec, "-n", "2", sys.executable, str(tmp_path / "prog.py")]
    done = finished(words)
    assert done.returncode != 0
    assert "clock is 'mpi', which needs a library that sees MPI calls" in done.stderr
    (tmp_path / "prog.py").write_text(PROGRAM.format(arguments=""))
    done = finished(words)
    assert "or a program that `pylb run` has started" in done.stderr


@needs_library
def test_a_program_without_mpi(tmp_path):
    program = "from pylb import _core; print(_core.mpi_clock(), _core.load_clock('mpi') > 0)"
    code, out, said = under_run([sys.executable, "-c", program])
    assert (code, out, said) == (0, "False True\n", "")
    code, _, said = under_run(["no-such-program"])
    assert code == 2
    assert "there is no such program" in said
    assert under_run(["sh", "-c", "kill -9 $$"])[0] == 137


def test_virtual_ranks_have_no_such_clock():
    def main(comm):
        return pylb.Advisor(comm, clock="mpi")

    with pytest.raises(pylb.errors.PylbError, match="not for virtual ranks"):
        pylb.VirtualCluster(2).run(main)
    assert _core.mpi_clock() is None


THREADS = r"""
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

extern int64_t pylb_pmpi_work_ns(bool delayed, bool *sees);
static bool sees;

static void *other(void *arg)
{
    int flag, x = 0;
    (void)arg;
    const double began = MPI_Wtime();
    const int64_t before = pylb_pmpi_work_ns(false, &sees);
    usleep(20000);
    const double waits = MPI_Wtime();
    MPI_Recv(&x, 1, MPI_INT, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    const double waited = MPI_Wtime() - waits;
    MPI_Iprobe(0, 5, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    const int64_t work = pylb_pmpi_work_ns(false, &sees) - before;
    printf("%d ", work > 18000000 && 1e-9 * work < MPI_Wtime() - began - waited + 1e-3);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, x = 1;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        puts("none");
        return MPI_Finalize();
    }
    pthread_create(&thread, NULL, other, NULL);
    const int64_t before = pylb_pmpi_work_ns(false, &sees);
    usleep(100000); /* the other thread waits in MPI_Recv for most of this time: its own wait */
    const int64_t work = pylb_pmpi_work_ns(false, &sees) - before;
    MPI_Send(&x, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
    pthread_join(thread, NULL);
    printf("%d\n", work > 98000000);
    return MPI_Finalize();
}
"""


@needs_library
def test_each_thread_has_its_own_waits(prefix, mpiexec, tmp_path):
    """Linked, not preloaded."""
    needs("mpicc")
    (tmp_path / "threads.c").write_text(THREADS)
    linked = flags(prefix, "pylb_pmpi")
    words = ["mpicc", "-std=gnu11", tmp_path / "threads.c", *linked, "-pthread"]
    run([*words, "-o", tmp_path / "threads"])
    assert run([*mpiexec, "-n", "1", tmp_path / "threads"]).strip() in ("1 1", "none")


FOREIGN = """
from mpi4py import MPI
import numpy as np
import pylb

class Fortran:  # of another module than mpi4py
    def py2f(self):
        return MPI.COMM_WORLD.py2f()

class Handle:
    handle = MPI._handleof(MPI.COMM_WORLD)

for comm in Fortran(), Handle():
    lb, ids = pylb.Advisor(comm, every=2), np.arange(4) + 4 * MPI.COMM_WORLD.rank
    for step in lb.iterate(5):
        if plan := lb.advise(loads=1.0 + 5.0 * (ids < 4), keys=ids):
            ids = plan.migrate(ids)
    assert lb.n_lb_steps and lb.n_ranks == 2 and sorted(ids)[-1] > 3
try:
    pylb.Advisor(7)
except pylb.errors.DomainError as error:
    assert "a method py2f() or an attribute handle" in str(error)
"""


@needs_library
def test_communicators_of_other_modules(mpiexec):
    words = [*mpiexec, "-n", "2", sys.executable, "-W", "error", "-c", FOREIGN]
    done = finished(words)
    assert done.returncode == 0, done.stderr


PLAIN = """
import atexit, ctypes, sys
sys.modules["mpi4py"] = None  # as if it were not installed
import numpy as np
import pylb, pylb._mpi
from pylb import errors, optional

def refused(error, says, call):
    try:
        call()
    except error as why:
        assert says in str(why), why
    else:
        raise AssertionError(says)

refused(errors.StateError, "MPI has not started", lambda: pylb.Advisor("world"))
mpi = ctypes.CDLL(optional._mpi_libraries()[0], ctypes.RTLD_GLOBAL)  # the program's own MPI
mpi.MPI_Init(None, None)
atexit.register(mpi.MPI_Finalize)
refused(errors.DomainError, "'world'", lambda: pylb.Advisor("self"))
rank, size = pylb._mpi.world()
for comm in "world", pylb._mpi.Comm("world"):
    lb, ids = pylb.Advisor(comm, every=2), np.arange(4) + 4 * rank
    for step in lb.iterate(5):
        if plan := lb.advise(loads=1.0 + 5.0 * (ids < 4), keys=ids):
            ids = plan.migrate(ids)
    assert (lb.rank, lb.n_ranks) == (rank, size)
    assert (lb.history.lb_steps[0].migrations > 0) == (size > 1)
    lb = pylb.Advisor(comm, lag=2)
    for step in lb.iterate(9):
        lb.advise(seconds=1.0)
    assert lb.share(np.sqrt, np.full(3, 4.0)).tolist() == [2.0] * 3
    load = lambda key, block: 1.0 + 5.0 * (key < 10)
    lb = pylb.Balancer(comm, every=2, strategy="GreedyLB", load=load, overlap=True)
    for key in range(4):
        lb.add(10 * rank + key, np.full(1 << 16, key))
    for _ in lb.iterate(5):
        for key, block in lb.local():
            assert (block == key % 10).all()
    assert (lb.report().migrations > 0) == (size > 1)
refused(errors.MissingPartError, "mpi4py", lambda: pylb.Machine.measure("world"))
if sys.argv[1:] == [str(rank)]:
    raise ValueError("cell 7 is broken")
lb = pylb.Advisor("world")
while lb.advise(seconds=1.0) or sys.argv[1:]:
    pass
if size == 1:
    mpi.MPI_Finalize()
    atexit.unregister(mpi.MPI_Finalize)
    refused(errors.StateError, "MPI has ended", lambda: pylb.Advisor("world"))
print("through")
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_without_mpi4py(mpiexec, ranks):
    words = [*mpiexec, "-n", str(ranks), sys.executable, "-W", "error", "-c", PLAIN]
    done = finished(words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("through") == ranks


def test_without_mpi4py_a_rank_that_fails_ends_all(mpiexec):
    done = finished([*mpiexec, "-n", "3", sys.executable, "-W", "error", "-c", PLAIN, "1"])
    assert done.returncode != 0
    assert "rank 1: ValueError: cell 7 is broken" in done.stderr


def test_a_program_with_another_mpi(tmp_path):
    """The error names both."""
    needs("cc")
    pytest.importorskip("pylb._mpi")
    (tmp_path / "other.c").write_text(
        "#include <string.h>\n"
        'int MPI_Get_library_version(char *s, int *n) { strcpy(s, "Another MPI 1.0"); return 0; }\n'
    )
    library = tmp_path / "libmpi.so.99"
    run(["cc", "-shared", "-fPIC", tmp_path / "other.c", "-o", library])
    program = (
        f"import ctypes, pylb; ctypes.CDLL({str(library)!r})\n"
        "try: pylb.Advisor('world')\n"
        "except pylb.errors.MPIError as why: print(why)\n"
    )
    said = run([sys.executable, "-c", program])
    assert re.match(r"pylb was built with '.*MPI.*', the program uses 'Another MPI 1.0'", said)


ADVISED = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pylb.h"

static void try(int code)
{
    if (code != PYLB_OK) {
        puts(pylb_error());
        MPI_Finalize();
        exit(0);
    }
}

static void compute(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    const double end = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + seconds;
    while ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec < end) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    }
}

int main(int argc, char **argv)
{
    pylb_advisor *lb;
    pylb_receipt receipt = {0};
    int rank, rebalance, n = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double seconds = rank == 0 ? 6e-3 : 2e-3;
    try(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    if (argc > 1) {
        try(pylb_advisor_set(lb, "clock", argv[1]));
    }
    for (int step = 0; step < 40; step++) {
        compute(seconds);
        MPI_Barrier(MPI_COMM_WORLD);
        try(pylb_advise(lb, &rebalance));
        if (rebalance) {
            seconds = 4e-3;
            compute(0.03);
            n++;
        }
    }
    for (int i = 0; n > 0 && !receipt.rebalanced; i++) {
        try(pylb_advisor_receipt(lb, i, &receipt));
    }
    try(pylb_advisor_close(&lb));
    if (rank == 0) {
        printf("%d %.6f\n", n, receipt.cost);
    }
    return MPI_Finalize();
}
"""


@needs_library
def test_two_lines_in_c(prefix, mpiexec, tmp_path):
    needs("mpicc")
    (tmp_path / "prog.c").write_text(ADVISED)
    for package in ("pylb_pmpi", "pylb_mpi"):
        linked = flags(prefix, package)
        run(["mpicc", "-std=gnu11", tmp_path / "prog.c", *linked, "-o", tmp_path / package])
    n, cost = map(float, run([*mpiexec, "-n", "2", tmp_path / "pylb_pmpi"]).split())
    assert n >= 1
    assert cost > 0
    code, out, said = under_run([*mpiexec, "-n", "2", tmp_path / "pylb_mpi"])
    assert code == 0, said
    assert int(out.split()[0]) >= 1
    out = run([*mpiexec, "-n", "2", tmp_path / "pylb_mpi", "mpi"])
    assert 'clock is "mpi", but libpylb_pmpi is not loaded' in out

"""Fixtures for all tests."""

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import chance  # noqa: F401 how examples are drawn
import pytest
import stuck_mpiexec
from compiled import installed

# Let Open MPI start more ranks than cores, also as root, and not bind the ranks of several tests to
# the same core; MPICH ignores these variables.
os.environ.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
os.environ.setdefault("OMPI_MCA_hwloc_base_binding_policy", "none")
# Open MPI 5 reads these instead of the first and the third one.
os.environ.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
os.environ.setdefault("PRTE_MCA_hwloc_default_binding_policy", "none")
# One host needs no network: to look for one takes MPI_Init a quarter of a second.
os.environ.setdefault("OMPI_MCA_pml", "ob1")
if os.geteuid() == 0:
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")

# A shell's background jobs ignore Ctrl-C; the programs that tests interrupt must not inherit this.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Workers begin with the files that take longest, so that none is left over at the end; while labs
# run on one of them, the others have tests without ranks.
LONGEST = (
    *("test_lab_groups.py", "test_lab_hosts.py", "test_notebooks.py", "test_browser.py"),
    *("test_c.py", "test_mpi.py", "test_lib.py", "test_blocks.py", "test_same_bits.py"),
    *("test_own_loop.py", "test_operations.py", "test_live.py", "test_dying_ranks.py"),
    *("test_steer.py", "test_no_memory.py", "test_mpi_clock.py", "test_docstrings.py"),
    *("test_examples.py", "test_checkpoint.py", "test_virtual.py", "test_long_runs.py"),
)
SLOW = {
    "test_browser.py",
    "test_c.py",
    "test_cli_all.py",
    "test_consensus.py",
    "test_examples.py",
    "test_fuzz.py",
    "test_graph_strategies.py",
    "test_lab_groups.py",
    "test_lab_hosts.py",
    "test_live.py",
    "test_notebooks.py",
    "test_rounds.py",
    "test_same_bits.py",
    "test_same_everywhere.py",
}


def starts_ranks(item):
    return "mpiexec" in getattr(item, "fixturenames", ())


def pytest_ignore_collect(collection_path, config):
    """Leave out the files of slow tests when no slow test is wanted: to import them takes time."""
    return (config.getoption("markexpr") == "not slow" and collection_path.name in SLOW) or None


def place_in_line(item):
    name = item.path.name
    first = LONGEST.index(name) if name in LONGEST else len(LONGEST)
    return first, name not in SLOW, item.path


def pytest_collection_modifyitems(config, items):
    """Mark the tests that `make check` leaves out; under xdist, sort the files."""
    for item in items:
        if starts_ranks(item) or item.path.name in SLOW:
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items.sort(key=place_in_line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share out files, like xdist; but one worker gets all labs, so that none waits for another."""
    from xdist.scheduler import LoadFileScheduling

    class Lanes(LoadFileScheduling):
        def _split_scope(self, nodeid):
            lab = re.search("(?<![a-z])labs?(?![a-z])", nodeid)  # in the names of all such tests
            return "labs" if lab else nodeid.partition("::")[0]

    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


@contextlib.contextmanager
def machine(how):
    """Use the machine alone (LOCK_EX), or beside others (LOCK_SH).

    The queue lets nobody pass one that waits to be alone.
    """
    name = Path(tempfile.gettempdir(), f"pylb-tests-{os.getuid()}")
    with open(f"{name}.lock", "w") as lock, open(f"{name}.queue", "w") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lock, how)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let no test start ranks or a lab beside a lab, from set-up to tear-down."""
    lab = item.get_closest_marker("lab")
    if not (lab or starts_ranks(item)):
        return (yield)
    with machine(fcntl.LOCK_EX if lab else fcntl.LOCK_SH):
        return (yield)


@pytest.fixture(scope="session")
def data():
    """Return the folder of real inputs: PYLB_DATA, else ../shared/data beside the checkout."""
    root = Path(__file__).resolve().parents[1]
    path = Path(os.environ.get("PYLB_DATA") or root / ".." / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no folder {path}: set PYLB_DATA")
    return path


@pytest.fixture(scope="session")
def comma(tmp_path_factory):
    """Return environment variables of a locale in which 1.5 is written 1,5."""
    folder, name = tmp_path_factory.mktemp("locale"), "de_DE.UTF-8"
    if shutil.which("localedef") is None:
        pytest.skip("no localedef")
    words = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / name)]
    if subprocess.run(words, capture_output=True).returncode != 0:
        pytest.skip("localedef lacks the sources of its locales")
    return {"LOCPATH": str(folder), "LC_ALL": name}


@pytest.fixture
def with_mpi():
    """Start MPI, if there is one: `pylb info` imports mpi4py without starting MPI.

    Tests that use MPI later in this process would then be aborted.
    """
    with contextlib.suppress(ImportError):
        import mpi4py.MPI  # noqa: F401


@pytest.fixture(scope="session")
def mpiexec():
    """Return the words that start MPI ranks, of the MPI that mpi4py is built with.

    PYLB_MPIEXEC, else the mpiexec beside this Python (PyPI's MPI), else the one on the PATH.
    """
    if find_spec("mpi4py") is None:
        pytest.skip("no mpi4py")
    beside = Path(sys.executable).with_name("mpiexec")
    given = os.environ.get("PYLB_MPIEXEC") or (beside if beside.exists() else "mpiexec")
    words = shlex.split(str(given))
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]}")
    stuck_mpiexec.start()
    return words


def shared_library(compiler, name, folder):
    """Compile a file of tests/mpi to a library that programs of the tests preload."""
    if shutil.which(compiler) is None or not sys.platform.startswith("linux"):
        pytest.skip(f"no {compiler}, or not Linux with glibc")
    source, out = Path(__file__).parent / "mpi" / f"{name}.c", folder / f"{name}.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-o", out, "-ldl"], check=True)
    return str(out)


@pytest.fixture(scope="session")
def no_malloc(tmp_path_factory):
    """Return the library whose allocations fail."""
    return shared_library("cc", "no_malloc", tmp_path_factory.mktemp("no_malloc"))


@pytest.fixture(scope="session")
def faulty_mpi(mpiexec, tmp_path_factory):
    """Return the library whose MPI calls fail."""
    if Path(mpiexec[0]).parent == Path(sys.executable).parent:
        pytest.skip("no mpicc of this MPI")
    return shared_library("mpicc", "faulty_mpi", tmp_path_factory.mktemp("faulty"))


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Return the folder of the installed C library; the first worker that needs it builds it."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "library"
    home.mkdir(exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            installed(home, CFLAGS="-O0")  # compiles in a quarter of the time
            (home / "done").touch()
    return home / "prefix"

"""Fixtures for all tests."""

import fcntl
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import chance  # noqa: F401 how examples are drawn
import pytest
import stuck_mpiexec
from compiled import installed

# Let Open MPI start more ranks than cores, also as root; MPICH ignores these variables.
os.environ.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
# One host needs no network: to look for one takes MPI_Init a quarter of a second.
os.environ.setdefault("OMPI_MCA_pml", "ob1")
if os.geteuid() == 0:
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")

# A shell's background jobs ignore Ctrl-C; the programs that tests interrupt must not inherit this.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LABS = {
    "test_cli_all.py",
    "test_lab.py",
    "test_lab_hosts.py",
}  # tests that use the machine's control groups and networks
SLOW = {
    *LABS,
    "test_browser.py",
    "test_c.py",
    "test_consensus.py",
    "test_examples.py",
    "test_fortran.py",
    "test_graph_strategies.py",
    "test_growth.py",
    "test_live.py",
    "test_notebooks.py",
    "test_odd_calls.py",
    "test_readers.py",
    "test_rounds.py",
    "test_same_bits.py",
    "test_same_everywhere.py",
}


def needs_the_machine(item):
    """Say whether a test starts ranks, which need cores, or labs, which affect the machine."""
    return "mpiexec" in getattr(item, "fixturenames", ()) or item.path.name in LABS


def pytest_ignore_collect(collection_path, config):
    """Leave out the files of slow tests when no slow test is wanted: to import them takes time."""
    return (config.getoption("markexpr") == "not slow" and collection_path.name in SLOW) or None


def pytest_collection_modifyitems(config, items):
    """Mark the tests that `make check` leaves out; under xdist, begin with their files."""
    for item in items:
        if needs_the_machine(item) or item.path.name in SLOW:
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share out files, like xdist; but one worker gets all those with tests that need the machine.

    So no worker waits until the other has released the machine.
    """
    from xdist.scheduler import LoadFileScheduling

    @cache
    def lane(path):
        text = (config.rootpath / path).read_text()
        starts_ranks = re.search(r"def \w+\([^)]*\bmpiexec\b", text)
        return "machine" if starts_ranks or Path(path).name in LABS else path

    class Lanes(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return lane(nodeid.partition("::")[0])

    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let one process at a time run a test that needs the machine, from set-up to tear-down."""
    if not needs_the_machine(item):
        return (yield)
    with open(Path(tempfile.gettempdir(), f"pylb-tests-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
def mpiexec():
    """Return the words that start MPI ranks, of the MPI that mpi4py is built with.

    PYLB_MPIEXEC, else the mpiexec beside this Python (PyPI's MPICH), else the one on the PATH.
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


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Return the folder of the installed C library; the first worker that needs it builds it."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "library"
    home.mkdir(exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            installed(home)
            (home / "done").touch()
    return home / "prefix"

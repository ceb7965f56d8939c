"""The documentation's tables are complete."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pylb
from pylb.show import plots

ROOT = Path(__file__).parents[2]


def used_variables():
    """Return the PLB_* and PYLB_* variables that a file reads, also those in named constants."""
    used = set()
    for pattern in ("setup.py", "Makefile", "pylb/**/*.py", "csrc/**/*.[ch]", "tests/**/*.py"):
        for path in ROOT.glob(pattern):
            text = path.read_text()
            used |= set(re.findall(r"(?:environ|getenv)[^\n]*?\"(PY?LB_[A-Z_]+)\"", text))
            used |= set(re.findall(r"^[A-Z_]+ = \"(PY?LB_[A-Z_]+)\"", text, re.M))
    return used


def test_every_environment_variable_is_in_the_table():
    used = used_variables()
    assert {"PYLB_ABORT_AFTER", "PLB_DEBUG", "PLB_TRACE", "PYLB_DATA"} <= used
    page = (ROOT / "docs" / "environment.md").read_text()
    table = set(re.findall(r"`(PY?LB_[A-Z_]+)[=`]", page))
    assert sorted(used - table) == []


def test_what_the_readme_prints_runs(mpiexec, tmp_path):
    """Run the README's program and its own loop on two ranks, and replay the recorded run."""
    pytest.importorskip("h5py")
    driver, own, replay = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (tmp_path / "script.py").write_text(driver.replace("iterate(200)", "iterate(20)"))
    (tmp_path / "own.py").write_text(own.replace("iterate(100)", "iterate(10)"))
    (tmp_path / "replay.py").write_text(f"import pylb\n{replay}")
    for words in (
        [*mpiexec, "-n", "2", sys.executable, "script.py"],
        [*mpiexec, "-n", "2", sys.executable, "own.py"],
        [sys.executable, "replay.py"],
    ):
        done = subprocess.run(
            words,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ},  # without the variables that MPI sets here
        )
        assert done.returncode == 0, done.stderr
        assert "max/mean" in done.stdout
    assert (tmp_path / "run.html").stat().st_size > 10_000


def test_every_plot_is_in_the_table():
    page = (ROOT / "docs" / "plots.md").read_text()
    drawn = [name for name in plots.__all__ if name.islower()]
    assert [name for name in drawn if f"`{name}(" not in page] == []


NAME = re.compile(r"(?<![\w./-])pylb(?:\.[A-Za-z]\w*)+")
OTHER = {  # these look like names of Python, but are not
    "pylb.loadBalanceOfIterations",  # a key of TALP's JSON
    "pylb.partitioner",  # names of capsules
    "pylb.reduction",
    "pylb.stop",
    "pylb.h",  # files of the C library
    "pylb.hpp",
    "pylb.pc",
    "pylb.f90",
    "pylb.mod",
}


def can_be_imported(name):
    at, parts = pylb, name.split(".")
    for k, part in enumerate(parts[1:], 2):
        if not hasattr(at, part):
            try:
                importlib.import_module(".".join(parts[:k]))
            except ImportError as error:
                return error.name == "mpi4py"  # not installed with MPI=none
        at = getattr(at, part)
    return True


def test_every_name_that_is_written_can_be_imported():
    unknown = []
    for pattern in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/**/*.md",
        "pylb/**/*.py*",
        "csrc/**/*.[ch]",
        "examples/*.py",
        "benchmarks/*.py",
        "notebooks/*.ipynb",
        "tests/**/*.py",
    ):
        for path in sorted(ROOT.glob(pattern)):
            if path.suffix != ".pyc":
                names = set(NAME.findall(path.read_text())) - OTHER
                unknown += [
                    f"{path.relative_to(ROOT)}: {n}" for n in names if not can_be_imported(n)
                ]
    assert unknown == [], "\n".join(unknown)

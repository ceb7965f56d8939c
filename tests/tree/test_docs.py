"""The documentation's tables are complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pylb.show import plots

ROOT = Path(__file__).parents[2]


def test_every_environment_variable_is_in_the_table():
    places = [ROOT / "setup.py", ROOT / "Makefile", *ROOT.glob("pylb/**/*.py")]
    places += [*ROOT.glob("csrc/base/*.c"), *ROOT.glob("tests/**/*.py")]
    used = set()
    for path in places:
        used |= set(re.findall(r"(?:environ|getenv)[^\n]*?\"(P[Y]?LB_[A-Z_]+)\"", path.read_text()))
    assert {"PYLB_ABORT_AFTER", "PLB_DEBUG", "PLB_TRACE"} <= used
    table = (ROOT / "docs" / "environment.md").read_text()
    assert [name for name in sorted(used) if f"`{name}" not in table] == []


def test_what_the_readme_prints_runs(mpiexec, tmp_path):
    """The driver on two ranks, then the replay of what it recorded."""
    pytest.importorskip("h5py")
    driver, replay = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    (tmp_path / "script.py").write_text(driver.replace("iterate(200)", "iterate(20)"))
    (tmp_path / "replay.py").write_text(f"import pylb\n{replay}")
    for words in (
        [*mpiexec, "-n", "2", sys.executable, "script.py"],
        [sys.executable, "replay.py"],
    ):
        done = subprocess.run(
            words,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ},  # without what MPI has put there, if another test has begun it here
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert (tmp_path / "run.html").stat().st_size > 10_000


def test_every_plot_is_in_the_table():
    page = (ROOT / "docs" / "looking.md").read_text()
    drawn = [name for name in plots.__all__ if name.islower()]
    assert [name for name in drawn if f"`{name}(" not in page] == []

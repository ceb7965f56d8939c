"""What the pages say can be followed: commands parse, Python compiles, links lead somewhere."""

import ast
import builtins
import hashlib
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pylb
from pylb.cli import main as cli
from pylb.show import plots

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


def blocks(page, *languages):
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text(), re.S | re.M)


def commands(text):
    """Return pylb's command lines in a shell block, or in the examples of a subcommand."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s{2,}\(.*\)$", "", line.strip().removeprefix("$ "))
        if line.startswith("pylb "):
            words = shlex.split(line, comments=True)[1:]
            yield words[: words.index(">")] if ">" in words else words


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def unbound(code):
    """Return the names that a block of Python uses without having made or imported them."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | {*dir(builtins)}
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {
        node.asname or node.name.split(".")[0] for node in nodes if isinstance(node, ast.alias)
    }
    return {node.id for node in names} - made


def test_each_program_of_the_readme_stands_alone():
    programs = blocks(ROOT / "README.md", "python")
    assert len(programs) == 3
    assert [unbound(code) for code in programs] == [set()] * 3


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_on_a_page_has_these_words(page):
    parser = cli.build_parser()
    for words in (w for block in blocks(page, "sh", "bash", "console") for w in commands(block)):
        if "--help" not in words:
            parser.parse_args(words)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_example_in_the_help_has_these_words(name):
    parser = cli.build_parser()
    found = list(commands(cli.COMMANDS[name].examples))
    assert found or name == "completion"
    for words in found:
        parser.parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_within_the_project_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = page.parent / path if path else page
        assert there.exists(), target
        if heading and there.suffix == ".md":
            titles = re.findall(r"^#+ (.*)", there.read_text(), re.M)
            assert heading in map(_anchor, titles), target


def _anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_example_is_in_the_gallery():
    """A file that says how to run it is a program; the other files are shared by programs."""
    page = (ROOT / "docs" / "gallery.md").read_text()
    found = [p for p in ROOT.glob("examples/**/*") if p.suffix in (".py", ".c", ".cpp", ".f90")]
    programs = [name_of(p) for p in found if re.search(r"mpiexec -n", p.read_text())]
    assert len(programs) > 10
    assert [name for name in programs if name not in page] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name_of)
def test_a_notebook_has_small_outputs_of_this_code(notebook):
    """`python tools/notebooks.py` stores the outputs; tests/examples compares their kinds."""
    found = json.loads(notebook.read_text())
    code = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    text = "\0".join("".join(cell["source"]) for cell in code)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found["metadata"]["pylb"]["sources"] == digest, "run tools/notebooks.py"
    said = json.dumps([cell["outputs"] for cell in code])
    assert len(said) > 1_000
    assert notebook.stat().st_size < 300_000
    assert re.findall(r"[\" '](/(?:home|root|tmp|usr|work|opt)/\S*)", said) == []


# ---- the documentation's tables are complete ---------------------------------------------------


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
            timeout=400,
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

"""What the pages say can be followed: commands parse, Python compiles, links lead somewhere."""

import ast
import builtins
import hashlib
import json
import re
import shlex
from pathlib import Path

import pytest

from pylb.cli import main as cli

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

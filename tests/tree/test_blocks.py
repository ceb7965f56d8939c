"""Every block of code on the pages runs, and every example in the help of a subcommand."""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from launch import launch
from test_pages import PAGES, ROOT, name_of

import pylb
from pylb.cli import main as cli
from pylb.errors import NotAllowedError

pytestmark = pytest.mark.slow
SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.S | re.M)
LAB = ROOT / "docs" / "lab.md"
RUN = [sys.executable, "-m", "pylb", "run", "--"]
NOT_RUN = re.compile(r"^```\S+ not-run\n(.*?)^```", re.S | re.M)


def test_python_on_the_pages(mpiexec, tmp_path):
    pytest.importorskip("scipy")
    code, out, said = launch([*RUN, *mpiexec], 2, ROOT / "tests" / "mpi" / "pages.py", tmp_path)
    assert code == 0, said
    assert out.count("done") == 2
    pages = re.findall(r"^docs/\S+\.md \d+$", out, re.M)
    assert len(pages) >= 18


@pytest.mark.lab
def test_python_on_the_page_of_labs(here, mpiexec):
    names = {"pylb": pylb}
    try:
        for block in re.findall(r"^```python\n(.*?)^```", LAB.read_text(), re.S | re.M):
            exec(block, names)  # noqa: S102
    except NotAllowedError as error:
        pytest.skip(str(error))
    assert names["code"] == 0
    assert len(names["held"]) == 2  # one number for each host


def test_few_blocks_are_not_run():
    """Only blocks that need the network or a cluster, or are tests themselves, have ``not-run``."""
    found = [block for page in PAGES for block in NOT_RUN.findall(page.read_text())]
    assert len(found) <= 8
    assert all(re.search(r"pip install|pytest|#SBATCH", block) for block in found)


# ---- the shell -------------------------------------------------------------------------------

PROGRAM = "from mpi4py import MPI; MPI.COMM_WORLD.barrier()\n"
MINE = """
import pylb


@pylb.register_strategy
def my_strategy(snapshot):
    return snapshot.rank
"""
SQUARE = "4 4\n2 3\n1 4\n1 4\n2 3\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the files that the pages and the help texts use."""
    pytest.importorskip("h5py")
    folder = tmp_path_factory.mktemp("files")
    pylb.demo.run(4, 32, 24, save=folder / "run.h5")
    pylb.Trace.load(folder / "run.h5").save(folder / "run")
    pylb.demo.run(4, 32, 24, every=8, save=folder / "other.h5")
    (folder / "mine.py").write_text(MINE)
    (folder / "prog.py").write_text(PROGRAM if find_spec("mpi4py") else "")
    (folder / "serial.py").write_text("print(sum(range(1000)))\n")
    for name in ("4elt.graph", "mesh.graph"):
        (folder / name).write_text(SQUARE)
    (folder / "mesh.part").write_text("0\n0\n1\n1\n")
    (folder / "ibm01.hgr").write_text("2 4\n1 2\n2 3 4\n")
    np.save(folder / "points.npy", np.random.default_rng(1).random((64, 3)))
    shutil.copy(ROOT / "examples" / "caps.yaml", folder)
    (folder / "steer.yaml").write_text("interval: 1s\n")
    for name in ("examples", "csrc", "tests"):
        (folder / name).symlink_to(ROOT / name)
    if shutil.which("mpicc"):
        program = ROOT / "tests" / "recorded" / "stencil.c"
        subprocess.run(["mpicc", "-o", folder / "a.out", program, "-lm"], check=True)
    return folder


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """Return a new folder with these files."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    share = ".local/share/bash-completion"
    for folder in (".zfunc", ".config/fish/completions", f"{share}/completions"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def recording(folder):
    """Make `run` a recording of MPI operations, instead of a folder of vt's files."""
    shutil.rmtree(folder / "run")
    shutil.copy(ROOT / "notebooks" / "spa.h5", folder / "run")


def commands(text):
    """Return the commands of a block, without explanations; continued lines are joined."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s{2,}\(.*\)$", "", line.strip())
        if line and not line.startswith("#"):
            yield line


def interrupted(words):
    """Run the command, and send Ctrl-C after half a second; the command must end at once."""
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        assert cli.main(words) in (0, 130)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)


done = set()


def follow(lines, capfd):
    """Run commands one after the other: those of pylb in this process, others in a shell."""
    # a command of pylb can run in this process
    for own, group in itertools.groupby(lines, lambda line: line.startswith("pylb ")):
        if not own:
            script = ["bash", "-ec", "\n".join(group)]
            shell = subprocess.run(script, capture_output=True, text=True)
            assert shell.returncode == 0, shell.stderr
            continue
        for line in group:
            line, _, output = line.replace("--sweeps 300", "--sweeps 9").partition(" > ")
            words = shlex.split(line, comments=True)[1:]
            if words[0] in ("lab", "record") and tuple(words) in done:
                continue  # these commands take seconds
            done.add(tuple(words))
            if words[0] == "demo" and "--iterations" not in words:
                words += ["--iterations", "20"]  # the default takes seconds
            if words[0] == "watch" and "--once" not in words:
                interrupted(words)
                continue
            code, (out, said) = cli.main(words), capfd.readouterr()
            if code == 2 and words[0] in ("lab", "record", "steer"):
                pytest.skip(said)  # the command is not permitted here, or its part is not built
            if words[0] == "steer" and code == 1:
                assert "too early" in said  # the program here is short
                continue
            assert code == 0, f"{line}\n{said}"
            if output:
                Path(output).expanduser().write_text(out)


def case(name, text, *values):
    """Return the parameters of a test; "lab" is in the name of one that runs a lab."""
    lab = "pylb lab" in text
    return pytest.param(*values, id=name + " lab" * lab, marks=pytest.mark.lab if lab else ())


BLOCKS = [
    case(f"{name_of(page)}:{k}", block, page, block)
    for page in PAGES
    if page.name != "c.md"  # tests/examples/test_own_loop.py
    for k, block in enumerate(SHELL.findall(page.read_text()))
]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_shell_on_the_pages(page, block, here, mpiexec, capfd):
    if page.stem == "whatif":
        recording(here)
    follow(commands(block), capfd)


HELP = [case(name, c.examples, name) for name, c in cli.COMMANDS.items()]


@pytest.mark.parametrize("name", HELP)
def test_examples_of_the_help(name, here, mpiexec, capfd):
    if name in ("whatif", "procedures", "record"):
        recording(here)
    if name == "experience":
        list(pylb.Balancer(experience="app.pylb").iterate(9))
    lines = [s for s in cli.COMMANDS[name].examples.splitlines() if s.startswith("  ")]
    follow(commands("\n".join(lines)), capfd)

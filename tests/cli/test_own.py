"""The user's own functions on the command line: `--import`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pylb
from pylb.cli import main as cli
from pylb.cli import own

MINE = """
'''A module of strategies.'''
import sys
import numpy as np
import pylb
sys.path.insert(0, ".")

def stay(snapshot):
    return snapshot.rank

@pylb.strategy(name="registered")
def other(snapshot):
    return np.zeros(snapshot.n_objects, int)

def often(cycle):
    return True

if __name__ == "__main__":
    open("ran", "w")
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Make a run in the current folder."""
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    pylb.demo.run(2, 8, 12, save="run.h5", every=4)


def answer(capsys, *words):
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_functions_of_a_module_are_strategies_and_triggers(capsys):
    Path("mine.py").write_text(MINE)
    words = ["run.h5", "--import", "mine.py", "--strategy", "stay,registered,GreedyLB"]
    rows = answer(capsys, "replay", *words, "--trigger", "often")["rows"]
    assert [row["strategy"] for row in rows] == ["stay", "registered", "GreedyLB"]
    assert [row["migrations"] for row in rows[:1]] == [0]
    assert all(row["balancings"] > 5 for row in rows)
    one = ["--import", "mine.py", "--strategy", "stay", "--cost", "0.001"]
    assert answer(capsys, "optimum", "run.h5", *one)["strategy"] == "stay"
    assert answer(capsys, "triggers", "run.h5", *one, "--trigger", "often")["rows"]
    assert answer(capsys, "report", "run.h5", *one[:4])["Application"]
    assert not Path("ran").exists()


BOUND = {
    "f: Callable = lambda s: s.rank": True,
    "if sys:\n    f = lambda s: s.rank\nelse:\n    pass": True,
    "if not sys:\n    pass\nelif sys:\n    def f(s): return s.rank": True,
    "try:\n    import absent_package\nexcept ImportError:\n    f = lambda s: s.rank": True,
    "try:\n    pass\nfinally:\n    def f(s): return s.rank": True,
    "f: Callable": False,
    "if __name__ == '__main__':\n    f = lambda s: s.rank": False,
}


@pytest.mark.parametrize("text", BOUND)
def test_names_are_found_where_python_binds_them(text):
    Path("mine.py").write_text(f"import sys\nfrom typing import Callable\n{text}\n")
    assert ("f" in own.names_of(Path("mine.py"))) == BOUND[text]
    if BOUND[text]:
        words = ["replay", "run.h5", "--import", "mine.py", "--strategy", "f"]
        assert cli.main(words) == 0


def test_a_note_says_that_a_file_is_executed(capsys):
    Path("mine.py").write_text(MINE)
    cli.main(["replay", "run.h5", "--import", "mine.py", "--strategy", "stay"])
    assert "pylb: executing mine.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("open('ran', 'w')\ndef f(s): return s.rank", "line 1"),
        ("for i in range(3): open('ran', 'w')\ndef f(s): return s.rank", "line 1"),
        ("with open('ran', 'w'): pass\ndef f(s): return s.rank", "__main__"),
        ("import pylb\ndef f(s): return s.rank\npylb.demo.run()", "line 3"),
        ("def f(s): return s.rank\nif True:\n    open('ran', 'w')", "line 3"),
        ("def f(s): return s.rank\ntry:\n    while 1: pass\nfinally: pass", "line 3"),
        ("from mpi4py import MPI\ndef f(s): return s.rank", "would start MPI"),
        ("import mpi4py.MPI as M\ndef f(s): return s.rank", "would start MPI"),
        ("from mpi4py.MPI import COMM_WORLD\ndef f(s): return s.rank", "would start MPI"),
        ("def g(s): return s.rank", "no strategy 'f'"),
        ("def f(s: return", "not a Python module"),
        ("x = 1 / 0\ndef f(s): return s.rank", "raised ZeroDivisionError"),
        ("import sys\nx = sys.exit(0)\ndef f(s): return s.rank", "raised SystemExit: 0"),
    ],
)
def test_a_file_that_would_do_more_than_define_is_refused(capsys, text, said):
    Path("mine.py").write_text(text + "\n")
    before = {path.name for path in Path().iterdir()}
    assert cli.main(["replay", "run.h5", "--import", "mine.py", "--strategy", "f"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.splitlines()[-1].startswith("pylb: ")
    assert {path.name for path in Path().iterdir()} - {"__pycache__"} == before


def test_a_module_that_it_imports_may_not_start_mpi_either():
    """This test starts a new process, because its own may have started MPI."""
    pytest.importorskip("mpi4py")
    Path("mine.py").write_text("import another\ndef f(s): return s.rank\n")
    Path("another.py").write_text("from mpi4py import MPI\n")
    words = ["replay", "run.h5", "--import", "mine.py", "--strategy", "f"]
    done = subprocess.run([sys.executable, "-m", "pylb", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mine.py raised" in done.stderr
    assert "mpi4py.MPI" in done.stderr


def test_a_name_that_is_unknown_keeps_the_file_from_being_executed(capsys):
    Path("mine.py").write_text(MINE)
    words = ["--import", "mine.py", "--strategy", "stay", "--trigger", "menno"]
    assert cli.main(["replay", "run.h5", *words]) == 2
    err = capsys.readouterr().err
    assert "did you mean menon?" in err
    assert "executing" not in err

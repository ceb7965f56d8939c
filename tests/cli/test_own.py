"""The user's own functions on the command line: `--import`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pylb
from pylb.cli import main as cli

MINE = """
'''A module of strategies.'''
import sys
import numpy as np
import pylb
sys.path.insert(0, ".")

def stay(snapshot):
    return snapshot.rank

@pylb.register_strategy(name="registered")
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
    assert all(row["n_lb_steps"] > 5 for row in rows)
    one = ["--import", "mine.py", "--strategy", "stay", "--cost", "0.001"]
    assert answer(capsys, "optimum", "run.h5", *one)["strategy"] == "stay"
    assert answer(capsys, "triggers", "run.h5", *one, "--trigger", "often")["rows"]
    assert answer(capsys, "report", "run.h5", *one[:4])["Application"]
    assert not Path("ran").exists()


def test_a_module_is_found_by_its_name_and_a_file_is_named(capsys):
    Path("mine.py").write_text(MINE)
    cli.main(["replay", "run.h5", "--import", "mine.py", "--strategy", "stay"])
    assert "pylb: executing mine.py" in capsys.readouterr().err
    rows = answer(capsys, "replay", "run.h5", "--import", "mine", "--strategy", "stay")["rows"]
    assert [row["strategy"] for row in rows] == ["stay"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def g(s): return s.rank", "no strategy 'f'"),
        ("def f(s: return", "raised SyntaxError"),
        ("x = 1 / 0\ndef f(s): return s.rank", "raised ZeroDivisionError"),
        ("import sys\nx = sys.exit(0)\ndef f(s): return s.rank", "raised SystemExit: 0"),
    ],
)
def test_a_module_that_fails_is_one_line_and_code_2(capsys, text, said):
    Path("mine.py").write_text(text + "\n")
    assert cli.main(["replay", "run.h5", "--import", "mine.py", "--strategy", "f"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.splitlines()[-1].startswith("pylb: ")


def test_a_module_that_imports_mpi_does_not_start_it():
    """This test starts a new process, because its own may have started MPI."""
    pytest.importorskip("mpi4py")
    text = "from mpi4py import MPI\ndef f(s): return s.rank\nassert not MPI.Is_initialized()\n"
    Path("mine.py").write_text(text)
    words = ["replay", "run.h5", "--import", "mine.py", "--strategy", "f"]
    done = subprocess.run([sys.executable, "-m", "pylb", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

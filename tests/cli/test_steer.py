"""`pylb steer`: programs that redistribute on a file, on a signal or at restart; bad input."""

import json
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from launch import PYLB

from pylb.cli import main as cli

ROOT = Path(__file__).parents[2]
STEER = ROOT / "examples" / "steer"
SCHEMA = json.loads((ROOT / "docs" / "command_line.schema.json").read_text())
pytestmark = pytest.mark.skipif(
    find_spec("pylb._pmpi") is None or find_spec("mpi4py") is None, reason="built without MPI"
)


@pytest.fixture
def steered(mpiexec, tmp_path):
    """Run a program by `pylb steer`; return its exit code, what was printed, and the summary."""
    from jsonschema import validate  # importing it takes seconds

    code = (STEER / "code.py").read_text().replace("200 if", "80 if").replace("else 20", "else 8")
    (tmp_path / "code.py").write_text(code)  # shorter steps, and shorter intervals

    def run(plan, *words, steps=200):
        plan = plan.replace("mpiexec -n", f"{shlex.join(mpiexec)} -n")
        (tmp_path / "steer.yaml").write_text(plan.replace("python", sys.executable))
        command = [sys.executable, "-m", "pylb", "steer", "steer.yaml", "--json", "told.json"]
        words = words or (sys.executable, "code.py", "--steps", str(steps))
        experience = {"PYLB_EXPERIENCE": str(tmp_path / "app.pylb")}
        done = subprocess.run(
            [*command, "--", *mpiexec, "-n", "2", *words],
            capture_output=True,
            text=True,
            timeout=400,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(PYLB), **experience},
        )
        told = json.loads((tmp_path / "told.json").read_text())
        validate(told, SCHEMA)
        return done.returncode, done.stdout, done.stderr, told

    return run


@pytest.mark.slow
@pytest.mark.parametrize("way", ["file", "signal", "restart"])
def test_a_program_is_balanced(steered, tmp_path, way):
    plan = (STEER / f"{way}.yaml").read_text().replace("interval: 1s", "interval: 0.05s")
    plan = plan.replace("cost: 1s", "")  # more than can be saved in this short run
    code, out, said, told = steered(plan.replace("--restart", "--restart --steps 300"), steps=300)
    assert code == 0, said
    assert "300 steps" in out
    assert out.count("ranges begin") >= told["n_lb_steps"] >= 1
    assert told["saved"]  # a number of seconds; on busy cores it may be negative
    assert "LB step" in said
    assert "code.py --steps 300, steer, 2 ranks" in (tmp_path / "app.pylb").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("redistribute: exit 3", "'exit 3' has failed with exit code 3; no more LB steps"),
        ("{redistribute: sleep 60, limit: 0.05s}", "took longer than 50 ms; no more LB steps"),
        ("stop: exit 4", "stop: 'exit 4' has failed with exit code 4; no more LB steps"),
        ("{stop: 'true', limit: 0.05s}", "the program has not ended 50 ms after stop"),
        (
            "{stop: touch STOP, start: mpiexec -n 1 python code.py --restart --steps 80}",
            "the program has 1 ranks after its restart, 2 before",
        ),
        ("", "which balancing would have saved"),
    ],
)
def test_a_program_that_is_not_balanced_ends_as_usual(steered, plan, expected):
    more = "interval: 0.05s"
    given = f"{plan[:-1]}, {more}}}" if plan.startswith("{") else f"{plan}\n{more}"
    code, out, said, told = steered(given)
    assert code == 0, said
    assert " steps\n" in out
    assert expected in said
    assert told["exit_code"] == 0


def test_programs_that_are_not_measured(steered):
    code, _, said, told = steered("", sys.executable, "-c", "import sys; sys.exit(7)")
    assert code == 7
    assert "no interval was measured: the program has ended too early" in said
    assert told["iterations"] == 0


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("redistribut: x", "key 'redistribut' is unknown"),
        ("redistribute: 3", "redistribute is 3"),
        ("interval: 0", "interval is 0"),
        ("interval: fast", "interval is 'fast': expected a time"),
        ("{waits: no, redistribute: x}", "waits is no: expected cost"),
        ("start: x", "start or stopped is given without stop"),
        ("{stop: x, stopped: 300}", "stopped is 300"),
        ("[", "not YAML"),
    ],
)
def test_bad_plans(tmp_path, capfd, plan, expected):
    (tmp_path / "steer.yaml").write_text(plan)
    assert cli.main(["steer", str(tmp_path / "steer.yaml"), "--", "true"]) == 2
    assert expected in capfd.readouterr().err


@pytest.mark.slow
def test_a_program_that_is_at_its_end_is_started_only_once_more(steered):
    """It is stopped once; started again, it ends at once, with the exit code of a stop."""
    plan = "interval: 0.05s\nstop: touch STOP\nstart: python -c pass\n"
    code, out, said, told = steered(plan, steps=2000)  # enough, also where it waits for cores
    assert code == 0, said
    assert "2000 steps" not in out
    assert told["iterations"] >= 1

"""What all subcommands have in common: JSON, nothing but data on standard output, exit codes."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import pylb
from pylb.cli import main as cli

ROOT = Path(__file__).parents[2]
RECORDING = str(ROOT / "notebooks" / "spa.h5")
SCHEMA = json.loads((ROOT / "docs" / "command_line.schema.json").read_text())
SQUARE = "4 4\n2 3\n1 4\n1 4\n2 3\n"

# For each subcommand that prints JSON: a correct call.
GOOD = {
    "info": [],
    "demo": ["--ranks", "2", "--objects", "8", "--iterations", "6", "--every", "3"],
    "replay": ["run.h5", "--strategy", "GreedyLB,none", "--every", "3"],
    "triggers": ["run.h5", "--cost", "0.001"],
    "experience": ["app.pylb"],
    "optimum": ["run.h5", "--cost", "0.001"],
    "report": ["run.h5", "--csv", "tables", "--chrome", "run.json"],
    "watch": ["run.h5", "--once"],
    "compare": ["run.h5", "run.h5"],
    "strategies": [],
    "convert": ["run.h5", "vt", "--to", "vt"],
    "partition": ["square.graph", "--method", "pylb"],
    "whatif": [RECORDING, "--place", "0,0,1,1"],
    "procedures": [RECORDING],
}
SHELLS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


@pytest.fixture(autouse=True)
def here(tmp_path_factory, tmp_path, monkeypatch):
    """Make a run and a graph in the current folder."""
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    pylb.demo.run(2, 8, 12, save=tmp_path / "run.h5", every=4)
    Path("square.graph").write_text(SQUARE)
    lb = pylb.Advisor(experience="app.pylb")
    for _ in lb.iterate(3):
        lb.advise(seconds=1.0)


def validate(told):
    from jsonschema import validate  # importing it takes seconds

    validate(told, SCHEMA)


def test_every_subcommand_is_tried():
    assert GOOD.keys() | {"lab", "run", "steer", "record", "completion"} == set(cli.COMMANDS)


@pytest.mark.parametrize("name", GOOD)
def test_json_is_all_that_is_printed_and_a_key_means_the_same_everywhere(name, capfd):
    assert cli.main([name, *GOOD[name], "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    if name == "report":
        assert told["Application"]["Global"]  # TALP's keys
    else:
        assert (told["pylb"], told["command"]) == (pylb.__version__, name)
        validate(told)


@pytest.mark.lab
def test_a_lab_writes_as_json_what_was_used(capfd):
    if cli.main(["lab", "--share", "0.5", "--json", "used.json", "--", "echo", "hello"]) == 2:
        pytest.skip(capfd.readouterr().err)
    assert capfd.readouterr().out == "hello\n"  # printed by the started command
    told = json.loads(Path("used.json").read_text())
    validate(told)
    assert told["exit_code"] == 0
    (rank,) = told["ranks"]
    assert rank["share"] == 0.5
    assert rank["cpu_seconds"] >= 0


def test_a_recording_writes_as_json_what_it_has(mpiexec, capfd):
    program = "from mpi4py import MPI; MPI.COMM_WORLD.rank or print('hello')"
    words = ["--", *mpiexec, "-n", "2", sys.executable, "-c", program]
    if cli.main(["record", "-o", "ops", "--json", "told.json", *words]) == 2:
        pytest.skip(capfd.readouterr().err)
    assert capfd.readouterr().out == "hello\n"
    told = json.loads(Path("told.json").read_text())
    validate(told)
    assert (told["n_ranks"], told["exit_code"], told["written"]) == (2, 0, "ops")
    assert told["operations"] == pylb.Recording.load("ops").n_ops


@pytest.mark.skipif(find_spec("shtab") is None, reason="no shtab")
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_a_script_of_that_shell(shell, capfd):
    assert cli.main(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert all(name in script for name in cli.COMMANDS)
    if shutil.which(SHELLS[shell][0]):
        subprocess.run(SHELLS[shell], input=script, text=True, check=True)


@pytest.mark.skipif(find_spec("shtab") is None, reason="no shtab")
def test_bash_completes_subcommands_and_their_words(capfd):
    cli.main(["completion", "bash"])
    asked = """
COMP_WORDS=({words}); COMP_CWORD={last}; _shtab_pylb; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    script = capfd.readouterr().out
    for words, expected in [
        ("pylb re", {"replay", "report", "record"}),
        ("pylb replay --str", {"--strategy"}),
        ("pylb replay --strategy auto,RefineS", {"auto,RefineSwapLB"}),
        ("pylb triggers --trigger zh", {"zhai"}),
    ]:
        given = script + asked.format(words=words, last=len(words.split()) - 1)
        how = {"capture_output": True, "text": True, "check": True}
        assert set(subprocess.run(["bash"], input=given, **how).stdout.split()) == expected

"""The command line in general, its tables, and ``pylb info``."""

import io
import json
import os
import re
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb import console, optional
from pylb.cli import common
from pylb.cli import main as cli
from pylb.errors import MissingPartError


def pylb_command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "pylb", *words], capture_output=True, text=True, **options
    )


def test_version():
    done = pylb_command("--version")
    assert (done.returncode, done.stdout) == (0, f"pylb {pylb.__version__}\n")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_names_every_command_and_shows_examples(name, capsys):
    command = cli.COMMANDS[name]
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--help"])
    assert leaving.value.code == 0
    assert command.help in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    shown = capsys.readouterr().out
    assert f"  pylb {name}" in shown
    assert all(line in shown for line in command.examples.splitlines())


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["info", "--no-such-option"]])
def test_wrong_usage_is_exit_code_2_with_nothing_on_stdout(words):
    done = pylb_command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pylb: ")
    assert done.stderr.count("\n") == 1
    assert "--help)" in done.stderr


def raising(error):
    def run(args):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (pylb.errors.DomainError("rank is -1"), 2, "pylb: rank is -1\n"),
        (FileNotFoundError(2, "No such file", "x"), 2, "pylb: x: No such file\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_one_line_and_an_exit_code(error, code, said, monkeypatch, capsys):
    monkeypatch.setitem(cli.COMMANDS, "info", cli.COMMANDS["info"]._replace(run=raising(error)))
    assert cli.main(["info"]) == code
    assert capsys.readouterr() == ("", said)


def test_a_reader_that_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        words = [sys.executable, "-m", "pylb", "info", "--json"]
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["triggers", "completion bash"])
def test_closed_streams_are_no_error(closed, words):
    line = f"{sys.executable} -m pylb {words} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")


def test_characters_that_a_stream_cannot_encode_are_escaped(capfd, monkeypatch):
    odd = cli.COMMANDS["info"]._replace(run=lambda args: print("3 µs, \udcff.h5") or 0)
    monkeypatch.setitem(cli.COMMANDS, "info", odd)
    with os.fdopen(os.dup(1), "w", encoding="ascii") as ascii_only:
        monkeypatch.setattr(sys, "stdout", ascii_only)
        assert cli.main(["info"]) == 0
        monkeypatch.undo()
    assert capfd.readouterr().out == "3 \\xb5s, \\udcff.h5\n"


def shown(*args, **options):
    out = io.StringIO()
    console.show(*args, file=out, **options)
    return out.getvalue()


def test_plain_table_aligns_numbers_right_and_text_left():
    rows = [("GreedyLB", 1.23456789, 7, "12,000"), ("none", None, np.int64(100), "5%")]
    assert shown(["strategy", "ratio", "moved", "bytes"], rows, title="A run") == (
        "A run\n"
        "strategy  ratio  moved   bytes\n"
        "--------  -----  -----  ------\n"
        "GreedyLB  1.235      7  12,000\n"
        "none               100      5%\n"
    )


def test_plain_table_without_rows_or_head():
    assert shown(["a", "bc"], []) == "a  bc\n-  --\n"
    assert shown(["a"], [(None,)], title="none", drop_empty=True) == "none\n"
    assert shown(["", ""], [("x", True), ("long", "y")]) == "x     True\nlong  y\n"


def test_table_with_a_row_of_wrong_length_is_an_error():
    with pytest.raises(ValueError, match="2 cells"):
        shown(["a", "b"], [(1, 2), (1,)])


def test_info_json_lists_what_is_installed():
    done = pylb_command("info", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["version"] == pylb.__version__
    assert found["numpy"] == np.__version__
    assert [p["name"] for p in found["parts"]] == list(optional.PARTS)
    commands = [p["command"] for p in found["parts"]]
    assert all(one.startswith(("pip install ", "apt-get install ")) for one in commands)
    if found["mpi"]["pylb"] and found["mpi"]["mpi4py"]:
        assert found["mpi"]["agree"] is True


def test_info_shows_the_command_of_a_missing_part_only(monkeypatch, capsys, with_mpi):
    def part(name, find):
        made = optional.OptionalPart(name, "nothing", name.lower())
        object.__setattr__(made, "find", find)
        return name, made

    def absent():
        raise ModuleNotFoundError("No module named 'absent'")

    def broken():
        raise ImportError("libx.so: no such file")

    def without_mpi4py():
        raise ModuleNotFoundError("No module named 'mpi4py'", name="mpi4py")

    table = dict([part("Zoltan", without_mpi4py)])
    monkeypatch.setattr("pylb.cli.installed.PARTS", table)
    assert cli.main(["info"]) == 0
    shown = capsys.readouterr().out
    assert "needs mpi4py" in shown
    assert optional.PARTS["mpi4py"].command in shown.split("to install Zoltan:")[1]

    table = dict([part("Absent", absent), part("Broken", broken), part("There", lambda: "1.2")])
    monkeypatch.setattr("pylb.cli.installed.PARTS", table)
    assert cli.main(["info"]) == 0
    table, *hints = capsys.readouterr().out.split("\nto install ")
    absent, broken, there = (line.split() for line in table.splitlines()[-3:])
    assert absent == ["Absent", "missing", "nothing"]
    assert broken == [*"Broken libx.so: no such file nothing".split()]
    assert there == ["There", "1.2", "nothing"]
    said = [f"{name}: pip install {name}".split() for name in ("Absent", "Broken")]
    assert [hint.split() for hint in hints] == said


def test_require_imports_or_names_the_command(monkeypatch):
    part = optional.OptionalPart("Absent", "nothing", "pylb_no_such_module")
    monkeypatch.setitem(optional.PARTS, "Absent", part)
    with pytest.raises(MissingPartError, match=r"Absent is missing.*nothing: pip install Absent"):
        optional.require("Absent")
    there = optional.OptionalPart("There", "nothing", "json")
    monkeypatch.setitem(optional.PARTS, "There", there)
    assert optional.require("There") is json


# ---- a wheel has the part for MPI once for each ABI --------------------------------------------


@pytest.mark.parametrize(
    ("needed", "abi"),
    [("libmpi.so.40", "openmpi"), ("libmpi.so.12", "mpich"), ("libmpi_abi.so.1", None)],
)
def test_a_wheel_takes_the_part_of_the_mpi_that_mpi4py_runs_on(tmp_path, monkeypatch, needed, abi):
    suffix = EXTENSION_SUFFIXES[0]
    for folder in ("_openmpi", "_mpich"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"_mpi{suffix}").touch()
    theirs = tmp_path / f"MPI.any{suffix}"
    theirs.write_bytes(b"\x7fELF \0" + needed.encode() + b"\0")
    monkeypatch.setattr(optional, "HERE", tmp_path)
    spec = spec_from_file_location("mpi4py.MPI", theirs)
    monkeypatch.setattr(optional.importlib.util, "find_spec", lambda name: spec)
    found = optional.VariantFinder.find_spec("pylb._mpi")
    expected = None if abi is None else str(tmp_path / f"_{abi}" / f"_mpi{suffix}")
    assert (found and found.origin) == expected
    assert optional.VariantFinder.find_spec("pylb._core") is None
    assert optional.VariantFinder.find_spec("other._mpi") is None


@pytest.mark.parametrize(
    ("loaded", "abi"), [([], None), (["/usr/lib/libmpich.so.12.2.1"], "mpich")]
)
def test_without_mpi4py_a_wheel_takes_the_part_of_the_programs_mpi(monkeypatch, loaded, abi):
    def no_library(name):
        raise RuntimeError("cannot load MPI library")  # mpi4py raises this without an MPI library

    monkeypatch.setattr(optional.importlib.util, "find_spec", no_library)
    monkeypatch.setattr(optional, "_mpi_libraries", lambda: loaded)
    assert optional.mpi_abi() == abi


# ---- hints how to install a part ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "python", "built"),
    [
        (None, "'ours[io]'", "--no-binary ours ours"),
        ({"url": "file:///x/ours.whl", "archive_info": {}}, "'ours[io]'", "--no-binary ours ours"),
        ({"url": "file:///a%20b", "dir_info": {}}, "'ours[io]'", "--no-cache-dir '/a b'"),
        (
            {"url": "file:///src", "dir_info": {"editable": True}},
            "-e '/src[io]'",
            "--no-cache-dir -e /src",
        ),
    ],
    ids=["index", "wheel", "folder", "editable"],
)
def test_a_hint_follows_how_pylb_was_installed(tmp_path, monkeypatch, origin, python, built):
    distribution(tmp_path, "ours", "pylb.cli.main:main", origin)
    distribution(tmp_path, "aaa_stranger", "other:main", None)  # another project called pylb
    only_installed(monkeypatch, tmp_path)
    assert optional.PARTS["h5py"].command == f"pip install {python}"
    assert optional.PARTS["pandas"].command == "pip install pandas"
    assert optional.PARTS["METIS"].command.endswith(built)


def test_a_hint_where_pip_has_not_installed_pylb(tmp_path, monkeypatch):
    only_installed(monkeypatch, tmp_path)
    assert optional.PARTS["h5py"].command == "pip install h5py"
    assert optional.PARTS["METIS"].command.endswith(f"pip install {Path(pylb.__file__).parents[1]}")


def distribution(folder, name, command, origin):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\npylb = {command}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))


def only_installed(monkeypatch, folder):
    monkeypatch.setattr(sys, "path", [str(folder)])
    optional.installed.cache_clear()
    monkeypatch.setattr(optional, "installed", optional.installed.__wrapped__)


def test_pages_name_the_distribution_of_pyproject():
    """PyPI's `pylb` is another project: no page, help or error may tell people to install it."""
    root = Path(__file__).parents[2]
    name = re.search(r'^name = "(.*)"', (root / "pyproject.toml").read_text(), re.M)[1]
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("pylb/**/*.py")]
    said = re.compile(r"pip install[^\n`]*?[ '\"]([\w.-]+)\[\w|pip install (pylb[\w-]*)")
    for page in [*pages, *root.glob("notebooks/*.ipynb")]:
        names = {a or b for a, b in said.findall(page.read_text())}
        assert names <= {".", name}, page


# ---- widths, footnotes, progress ---------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


LONG = "a sentence of many words that is far too long for one line of a narrow terminal"


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_fits_and_no_word_is_broken(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = shown(["name", "what", "n"], [("first", LONG, 1), ("second", LONG, 22)])
    assert max(map(len, text.splitlines())) <= width
    assert set(LONG.split()) <= set(text.split())


def test_a_narrow_terminal_leaves_out_the_least_important_columns_and_says_so(monkeypatch):
    monkeypatch.setenv("COLUMNS", "28")
    out, columns = Terminal(), ["strategy", console.Column("seconds", note="of the run")]
    columns += [console.Column("migrations", drop=2), console.Column("bytes", None, "moved", 1)]
    row = ("GreedyLB", 1.5, 1000, 100000)
    console.show(columns, [row], file=out)
    head, _, body, *foot = out.getvalue().splitlines()
    assert head.split() == ["strategy", "seconds"]
    assert body.split() == ["GreedyLB", "1.5"]
    foot = " ".join(foot)
    assert foot == "seconds: of the run; not shown in this width: bytes, migrations"
    assert "migrations" in shown(columns, [row])  # a pipe gets all columns


def test_a_long_command_says_on_a_terminal_what_it_does(monkeypatch):
    pytest.importorskip("rich")
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with common.progress("replaying") as say:
        say("with GreedyLB")
    assert "pylb: replaying with GreedyLB" in out.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with common.progress("replaying") as say:
        say("with GreedyLB")
    assert sys.stderr.getvalue() == ""

"""``pylb partition`` and its files."""

import json

import numpy as np
import pytest

import pylb
from pylb.cli.main import main
from pylb.errors import FormatError
from pylb.partitioning import files

REAL = "%%MatrixMarket matrix coordinate real general\n"
SQUARE = "% a square of four\n4 4\n2 3\n1 4\n1 4\n2 3\n"


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_a_graph_on_the_command_line(tmp_path, capsys):
    path = write(tmp_path, "square.graph", SQUARE)
    out = tmp_path / "parts.txt"
    assert main(["partition", str(path), "--method", "pylb", "--json", "--out", str(out)]) == 0
    [said] = json.loads(capsys.readouterr().out)["rows"]
    assert sorted(said["part"]) == [0, 0, 1, 1]
    assert said["evaluation"]["cut"] == 2.0
    assert files.read_parts(out).tolist() == said["part"]
    assert main(["partition", str(path), "--method", "keep,pylb", "--old", str(out)]) == 0
    assert "4 objects in 2 parts" in capsys.readouterr().out


def test_metis_weights_and_sizes(tmp_path):
    text = "3 2 111 2\n5 1 2  2 7\n6 3 4  1 7 3 8\n7 5 6  2 8\n"
    given = files.read(write(tmp_path, "w.graph", text))
    expected = [[0, 1, 3, 4], [1, 0, 2, 1], [7, 7, 8, 8]]
    assert [part.tolist() for part in given["graph"]] == expected
    assert given["weight"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert given["nbytes"].tolist() == [5, 6, 7]


def test_hmetis(tmp_path):
    given = files.read(write(tmp_path, "h.hgr", "2 4 11\n3 1 2\n4 2 3 4\n1\n2\n3\n4\n"))
    start, pin, weight = given["nets"]
    assert (start.tolist(), pin.tolist(), weight.tolist()) == ([0, 2, 5], [0, 1, 1, 2, 3], [3, 4])
    assert given["weight"].tolist() == [1, 2, 3, 4]
    given = files.read(write(tmp_path, "p.hgr", "1 5\n1 2\n"))  # vertices without nets
    assert len(pylb.partition(method="pylb", parts=2, **given).part) == 5


def test_matrix_market(tmp_path):
    head = "%%MatrixMarket matrix coordinate pattern "
    given = files.read(write(tmp_path, "s.mtx", head + "symmetric\n% no\n3 3 3\n1 1\n2 1\n3 2\n"))
    assert [x.tolist() for x in given["graph"]] == [[0, 1, 3, 4], [1, 0, 2, 1]]
    head = head.replace("pattern", "real")
    given = files.read(write(tmp_path, "r.mtx", head + "general\n2 3 3\n1 1 5e0\n1 3 1\n2 2 1\n"))
    assert [x.tolist() for x in given["nets"]] == [[0, 2, 3], [0, 2, 1]]


def test_numpy_files(tmp_path):
    np.save(tmp_path / "xyz.npy", np.zeros((3, 2)))
    assert files.read(tmp_path / "xyz.npy")["coords"].shape == (3, 2)
    np.savez(tmp_path / "g.npz", start=[0, 1, 2], to=[1, 0], weight=[1, 2])
    given = files.read(tmp_path / "g.npz")
    assert [x.tolist() for x in given["graph"]] == [[0, 1, 2], [1, 0]]
    assert given["weight"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.graph", "", "expected a first line of two numbers"),
        ("a.graph", "2 1\n2\n", "1 lines after the first: expected 2"),
        ("a.graph", "2 1\n2\nx\n", "line 3: .*expected integers"),
        ("a.graph", "2 5\n2\n1\n", "1 edges: expected 5"),
        ("a.graph", "2 1 002\n2\n1\n", "format 002"),
        ("a.graph", "2 1 010 -1\n2\n1\n", "-1 weights per vertex"),
        ("a.hgr", "1 2 7\n1 2\n", "format 7"),
        ("a.mtx", "hello\n", "expected %%MatrixMarket"),
        ("a.mtx", f"{REAL}2 2 1\n3 1 1\n", "outside the 2 x 2 matrix"),
        ("a.hgr", "1 2 1\n\n", "line 2: expected a weight"),
        ("a.hgr", "1 2 10\n1 2\n3\n\n", "line 4: expected a weight"),
        ("a.hgr", "1 2 10\n1 2\n3\n", "2 lines after the first: expected 3"),
        ("a.hgr", "0 99999999999999\n", "a.hgr: .*99999999999999 objects"),
        ("a.graph", "2 1 001\n2\n1\n", "edges: expected 1"),
        ("a.graph", "2 1 010 2\n1 1 2\n1\n", "vertex 2 has 1 numbers"),
        ("a.graph", "-2 1\n", "expected -2"),
        ("a.mtx", f"{REAL}2 2\n", "a.mtx: "),
        ("a.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n", "coordinate"),
        ("a.npy", "", "a.npy: "),
        ("a.npz", "PK\x03\x04 no archive", "a.npz: "),
        ("a.npz", "", "a.npz: "),
        ("a.npy", "no", "a.npy"),
        ("a.txt", "", "expected .graph"),
    ],
)
def test_broken_files_are_named(tmp_path, capsys, name, text, said):
    path = write(tmp_path, name, text)
    with pytest.raises(FormatError, match=said):
        files.read(path)
    assert main(["partition", str(path)]) == 2
    assert "pylb: " in capsys.readouterr().err


def test_a_missing_file(capsys):
    assert main(["partition", "/nowhere.graph"]) == 2
    assert "no such file" in capsys.readouterr().err

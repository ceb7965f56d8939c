"""A command never writes over what it reads."""

import pytest

import pylb
from pylb.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a run record, a run of vt and a graph."""
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    lb = pylb.Balancer(every=2, load=lambda key, block: 1.0 + key)
    for key in range(4):
        lb.add(key, key)
    for _ in lb.iterate(6):
        for _ in lb.local():
            pass
    lb.save("run.h5")
    pylb.Trace.load("run.h5").save("vt")
    (tmp_path / "a.graph").write_text("2 1\n2\n1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("convert run.h5 run.h5", "run.h5"),
        ("convert vt/data.0.json ./vt/data.0.json", "vt/data.0.json"),
        ("convert vt vt/data.0.json", "vt/data.0.json"),
        ("report run.h5 --html run.h5", "run.h5"),
        ("report vt --chrome vt/data.0.json", "vt/data.0.json"),
        ("report link --html run.h5", "run.h5"),
        ("partition a.graph --out a.graph", "a.graph"),
    ],
)
def test_what_is_read_stays_as_it_is(folder, capsys, words, path):
    (folder / "link").symlink_to("run.h5")
    before = (folder / path).read_bytes()
    assert main(words.split()) == 2
    assert "would overwrite the input" in capsys.readouterr().err
    assert (folder / path).read_bytes() == before

"""Every notebook runs from its first cell to its last, with the recorded runs and without."""

import os
from pathlib import Path

import pytest

import pylb

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def executed(path, monkeypatch, data):
    """The notebook's cells, executed by this Python."""
    package = Path(pylb.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{package}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("PYLB_DATA", str(data))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=60, resources=resources).execute()
    return notebook.cells


def printed(cells):
    return "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))


def pictures(cells):
    return sum(
        "image/png" in output.get("data", {})
        for cell in cells
        for output in cell.get("outputs", [])
    )


def test_there_are_notebooks():
    assert "first_steps.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_on_a_generated_run(path, monkeypatch, tmp_path):
    cells = executed(path, monkeypatch, tmp_path)
    assert pictures(cells) >= 3
    assert "480 objects" in str(cells)
    assert "<Replay by cards, every 3: 30 phases" in printed(cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_on_the_recorded_run(path, monkeypatch, data):
    cells = executed(path, monkeypatch, data.resolve())
    assert pictures(cells) >= 3
    assert "<Replay by cards, every 3: 10 phases" in printed(cells)

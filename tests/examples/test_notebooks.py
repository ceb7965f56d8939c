"""Every notebook runs from the first cell to the last, with and without recorded runs."""

import json
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from chance import EXPLORES

import pylb
from pylb.partitioning import libraries

NEEDED = ("nbclient", "ipykernel", "matplotlib", "anywidget", "h5py")  # to import them takes long
ABSENT = [name for name in NEEDED if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"no {ABSENT}")

# In the tests, fewer ranks, iterations and points of a picture than on the pages.
MILLION, LARGE = ("1_000_000", "65_536") if EXPLORES else ("120_000", "8_192")
FEWER = {
    "1_000_000": MILLION,
    "65_536": LARGE,
    "2048": "1024",
    "n_ranks=10_000": "n_ranks=1_000",
    "iterations=200": "iterations=80",
    '"retina"': '"png"',
}
FOLDER = Path(__file__).parents[2] / "notebooks"
# The tutorial is first: once Zoltan has begun MPI in the kernel, mpiexec does not start there.
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"), key=lambda path: (path.stem != "tutorial", path))
AFRESH = "%reset -f\n%cd -q {}\nimport os\nos.environ['PYLB_DATA'] = {!r}\ndel os"


@pytest.fixture(scope="module")
def client():
    """Return a client whose kernel runs one notebook after the other: imports take seconds."""
    import nbclient  # importing it takes seconds
    import nbformat

    package = Path(pylb.__file__).parents[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{package}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        where = {"metadata": {"path": str(FOLDER)}}
        made = nbclient.NotebookClient(nbformat.v4.new_notebook(), timeout=300, resources=where)
        with made.setup_kernel():
            yield made


def executed(client, path, data):
    """Return the notebook's cells, executed by this Python without the variables of another one."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        for number, fewer in FEWER.items():
            cell.source = cell.source.replace(number, fewer)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(AFRESH.format(FOLDER, str(data))))
    client.nb = notebook
    client.execute(cleanup_kc=False)
    return notebook.cells[1:]


def printed(cells):
    return "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))


def shown(cells, kind):
    """Return the outputs of a MIME type."""
    outputs = (output for cell in cells for output in cell.get("outputs", []))
    return [o["data"][kind] for o in outputs if kind in o.get("data", {})]


def explored(cells):
    """Check that the explorer shows a picture, and says that it needs a kernel."""
    assert shown(cells, WIDGET)
    (html,) = (html for html in shown(cells, "text/html") if "without a kernel" in html)
    assert " as fast, " in html
    assert "data:image/png;base64" in html


WIDGET = "application/vnd.jupyter.widget-view+json"  # is not stored: it is empty without a kernel


def kinds(cell):
    """Return the kinds of a cell's outputs, without those that are not stored."""
    found = set()
    for output in cell.get("outputs", []):
        data = output.get("data", {}).keys() - {WIDGET}
        if output["output_type"] == "display_data" and data == {"text/plain"}:
            continue
        found |= data
        if output.get("name") == "stdout":
            found.add("stdout")
    return found


def has_mpi():
    return find_spec("mpi4py") is not None and shutil.which("mpiexec") is not None


def on_real_ranks(cells):
    """Check that the scripts ran, and a program on the four ranks of the notebook."""
    said = re.findall(r"^Run: ", printed(cells), re.M)
    assert len(said) == 3  # balanced, in shadow mode, on four ranks
    assert re.search(r"ranks +4\n", printed(cells))
    assert "GreedyLB    every 20" in printed(cells)


# For each notebook: what it prints, the least number of pictures, and a further check.
EXPECTED = {
    "tutorial": ("the objects were rebalanced", 2, on_real_ranks),
    "recorded_run": ("<Replay with cards, every 3: 30 iterations", 3, None),
    "explore_a_run": ("speed-up over the recorded run", 3, explored),
    "why_did_it_balance": ("the worst one:\nAfter iteration", 3, None),
    "your_own_strategy": ("StrategyError: ", 2, None),
    "million_ranks": (f"{int(MILLION):9,} ranks, ", 2, None),
    "experts": ("rearranged after the steps [", 5, None),
    "unlike-processors": ("five iterations after", 4, None),
    "what-if": ("servBusy2 at the other end of its messages", 3, None),
    "partitioning": ("repartition: 2 x ", 3, None),
}


def test_every_notebook_has_its_row():
    assert EXPECTED.keys() == {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_on_a_generated_run(client, path, tmp_path):
    if path.stem == "tutorial" and not (has_mpi() and find_spec("ipyparallel")):
        pytest.skip("no mpi4py, mpiexec or ipyparallel")
    cells = executed(client, path, tmp_path)
    said, pictures, more = EXPECTED[path.stem]
    assert said in printed(cells)
    assert len(shown(cells, "image/png")) >= pictures
    if more is not None:
        more(cells)
    complete = has_mpi() and find_spec("ipyparallel") and libraries.available("Zoltan")
    if complete:
        kept = json.loads(path.read_text())["cells"]
        assert [kinds(cell) for cell in cells] == [kinds(cell) for cell in kept]


def test_recorded_run_on_the_recorded_run(client, data):
    path = next(path for path in NOTEBOOKS if path.stem == "recorded_run")
    cells = executed(client, path, data.resolve())
    assert len(shown(cells, "image/png")) >= 3
    assert "<Replay with cards, every 3: 10 iterations" in printed(cells)

"""Run the notebooks and store small outputs in them, so that they can be read without running.

usage: python tools/notebooks.py [NOTEBOOK ...]      (default: all of notebooks/)
"""

import base64
import hashlib
import io
import os
import re
import sys
from pathlib import Path

import nbclient
import nbformat
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
WIDEST, LARGEST = 800, 60_000  # largest width in pixels; a picture of more bytes gets fewer colours
WIDGET = "application/vnd.jupyter.widget-view+json"  # empty without a kernel
FOLDER = re.compile(r"/\S*/tmp\w+/")  # the path of a temporary folder
PICTURE = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")


def sources(notebook):
    """Return a digest of the notebook's code, which shows whether stored outputs belong to it."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:16]


def small(picture):
    """Return a PNG (base64) in fewer bytes: at most `WIDEST` pixels wide, at most 256 colours."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, image.height * WIDEST // image.width), Image.LANCZOS)
    for colours in (256, 64, 16):
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "png", optimize=True)
        if out.tell() < LARGEST:
            break
    return base64.b64encode(out.getvalue()).decode()


def stored(output):
    """Return an output as it is stored; None: it is empty, or concerns only this machine."""
    if output.output_type == "stream":
        output.text = FOLDER.sub("", output.text)
        return None if output.name == "stderr" else output
    data = output.data
    data.pop(WIDGET, None)
    if output.output_type == "display_data" and data.keys() == {"text/plain"}:
        return None  # a progress bar
    if "image/png" in data:
        data["image/png"] = small(data["image/png"])
    if "text/html" in data:
        data["text/html"] = PICTURE.sub(lambda found: small(found[0]), data["text/html"])
    output.metadata = {}
    return output if data else None


def run(path):
    """Execute a notebook in its folder, and store its outputs in it."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [out for out in map(stored, cell.outputs) if out is not None]
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    notebook.metadata["pylb"] = {"sources": sources(notebook)}
    nbformat.write(notebook, path)
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


def main(names):
    """Run the named notebooks, or all of them, on a generated run instead of a recorded one."""
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    os.environ["PYLB_DATA"] = "none"
    for path in map(Path, names or sorted((ROOT / "notebooks").glob("*.ipynb"))):
        run(path.resolve())


if __name__ == "__main__":
    main(sys.argv[1:])

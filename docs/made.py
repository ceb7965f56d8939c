"""What is made when the documentation is built: references of C and Fortran, and pictures."""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 260  # pixels of a picture in the gallery
EXAMPLES = {  # with options for a short run
    "jacobi2d": "--blocks 8 --iterations 12",
    "leanmd": "",
    "multizone": "",
    "kneighbor": "--iterations 40",
    "lbtest": "--iterations 40",
}
BOUND = r"(?:procedure|generic) :: (\w+)(?: => ((?:[\w, ]|&\n)+))?\n"
FORTRAN = r"^\s*!!?>?\s?"  # the mark of a comment


def everything(folder):
    """Make all parts in this folder."""
    folder.mkdir(exist_ok=True)
    (folder / "pylb_h.md").write_text(c_reference((ROOT / "csrc" / "lib" / "pylb.h").read_text()))
    fortran = (ROOT / "csrc" / "lib" / "pylb.f90").read_text()
    (folder / "pylb_f90.md").write_text(fortran_reference(fortran))
    plots(folder)
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        thumbnail(first_picture(path), folder / f"{path.stem}.png")
    for name, more in EXAMPLES.items():
        example(name, more.split(), folder)


# ---- references ---------------------------------------------------------------------------------


def plain(comment, mark):
    """Return the text of a comment as Markdown; lines that are indented become code."""
    lines = [re.sub(mark, "", line).rstrip() for line in comment.strip().splitlines()]
    out, code = [], False
    for line in lines:
        if line.startswith("     ") != code:
            code = not code
            out.append("```text" if code else "```\n")
        pieces = line.strip().split("`")
        pieces[::2] = [re.sub(r"([*_<>\[\]$|])", r"\\\1", piece) for piece in pieces[::2]]
        out.append(line[5:] if code else "`".join(pieces))
    return "\n".join([*out, *(["```"] if code else [])]).strip() + "\n"


def c_reference(header):
    """Return the functions, types and texts of a C header, section by section, as Markdown."""
    body = header[header.index("/* ---- errors") :]
    parts = re.split(r"^/\* ---- (.*?) -+ \*/\n", body, flags=re.M)[1:]
    out = []
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        out.append(f"### {title[0].upper()}{title[1:]}\n")
        text = re.sub(r"^#.*\n|^/\* clang-format o\w+ \*/\n", "", text, flags=re.M)
        for block in re.split(r"\n\n+", text.strip()):
            comment, rest = re.match(r"(/\*.*?\*/)?\s*(.*)", block, re.S).groups()
            declared = re.sub(r"PYLB_(CALL|API) ", "", rest)
            if comment:
                text = re.sub(r"^/\*\*?|\*/$", "", comment)
                out.append(plain(text, r"^ \*(?!\S)"))
            if declared.startswith("}"):
                continue  # of extern "C"
            if declared:
                out.append(f"```c\n{declared.rstrip()}\n```\n")
    return "\n".join(out)


def fortran_reference(module):
    """Return the types of a Fortran module with their procedures, as Markdown."""
    out = []
    for name, body in re.findall(r"^   type :: (pylb_\w+)\n(.*?)^   end type", module, re.S | re.M):
        comment = re.search(rf"((?:^   !.*\n)+)   type :: {name}\n", module, re.M)[1]
        fields, _, bound = body.partition("   contains\n")
        shown = [
            line[6:]
            for line in fields.splitlines()
            if "c_null_ptr" not in line and "private" not in line
        ]
        out += [f"### {name}\n", plain(comment, FORTRAN), "```fortran", *shown, "```\n"]
        for public, own in re.findall(BOUND, bound):
            for inner in re.split(r"[,&\s]+", own.strip()) if own else [public]:
                out.append(procedure(module, name, public, inner))
    return "\n".join(out)


def procedure(module, owner, public, inner):
    """Return a procedure that is bound to a type: its comment, call and arguments."""
    said = r"((?:^   !>[^\n]*\n(?:^   ![^\n]*\n)*)?)"
    pattern = rf"{said}^   (subroutine|function) {inner}\((.*?)\)(.*?)\n\n"
    comment, kind, names, body = re.search(pattern, module, re.S | re.M).groups()
    names = re.sub(r"[&\s]+", " ", names).removeprefix("self").lstrip(", ")
    declared = [
        line.strip()
        for line in body.splitlines()
        if ":: " in line and "intent" in line and "self" not in line
    ]
    call = f"{owner}%{public}({names})"
    code = "\n".join([f"call {call}" if kind == "subroutine" else call, *declared])
    said = plain(comment, FORTRAN) if comment else ""
    return f"```fortran\n{code}\n```\n{said}"


# ---- pictures -----------------------------------------------------------------------------------


def thumbnail(data, path):
    """Store a picture (PNG) in the width of the gallery; no picture: none."""
    if data is None:
        return
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    image.thumbnail((2 * WIDTH, 2 * WIDTH))
    image.save(path, optimize=True)


def first_picture(notebook):
    """Return the first stored picture of a notebook."""
    for cell in json.loads(notebook.read_text())["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return base64.b64decode("".join(output["data"]["image/png"]))
    return None


def example(name, more, folder):
    """Run an example on virtual ranks, and keep its plot."""
    path = folder / f"{name}.png"
    words = [sys.executable, ROOT / "examples" / f"{name}.py", "--virtual", "4", "--plot", path]
    subprocess.run([*words, *more], check=True, capture_output=True, cwd=folder)
    thumbnail(path.read_bytes(), path)


def plots(folder):
    """Draw each function of `pylb.plots`, of a run of `pylb.demo`."""
    import matplotlib.pyplot as plt

    import pylb

    pylb.demo.run(8, 96, 80, save=folder / "run.h5")
    run = pylb.RunRecord.load(folder / "run.h5")
    trace = run.trace
    once = trace.replay("BestFitLB", every=20, cost=0.01)
    fitted = trace.replay("BestFitLB", trigger="metabalancer", cost=0.01)
    snapshot = trace[40]
    k = np.arange(96)
    ring = pylb.Snapshot(snapshot.load, snapshot.rank, edges=(k, (k + 1) % 96, np.full(96, 8e3)))
    plan = pylb.place(ring, "BestFitLB")
    draw = {
        "timeline": lambda: pylb.plots.timeline(run),
        "rank_loads": lambda: pylb.plots.rank_loads(once.rank_times, once.lb_step_iterations),
        "imbalance": lambda: pylb.plots.imbalance(
            once.metrics["max"], once.metrics["mean"], once.lb_step_iterations
        ),
        "fits": lambda: pylb.plots.fits(fitted),
        "decisions": lambda: pylb.plots.decisions(once),
        "before_after": lambda: pylb.plots.before_after(plan.before, plan.after),
        "migrations": lambda: pylb.plots.migrations(run),
        "communication": lambda: pylb.plots.communication(ring, plan.rank),
        "objects": lambda: pylb.plots.objects(snapshot),
        "optimum": lambda: pylb.plots.optimum(once, trace.optimum("BestFitLB", cost=0.01)),
    }
    assert {*draw, "film"} == {name for name in pylb.plots.__all__ if name.islower()}
    pylb.plots.film(once, folder / "plot_film.gif", most=3)
    for name, one in draw.items():
        one().figure.savefig(folder / f"plot_{name}.png", dpi=75)
        plt.close("all")


def with_pictures(page, folder):
    """Add pictures to a page's tables whose rows name examples, notebooks or plots."""
    return re.sub(r"(?:^\|.*\n)+", lambda table: _with_column(table[0], folder), page, flags=re.M)


NAMED = re.compile(
    r"\| (?:`(?:examples/(?:\w+/)*)?|\[.*?\]\(\S*?)(?P<stem>[\w-]+)\.(?:py|c|cpp|f90|ipynb)"
    r"|\| `(?P<plot>\w+)\("
)


def _with_column(table, folder):
    """Add a column with the pictures of a table; without pictures, the table stays as it is."""
    head, rule, *rows = table.splitlines()
    cells = []
    for row in rows:
        found = NAMED.match(row)
        name = found and (found["stem"] or f"plot_{found['plot']}")
        kinds = [k for k in ("png", "gif") if name and (folder / f"{name}.{k}").exists()]
        cells.append(f"![{name}](_made/{name}.{kinds[0]}){{width={WIDTH}px}}" if kinds else "")
    if not any(cells):
        return table
    below = [f"| {cell} {row}" for cell, row in zip(cells, rows, strict=True)]
    return "\n".join([f"| {head}", f"|---{rule}", *below, ""])

"""The tree keeps its structure: rooms in one order, arrows only downwards, no circle.

An arrow goes from a file to each file that it needs: in Python by an import anywhere in the file,
also inside a function or for type checkers; in C by an include or by a symbol of another file.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pylb

ROOT = Path(__file__).parents[2]
BESIDE = {
    "errors",
    "files",
    "optional",
    "console",
    "threads",
    "_version",
}  # modules outside of the rooms, which all rooms may import
ORDER = ["base", "model", "measure", "virtual", "comm", "partition", "place", "decide", "io"]
ORDER += ["replay", "whatif", "show", "run", "adapters", "lab", "cli", "lib"]
ABOVE = ["bind"]
COMPILED = tuple(f"pylb.{p.stem}" for p in (ROOT / "pylb").glob("*.pyi"))
# Rooms of pylb have another name than in C where pylb has a function of that name.
PYTHON = {"place": "placing", "partition": "partitioning", "replay": "replaying"}
PYTHON |= {"whatif": "prediction"}
C = {name: room for room, name in PYTHON.items()}
UNSEEN = {"whatif", "lab"}  # rooms that only the rooms above `show`, and `pylb` itself, import


def circles(arrows):
    """Return the names of one circle in the graph; empty if there is none."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def upwards(arrows, room, order):
    """Return the arrows from a room to one that is above it."""
    levels = {name: i for i, name in enumerate(order)}
    return sorted(
        f"{one} -> {other}"
        for one, others in arrows.items()
        for other in others
        if levels[room(one)] < levels[room(other)]
    )


# ---- Python ----------------------------------------------------------------------------------


def python_modules():
    """Return {dotted name: path}; a package is its __init__.py."""
    found = {}
    for path in sorted((ROOT / "pylb").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path, modules):
    """Return the modules of pylb that a file imports, without compiled ones."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            inside = [name for name in inside if not name.startswith(COMPILED)]
            names = [name if name in modules else node.module for name in inside]
        else:
            continue
        yield from (name for name in names if name in modules)


@cache
def python_arrows():
    modules = python_modules()
    return {name: set(imported(path, modules)) for name, path in modules.items()}


def python_room(name):
    if name in ("pylb", "pylb.__main__", "pylb.eplb"):
        return "all"
    room = name.split(".")[1]
    return "beside" if room in BESIDE else C.get(room, room)


def test_python_has_no_circle():
    assert (found := circles(python_arrows())) == [], " -> ".join(found)


def test_no_python_room_imports_a_higher_one():
    found = upwards(python_arrows(), python_room, ["beside", *ORDER, "all"])
    assert found == [], "\n".join(found)


def test_nothing_below_show_needs_whatif_or_lab():
    """No other room needs these rooms, so they can be removed."""
    wrong = [
        f"{one} -> {other}"
        for one, others in python_arrows().items()
        for other in others
        if python_room(other) in UNSEEN - {python_room(one)}
        and python_room(one) not in ("show", "cli", "all")
    ]
    assert wrong == [], "\n".join(wrong)


# ---- C ---------------------------------------------------------------------------------------

NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
FUNCTION = re.compile(r"^(?!static|typedef|#)\w[\w \t*]*?\b(\w+)\((?:[^;{}]*)\)\s*\{", re.M)
OBJECT = re.compile(r"^(?!static|typedef|extern|#)\w[\w \t*]*?\b(\w+)(?:\[\w*\])*\s*=", re.M)


def c_files():
    return {
        p.relative_to(ROOT / "csrc").as_posix(): p for p in sorted(ROOT.glob("csrc/*/**/*.[ch]"))
    }


@cache
def c_arrows():
    """Return what each file needs: headers that it includes, sources that define its symbols."""
    files = c_files()
    text = {name: path.read_text() for name, path in files.items()}
    code = {name: NO_CODE.sub(" ", one) for name, one in text.items() if name.endswith(".c")}
    defined = defaultdict(set)
    for name, one in code.items():
        for symbol in [*FUNCTION.findall(one), *OBJECT.findall(one)]:
            defined[symbol].add(name)
    arrows = {}
    for name in files:
        arrows[name] = set()
        for include in INCLUDE.findall(text[name]):
            near = (Path(name).parent / include).as_posix()
            arrows[name] |= {near if near in files else include} & files.keys()
        # names that a macro composes
        pasted = tuple(re.findall(r"\b(plb_\w+?)\s*##", code.get(name, "")))
        words = set(re.findall(r"\bplb_\w+", code.get(name, "")))
        for symbol, places in defined.items():
            if name not in places and (symbol in words or (pasted and symbol.startswith(pasted))):
                arrows[name] |= places
    return arrows


def test_c_has_no_circle():
    assert (found := circles(c_arrows())) == [], " -> ".join(found)


def test_no_c_room_includes_a_higher_one():
    found = upwards(c_arrows(), lambda name: name.split("/")[0], [*ORDER, *ABOVE])
    assert found == [], "\n".join(found)


def test_who_knows_mpi_and_python():
    """Exceptions: the recorder replaces MPI's functions; headers of partitioners include mpi.h."""
    including = defaultdict(set)
    for name, path in c_files().items():
        for header in re.findall(r"^\s*#\s*include\s+<(\w+)\.h>", path.read_text(), re.M):
            including[header].add("/".join(name.split("/")[: 2 if name.count("/") > 1 else 1]))
    assert including["mpi"] == {"comm", "whatif/recorder", "partition/libraries"}
    assert including["Python"] == {"bind"}


MOST_TUNED = 50
TUNED = re.compile(r"\btuned: [^;:]+; \S")
CONSTANT = re.compile(
    r"#define +([A-Z]\w+) +([^\n]+)|static const (?:double|u?int\w*) ([^;]*);"
    r"|\benum(?: \w+)? \{([^}]*)\}"
)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?")
# In an expression: a decimal number other than whole numbers and halves, a small power of ten, and
# what something is compared with; but not the length of a message, the bits of an int, and guards.
BARE = re.compile(
    r"(?:[-+*/<>?:] |\bf(?:min|max)\([^;]*)(?:\d+\.(?!0\b|5\b)\d+|\de-[1-6]\b(?!\)| \* bytes))"
    r"|(?<![<>])[<>]=? (?!31 |64 |100 \?|1000000\))\d{2,}(?![\d.e])"
)
NOT_TUNED = re.compile(
    # codes and formats
    "PLB_(?:CLOCK|LOOKS|OP|TAG|TAKES)_.*|PYLB_ERR_.*|INTEGER|REAL|NOTHING|STANDS|UNMEASURED|NOTE_EDGE"
    "|PLB_SETS|PLB_ALL_STEPS|PLB_PY_IN_PLACE|PLB_HEAD_BYTES|PLB_PIECE|BLOCK|DIMS|BITS|N_OWN"
    "|LOWEST_BIT|PLB_EXACT_LIMBS|HUGE_PAGE|DIGIT_BITS"
    # ranges of numbers, and guards of loops
    "|MOST|LEAST|LAST|TOTAL|UNLIMITED|GRAIN|FASTEST|PLB_ROUNDING|PLB_INTERRUPT_NOW|PLB_EXACT_MOST"
    "|MOST_(?:LOAD|PIECES|STEPS)|PLB_MOST_(?:WEIGHT|APPORTIONED)|MAX_LEVELS|STEPS|HALVINGS"
    # memory, and what rank 0 reads
    "|PATH|GROUP|LONGEST|LONGEST_NAME|HEAD_MOST|MOST_(?:BYTES|NUMBERS|REQUESTS|NEIGHBOURS|LACKS|RECEIPTS)"
    "|PLB_(?:ATSYNC_WINDOW|DECIDER_MOST_SAMPLED|REMAP_MOST|CORES_MOST|MOST_PHASES)|MAX_LIBRARIES"
    "|PLB_GOSSIP_MOST_FAN_OUT|PLB_PY_MAX_.*|BUFFERED|LEAST_SLOTS|HORIZONS"
    # counted, measured, or published
    "|PLB_MAXIMA|PLB_CYCLE_AHEADS|PLB_LEARNER_INTERVALS|ASK_ROUNDS|DE_BRUIJN|HUBER|MAD|SIGMAS|FEW"
    "|OBJECT_BYTES|MESSAGE_BYTES|PAIRWISE_BYTES|LARGE|N|PASSES|PLB_HEAP_ARITY|PLB_REFINE_OVERLOAD"
    # defaults of options, and what docs/ promises
    "|PLB_SHARE_BETA|PLB_WAIT_PATIENCE_NS|PERIOD|params|NEAR|SLOW"
)


def own_numbers(code):
    """Return the constants whose values do not follow from others; not those of NOT_TUNED."""
    out = []
    for name, value, doubles, entries in CONSTANT.findall(code):
        rows = (
            [(name, value)]
            if name
            else re.findall(r"(\w+)[][]* = ([^,{]+|\{.*\})", doubles or entries)
        )
        out += [
            name
            for name, value in rows
            if not NOT_TUNED.fullmatch(name)
            and not re.search(r"\b(?!U?INT)[A-Z]{2}", value)
            and {*NUMBER.findall(value)} - {*"012", "0.0", "1.0"}
        ]
    return out


def test_tuned_numbers_are_few_and_say_what_set_them():
    """Numbers that trade one thing for another (docs/architecture.md), and those without a name."""
    found, vague, unmarked = [], [], []
    for name, path in c_files().items():
        text = path.read_text()
        comments = re.findall(r"/\*.*?\*/", text, re.S)
        marks = [" ".join(re.sub(r"\n *\*", " ", c).split()) for c in comments if "tuned: " in c]
        n_marks = len(found)
        for mark in marks:
            n = mark.count("tuned: ")
            found += [f"{name}: {mark}"] * n
            vague += [f"{name}: {mark}"] if len(TUNED.findall(mark)) != n else []
        code = NO_CODE.sub(lambda m: "\n" * m[0].count("\n") if m[0][0] == "/" else '""', text)
        own = own_numbers(code)
        if len(own) > len(found) - n_marks:
            unmarked.append(f"{name}: {own}")
        lines = [
            line for line in code.split("\n") if "static const" not in line and "#" not in line
        ]
        found += [f"{name}: {line}" for line in lines if BARE.search(line)]
    assert vague == [], "\n".join(vague)
    assert unmarked == [], "\n".join(unmarked)
    assert len(found) <= MOST_TUNED, "\n".join(found)


# ---- both ------------------------------------------------------------------------------------


def rooms(folder, pattern):
    return {path.name for path in (ROOT / folder).iterdir() if any(path.rglob(pattern))}


def python_rooms():
    return {C.get(name, name) for name in rooms("pylb", "*.py")}


def test_rooms_have_the_same_names_in_c_and_python():
    assert rooms("csrc", "*.c") <= {*ORDER, *ABOVE}
    assert python_rooms() <= {*ORDER}
    assert all(callable(getattr(pylb, name)) for name in PYTHON)  # why they have another name


def test_the_map_of_rooms_is_the_tree():
    """CONTRIBUTING's table has a row for each room, from low to high, and says where it is."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## The rooms")[1].split("\n## ")[0]
    rows = [row.split("|")[1:-1] for row in section.splitlines() if row.startswith("|")]
    rows = [[cell.strip(" `/–-") for cell in row] for row in rows[2:]]
    assert [row[0] for row in rows] == [*ORDER, *ABOVE]
    assert {row[0] for row in rows} == rooms("csrc", "*.c") | python_rooms() | {"base"}
    for name, c, python, *_ in rows:
        assert bool(c) == (name in rooms("csrc", "*.c")), name
        assert bool(python) == (name in python_rooms()), name

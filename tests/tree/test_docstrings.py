"""Every public name has an example in its docstring, and every example gives what it shows.

As docs/api/index.md says, the examples can use `np`, `pylb`, `comm` (one rank), `trace` (run.h5,
which ``pylb demo --save run.h5`` writes) and `run`, a recording.
"""

import doctest
import importlib
import inspect
import pkgutil
import re
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import pylb
from pylb.placing import registry
from pylb.show import plots

ROOT = Path(__file__).parents[2]
SKIPPED = 6  # number of examples that need mpiexec, root or another program
MADE_BY = {"pylb.Trigger": "pylb.trigger"}  # a class of the C core


def modules():
    for module in pkgutil.walk_packages(pylb.__path__, "pylb."):
        if not module.name.endswith("__main__") and not module.name.startswith("pylb._"):
            yield module.name


def examples_of(name):
    """Return the docstrings of a module that have examples."""
    try:
        found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    except ImportError:  # the module needs MPI or anywidget
        return []
    return [one for one in found if one.examples and one.name.startswith(name)]


EXAMPLES = {one.name: one for name in ["pylb", *modules()] for one in examples_of(name)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("h5py")
    made = tmp_path_factory.mktemp("examples")
    pylb.demo.run(save=made / "run.h5")
    shutil.copy(ROOT / "notebooks" / "spa.h5", made / "run")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_true(name, folder, monkeypatch):
    example = EXAMPLES[name]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    if "plots" in name:
        pytest.importorskip("matplotlib").use("agg")
    example.globs = {"np": np, "pylb": pylb, "comm": None}
    example.globs["trace"] = pylb.Trace.load("run.h5")
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=said.append)
    if any("errors.MissingPartError" in text for text in said):
        pytest.skip("an optional part is missing")
    assert said == [], "".join(said)


def public():
    """Return the names of `pylb`, those that docs/api lists, and the plots."""
    names = {f"pylb.{name}" for name in pylb.__all__}
    names |= {f"pylb.plots.{name}" for name in plots.__all__ if name.islower()}
    for page in ROOT.glob("docs/**/*.md"):
        listed = re.findall(r"auto(?:class|function):: (\S+)", page.read_text())
        names |= {name for name in listed if "." in name}
    return sorted(names)


def documented(name):
    """Return the object that has the docstring; None for a module or a constant."""
    at = pylb
    for k, part in enumerate(name.split(".")[1:], 2):
        if not hasattr(at, part):
            importlib.import_module(".".join(name.split(".")[:k]))
        at = getattr(at, part)
    if isinstance(at, ModuleType):
        return getattr(at, "__wrapped__", None)
    return None if isinstance(at, str) else at


def test_every_public_name_has_an_example():
    found = {name: documented(MADE_BY.get(name, name)) for name in public()}
    assert len([name for name, object in found.items() if object is not None]) > 110
    missing = [
        name
        for name, object in found.items()
        if object is not None and ">>> " not in (inspect.getdoc(object) or "")
    ]
    assert missing == []


def test_few_examples_are_skipped():
    lines = [line for one in EXAMPLES.values() for line in one.examples]
    assert sum(doctest.SKIP in line.options for line in lines) <= SKIPPED

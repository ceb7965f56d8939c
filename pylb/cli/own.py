"""The user's own functions for ``--strategy`` and ``--trigger``; ``--import`` names their modules.

A module is first read without executing it.  Outside of functions, classes and
``if __name__ == "__main__":``, it must have no loop, no ``with``, and no call that could run a
program.  An import of mpi4py.MPI must be inside a function, ``if`` or ``try``.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pylb.console import note
from pylb.decide.trigger import triggers
from pylb.errors import (
    DomainError,
    FormatError,
    MissingFileError,
    StrategyError,
    UnknownStrategyError,
    UnknownTriggerError,
    nearest,
)
from pylb.place.registry import Strategy, find, strategies
from pylb.replay.replayed import BASELINES

HELP = (
    "a Python module to execute first; --strategy and --trigger can then name its functions. May "
    "be repeated"
)
GUARD = 'put it below `if __name__ == "__main__":`'
WORK = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)
MAIN = ("__name__ == '__main__'", "'__main__' == __name__")
TRY = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))
MPI = "mpi4py.MPI"

Call = Callable[..., Any]


def add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--import", dest="imports", action="append", default=[], metavar="FILE.py", help=HELP
    )


def names_of(path: Path) -> set[str]:
    """Read a module without executing it, and return the names that it defines or imports.

    Names of modules, from ``import ...``, are left out.  DomainError if an import of the module
    would start MPI or run a program.
    """
    if not path.is_file():
        raise MissingFileError(f"--import {path}: there is no such file")
    try:
        body = ast.parse(path.read_bytes(), str(path)).body
    except (SyntaxError, ValueError) as why:
        raise FormatError(f"--import {path}: not a Python module: {why}") from None
    names: set[str] = set()
    modules: set[str] = set()
    for node in _statements(body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if node in body:  # at the top level, where no ``try`` handles its failure
                _refuse_mpi(path, node)
        elif isinstance(node, WORK) or _runs(node, modules):
            what = ast.unparse(node).splitlines()[0]
            raise DomainError(
                f"--import {path}, line {node.lineno}: {what!r} would run when the file is "
                f"imported; {GUARD}"
            )
        (modules if isinstance(node, ast.Import) else names).update(_bound(node))
    return names


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import can execute, also those in ``if`` and ``try``."""
    for node in body:
        if isinstance(node, ast.If):
            guards = ast.unparse(node.test) in MAIN
            yield from _statements([*(node.body if not guards else []), *node.orelse])
        elif isinstance(node, TRY):
            handlers = [s for handler in node.handlers for s in handler.body]
            yield from _statements([*node.body, *handlers, *node.orelse, *node.finalbody])
        else:
            yield node


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines or imports."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name, *_registered(node)}
    targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _registered(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """Yield the names that decorators such as ``@pylb.strategy(name="mine")`` give."""
    for decorator in node.decorator_list:
        for word in decorator.keywords if isinstance(decorator, ast.Call) else []:
            if word.arg == "name" and isinstance(word.value, ast.Constant):
                yield str(word.value.value)


def _refuse_mpi(path: Path, node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.ImportFrom):
        wanted = {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    else:
        wanted = {alias.name for alias in node.names}
    if MPI in wanted:
        raise DomainError(
            f"--import {path}, line {node.lineno}: {ast.unparse(node)!r} would start MPI in this "
            "command, which runs without mpiexec; import it inside the function that needs it"
        )


def _runs(node: ast.stmt, modules: set[str]) -> bool:
    """Say whether a statement is a call that could run a program.

    A call of an imported module's function, e.g. ``sys.path.insert(...)``, counts as harmless,
    except for pylb's functions.
    """
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    root: ast.expr = node.value.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return not (isinstance(root, ast.Name) and root.id in modules - {"pylb"})


@contextmanager
def _without_mpi() -> Iterator[None]:
    """Make `from mpi4py import MPI` fail, also in modules that the user's module imports."""
    if MPI in sys.modules:
        yield
        return
    sys.modules[MPI] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[MPI]


def _execute(path: Path) -> Mapping[str, Any]:
    note(f"executing {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with _without_mpi():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as why:
        raise StrategyError(f"--import {path} raised {type(why).__name__}: {why}") from why
    finally:
        sys.path.pop(0)
    return vars(module)


class Functions:
    """The functions of the modules given by ``--import``.

    imports: paths of the modules; strategies, triggers: the names on the command line.  If one of
    these names is unknown, no module is executed.
    """

    def __init__(
        self, imports: Sequence[str], strategies: Sequence[str] = (), triggers: Sequence[str] = ()
    ) -> None:
        paths = [Path(word) for word in imports]
        self._calls: dict[str, Call] = {}
        defined = set().union(*map(names_of, paths))
        for name in strategies:
            self._check(name, defined, *STRATEGIES)
        for name in triggers:
            self._check(name, defined, *TRIGGERS)
        for path in paths:
            found = _execute(path)
            self._calls |= {k: v for k, v in found.items() if k in defined and callable(v)}

    @staticmethod
    def _check(
        name: str, defined: set[str], what: str, known: Callable[[], list[str]], error: type
    ) -> None:
        names = known()
        if name in names or name in defined:
            return
        if ".py:" in name:
            path, _, function = name.rpartition(":")
            raise error(f"no {what} {name!r}: expected --import {path} --{what} {function}")
        raise error(f"no {what} {name!r}: there are {', '.join(names)}{nearest(name, names)}")

    def strategy(self, name: str) -> str | Strategy:
        """Return the strategy of this name; ``auto`` and baselines of a replay stay names."""
        return name if name in WORDS else find(self._calls.get(name, name))

    def trigger(self, name: str) -> str | Call:
        """Return the user's function of this name, or the name of a built-in trigger."""
        return name if name in triggers() else self._calls[name]


WORDS = ("auto", *BASELINES)
STRATEGIES = ("strategy", lambda: sorted({*WORDS, *strategies()}), UnknownStrategyError)
TRIGGERS = ("trigger", lambda: sorted(triggers()), UnknownTriggerError)

"""What this pylb was built with, and which optional parts are installed: ``pylb info``."""

from __future__ import annotations

import argparse
import platform
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from pylb import _core, console, optional
from pylb._version import __version__
from pylb.cli.common import JSON, arg, command, print_json, without_mpi
from pylb.decide.registry import triggers
from pylb.errors import DomainError
from pylb.optional import PARTS, OptionalPart, first_line, needed_first
from pylb.placing.registry import strategies
from pylb.run.options import settings_in_force


def gather() -> dict[str, Any]:
    """Return versions, compiler, MPI and optional parts, for JSON; None: missing, or not known."""
    mpi: dict[str, Any] = {"pylb": None, "mpi4py": None}
    with suppress(ImportError):  # the list of parts says why MPI is missing
        mpi["pylb"] = first_line(import_module("pylb._mpi").library_version())
    with suppress(ImportError):
        mpi["mpi4py"] = first_line(import_module("mpi4py.MPI").Get_library_version())
    mpi["agree"] = mpi["pylb"] == mpi["mpi4py"] if all(mpi.values()) else None
    return {
        "version": __version__,
        "compiler": _core.compiler,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "mpi": mpi,
        "environment": settings_in_force(),
        "parts": [_state(part) for part in PARTS.values()],
    }


def _state(part: OptionalPart) -> dict[str, str | None]:
    out: dict[str, str | None] = {"name": part.name, "version": None, "problem": None}
    out |= {"purpose": part.purpose, "command": part.command}
    try:
        out["version"] = part.find()
    except ModuleNotFoundError as error:  # absent, not broken: there is no problem to report
        needed = needed_first(part, error)
        if needed.name != part.name:
            out |= {"problem": f"needs {needed.name}", "command": needed.command}
    except (ImportError, OSError) as error:
        out["problem"] = str(error)
    return out


@command("show versions, compiler, MPI and optional parts", JSON)
def info(args: argparse.Namespace) -> None:
    """pylb info
    pylb info --json
    """
    without_mpi()
    found = gather()
    if print_json(args, found):
        return
    mpi, theirs = found["mpi"], found["mpi"]["mpi4py"] or "none"
    if mpi["agree"] is not None:
        differs = f"{theirs} (differs from pylb's: a process can use only one of them)"
        theirs = "the same" if mpi["agree"] else differs
    head = [
        ("pylb", found["version"]),
        ("compiler", found["compiler"]),
        ("Python", found["python"]),
        ("NumPy", found["numpy"]),
        ("MPI of pylb", mpi["pylb"] or "none"),
        ("MPI of mpi4py", theirs),
        *((f"{name} overrides programs", value) for name, value in found["environment"].items()),
    ]
    console.show(["", ""], head)
    print()
    rows = [
        (p["name"], (p["version"] or p["problem"] or "missing").partition(",")[0], p["purpose"])
        for p in found["parts"]
    ]
    console.show(["part", "version", "for"], rows)
    missing: dict[str, list[str]] = {}
    for part in found["parts"]:
        if part["version"] is None:
            missing.setdefault(part["command"], []).append(part["name"])
    for words, names in missing.items():  # not wrapped, so that the command can be copied
        print(f"\nto install {', '.join(names)}:\n  {words}")


# ---- pylb completion ----------------------------------------------------------------------------


FILES = ("run", "recording", "first", "second")  # file arguments, besides metavar FILE or FOLDER


@command(
    "print a script that makes your shell complete the words of pylb commands",
    arg("shell", "the shell", choices=["bash", "zsh", "fish", "tcsh"]),
)
def completion(args: argparse.Namespace) -> None:
    """eval "$(pylb completion bash)"
    pylb completion zsh > ~/.zfunc/_pylb       (or another folder in $fpath)
    pylb completion fish > ~/.config/fish/completions/pylb.fish
    pylb completion bash > ~/.local/share/bash-completion/completions/pylb
    """
    shtab = optional.require("shtab")
    if args.shell not in shtab.SUPPORTED_SHELLS:
        raise DomainError(
            f"shell is {args.shell!r}: expected one that shtab {shtab.__version__} supports, "
            f"{', '.join(shtab.SUPPORTED_SHELLS)}; for a newer shtab: pip install -U shtab"
        )
    lists = {
        "strategy": " ".join(["auto", "unbalanced", *strategies()]),
        "trigger": " ".join(triggers()),
    }
    subparsers = args.parser._subparsers._group_actions[0].choices.values()
    for action in (action for sub in subparsers for action in sub._actions):
        if action.dest in lists:
            function = f"_pylb_{action.dest}"
            how = {"bash": function, "zsh": f"{{{function}}}", "fish": lists[action.dest]}
            action.complete = how
        elif action.dest in FILES or str(action.metavar).startswith(("FILE", "FOLDER")):
            action.complete = shtab.FILE
    bash, zsh = "", ""  # functions that complete the last word of a list such as auto,Greedy
    for what, names in lists.items():
        bash += f"""\
_pylb_{what}() {{
  local before="${{1%"${{1##*,}}"}}"
  compgen -P "$before" -W "{names}" -- "${{1##*,}}"
}}
"""
        zsh += f"_pylb_{what}() {{ _values -s , {what} {names} }}\n"
    preamble = {"bash": bash, "zsh": zsh}
    print(shtab.complete(args.parser, shell=args.shell, preamble=preamble))

"""``pylb completion``: print a script that makes a shell complete the words of pylb commands."""

from __future__ import annotations

import argparse
from typing import Any

from pylb import optional
from pylb.decide.registry import triggers
from pylb.errors import DomainError
from pylb.placing.registry import strategies

LISTS = ("strategy", "trigger")
FILES = ("run", "recording", "first", "second")  # file arguments, besides metavar FILE or FOLDER


def completion(args: argparse.Namespace) -> int:
    shtab = optional.require("shtab")
    if args.shell not in shtab.SUPPORTED_SHELLS:
        raise DomainError(
            f"shell is {args.shell!r}: expected one that shtab {shtab.__version__} supports, "
            f"{', '.join(shtab.SUPPORTED_SHELLS)}; for a newer shtab: pip install -U shtab"
        )
    for command in args.parser._subparsers._group_actions[0].choices.values():
        _teach(command, shtab.FILE)
    print(shtab.complete(args.parser, shell=args.shell, preamble=_preamble()))
    return 0


def _teach(command: argparse.ArgumentParser, file: Any) -> None:
    """Set what completes each argument of a command: files, or names of strategies or triggers."""
    for action in command._actions:
        if action.dest in LISTS:
            function = f"_pylb_{action.dest}"
            words = {
                "bash": function,
                "zsh": f"{{{function}}}",
                "fish": " ".join(_words(action.dest)),
            }
            action.complete = words  # type: ignore[attr-defined]
        elif action.dest in FILES or str(action.metavar).startswith(("FILE", "FOLDER")):
            action.complete = file  # type: ignore[attr-defined]


def _words(what: str) -> list[str]:
    return ["auto", "unbalanced", *strategies()] if what == "strategy" else list(triggers())


def _preamble() -> dict[str, str]:
    """Return shell functions that complete the last word of a list such as ``auto,Greedy``."""
    bash, zsh = "", ""
    for what in LISTS:
        words = " ".join(_words(what))
        bash += f"""\
_pylb_{what}() {{
  local before="${{1%"${{1##*,}}"}}"
  compgen -P "$before" -W "{words}" -- "${{1##*,}}"
}}
"""
        zsh += f"_pylb_{what}() {{ _values -s , {what} {words} }}\n"
    return {"bash": bash, "zsh": zsh}

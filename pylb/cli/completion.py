"""``pylb completion``: print a shell's script that completes pylb's words."""

from __future__ import annotations

import argparse

from pylb import optional
from pylb.errors import DomainError

HELP = "print the script that completes pylb's words in a shell"
EXAMPLES = """\
  eval "$(pylb completion bash)"
  pylb completion zsh > ~/.zfunc/_pylb       (a folder of $fpath)
  pylb completion fish > ~/.config/fish/completions/pylb.fish
  pylb completion bash > ~/.local/share/bash-completion/completions/pylb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])


def run(args: argparse.Namespace) -> int:
    """Print the script, made from the parser of the whole command line."""
    shtab = optional.require("shtab")
    if args.shell not in shtab.SUPPORTED_SHELLS:
        raise DomainError(
            f"shell is {args.shell!r}: shtab {shtab.__version__} has "
            f"{', '.join(shtab.SUPPORTED_SHELLS)}; pip install -U shtab"
        )
    print(shtab.complete(args.parser, shell=args.shell))
    return 0

"""``pylb strategies``: list the strategies, or show the parameters of some."""

from __future__ import annotations

import argparse
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.place.registry import Param, Strategy, find, strategies

HELP = "list the strategies, or show the parameters of some"
EXAMPLES = """\
  pylb strategies
  pylb strategies RefineLB GossipLB          (with their parameters)
  pylb strategies --json
"""

NOTES = {
    "family": "comprehensive: ignores the present placement; refinement: moves few objects",
    "looks at": "the parts of the load database that influence the placement",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    only = "only these strategies (default: all)"
    parser.add_argument("name", nargs="*", metavar="NAME", help=only)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    chosen = [find(name) for name in args.name] or [
        one for one in strategies().values() if one.name != "none"
    ]
    if args.json:
        common.print_json(args, {"strategies": list(map(_as_dict, chosen))})
        return 0
    rows = [(one.name, one.help, one.family, ", ".join(_looks(one)), one.source) for one in chosen]
    columns = ["strategy", "what it does", "family", "looks at", "source"]
    console.show(columns, rows, drop=["source", "looks at", "family"], notes=NOTES)
    params = [(one.name, *_cells(p)) for one in chosen for p in one.params] if args.name else []
    if params:
        print()
        columns = ["strategy", "parameter", "default", "min", "max", "unit", "meaning"]
        console.show(columns, params, drop=["unit", "max", "min"])
    return 0


def _looks(one: Strategy) -> list[str]:
    return ["everything"] if one.call is not None else list(one.looks_at)


def _cells(param: Param) -> tuple[Any, ...]:
    return (param.name, param.default, param.least, param.most, param.unit, param.help)


def _as_dict(one: Strategy) -> dict[str, Any]:
    names = ("name", "family", "looks_at", "help", "source", "distributed", "library")
    told = {name: getattr(one, name) for name in names}
    return {**told, "params": [param._asdict() for param in one.params]}

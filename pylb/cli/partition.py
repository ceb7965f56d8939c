"""``pylb partition``: a graph, hypergraph or point set from a file into parts."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

from pylb import console
from pylb.errors import PylbError
from pylb.partition import METHODS, files, partition
from pylb.partition.methods import APPROACHES
from pylb.partition.result import Partition

HELP = "divide a graph, a hypergraph or points into parts"
EXAMPLES = """\
  pylb partition 4elt.graph --parts 8
  pylb partition 4elt.graph --parts 8 --method metis,scotch,graph --json
  pylb partition ibm01.hgr --parts 4 --method zoltan --out ibm01.part
  pylb partition points.npy --parts 16 --method hsfc --out parts.npy
  pylb partition mesh.graph --parts 8 --method graph --old mesh.part --ratio 100
  pylb partition mesh.graph --parts 8 --method metis -P NITER=20

files: METIS (.graph), hMETIS (.hgr), Matrix Market (.mtx), NumPy points (.npy) or arrays by name
(.npz: start, to, edge_weight, net_start, pin, net_weight, coords, weight, old, fixed, sizes, tree,
shares)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb partition``."""
    parser.add_argument("file", metavar="FILE", help="what is divided")
    parser.add_argument("--parts", type=int, default=2, metavar="K", help="default: 2")
    parser.add_argument(
        "--method",
        metavar="A,B,...",
        help=f"of {', '.join(METHODS)}; of several the one of least volume is written",
    )
    parser.add_argument("--coords", metavar="FILE.npy", help="positions, for rcb, rib and hsfc")
    parser.add_argument("--old", metavar="FILE", help="present parts, one a line or .npy")
    parser.add_argument("--approach", choices=APPROACHES, help="default: as --old is there")
    parser.add_argument("--ratio", type=float, default=1.0, help="communications a migration")
    parser.add_argument("--imbalance", type=float, default=1.03, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--symmetrize", action="store_true", help="add edges' other directions")
    parser.add_argument(
        "-P",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the library's own, by its name there",
    )
    parser.add_argument("--out", metavar="FILE", help="write the parts, one a line or .npy")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Divide by every method asked for, and print what each is worth."""
    given = files.read(args.file)
    if args.coords is not None:
        given |= files.read(args.coords)
    if args.old is not None:
        given["old"] = files.read_parts(args.old)
    options = {
        "parts": args.parts,
        "approach": args.approach,
        "migration_ratio": args.ratio,
        "imbalance": args.imbalance,
        "seed": args.seed,
        "symmetrize": args.symmetrize,
        **dict(_pair(word) for word in args.params),
    }
    methods = [None] if args.method is None else args.method.split(",")
    made = [_ask(method, given | options) for method in methods]
    if args.out is not None:
        files.write(args.out, min(made, key=_worth).part)
    if args.json:
        print(json.dumps([_dict(args.file, out) for out in made], indent=1, allow_nan=False))
    else:
        _show(args.file, made)
    return 0


def _ask(method: str | None, given: dict[str, Any]) -> Partition:
    """A partition; warnings go to standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = partition(method=method, **given)
    for warning in caught:
        print(f"pylb: {warning.message}", file=sys.stderr)
    return out


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise PylbError(f"-P {word}: expected NAME=VALUE")
    return name, value


def _worth(out: Partition) -> tuple[float, float]:
    least = out.volume if out.volume is not None else 0.0
    return least, out.max_over_mean


def _dict(file: str, out: Partition) -> dict[str, Any]:
    return {
        "file": file,
        "method": out.method,
        "approach": out.approach,
        "parts": out.n_parts,
        "seconds": out.seconds,
        "seed": out.seed,
        "max_over_mean": out.max_over_mean,
        "migrations": out.migrations,
        "evaluation": out.evaluation.to_dict(),
        "part": out.part.tolist(),
    }


def _show(file: str, made: list[Partition]) -> None:
    rows = [
        [
            out.method,
            f"{out.seconds * 1e3:.1f}",
            f"{out.max_over_mean:.4f}",
            out.cut,
            out.volume,
            None if out.evaluation.neighbours is None else int(out.evaluation.neighbours.max()),
            None if out.evaluation.boundary is None else int(out.evaluation.boundary.sum()),
            out.migrations or None,
        ]
        for out in made
    ]
    n = int(made[0].evaluation.objects.sum())
    columns = ["method", "ms", "max/mean", "cut", "volume", "neighbours", "boundary", "moved"]
    console.show(columns, rows, title=f"{file}: {n:,} objects in {made[0].n_parts} parts")

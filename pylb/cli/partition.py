"""``pylb partition``: divide a graph, a hypergraph or points from a file into parts."""

from __future__ import annotations

import argparse
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.cli.progress import progress
from pylb.errors import DomainError
from pylb.partition import METHODS, files, partition
from pylb.partition.libraries import APPROACHES
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

NOTES = {
    "cut": "weight of the edges, or nets, between parts",
    "volume": "amount of data in a halo exchange",
    "neighbours": "largest number of parts to which a part has edges",
    "boundary": "number of objects with an edge to another part",
    "moved": "number of objects that are not in their --old part",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="the graph, hypergraph or points")
    add("--parts", type=int, default=2, metavar="K", help="number of parts (default: 2)")
    add(
        "--method",
        metavar="A,B,...",
        help=f"one or more of {', '.join(METHODS)}; --out gets the result with the smallest volume",
    )
    add("--coords", metavar="FILE.npy", help="positions of the objects, for rcb, rib and hsfc")
    add("--old", metavar="FILE", help="present part of each object: one per line, or .npy")
    approach = "default: repartition with --old, partition without"
    add("--approach", choices=APPROACHES, help=approach)
    add(
        "--ratio",
        type=float,
        default=1.0,
        help="number of halo exchanges between two repartitions (default: 1)",
    )
    imbalance = "largest allowed ratio of a part's weight to its share (default: %(default)s)"
    add("--imbalance", type=float, default=1.03, help=imbalance)
    add("--seed", type=int, default=0, help="seed of the method (default: %(default)s)")
    symmetrize = "add the other direction of edges that are given in one direction only"
    add("--symmetrize", action="store_true", help=symmetrize)
    add(
        "-P",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the library, by the library's own name",
    )
    add("--out", metavar="FILE", help="write the part of each object: one per line, or .npy")
    common.add_json(parser, "print JSON")


def run(args: argparse.Namespace) -> int:
    common.check_targets(args.file, args.out)
    given = files.read(args.file)
    if args.coords is not None:
        given |= files.read(args.coords)
    if args.old is not None:
        given["old"] = files.read_parts(args.old)
    same = ("parts", "approach", "imbalance", "seed", "symmetrize")
    given |= {name: getattr(args, name) for name in same} | {"migration_ratio": args.ratio}
    given |= dict(_pair(word) for word in args.params)
    made = []
    for method in [None] if args.method is None else args.method.split(","):
        with common.noting_warnings(), progress(f"dividing by {method or 'the default method'}"):
            made.append(partition(method=method, **given))
    if args.out is not None:
        files.write(args.out, min(made, key=_badness).part)
    if args.json:
        common.print_json(args, {"file": args.file, "rows": list(map(_dict, made))})
    else:
        _show(args.file, made)
    return 0


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise DomainError(f"-P is {word!r}: expected NAME=VALUE")
    return name, value


def _badness(out: Partition) -> tuple[float, float]:
    least = out.volume if out.volume is not None else 0.0
    return least, out.max_over_mean


def _dict(out: Partition) -> dict[str, Any]:
    return {
        "method": out.method,
        "approach": out.approach,
        "n_parts": out.n_parts,
        "seconds": out.seconds,
        "seed": out.seed,
        "max_over_mean": out.max_over_mean,
        "migrations": out.migrations,
        "evaluation": out.evaluation.to_dict(),
        "part": out.part,
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
    title = f"{file}: {n:,} objects in {made[0].n_parts} parts"
    console.show(columns, rows, title=title, drop=["boundary", "neighbours", "ms"], notes=NOTES)

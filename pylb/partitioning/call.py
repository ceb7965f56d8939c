"""``pylb.partition``: one call for every method."""

from __future__ import annotations

import inspect
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb.errors import DomainError, PartitionerWarning, nearest, unknown, warn
from pylb.model import checks
from pylb.model.machine import Machine, Place
from pylb.model.snapshot import F64, I32
from pylb.model.topology import Tree
from pylb.partitioning import serial, zoltan
from pylb.partitioning.arrays import Rows
from pylb.partitioning.libraries import APPROACHES, METHODS
from pylb.partitioning.problem import Problem, complete, drop_zeros, local, renumbered
from pylb.partitioning.ranks import RankFacts, Ranks
from pylb.partitioning.result import Cuts, Partition, evaluated, of_entries, settle

# ---- method="reftree" (Mitchell 2007): cut the curve through the leaves where a part is full ----


def check_leaves(problem: Problem) -> None:
    """Check that the objects are exactly the leaves of the tree."""
    assert problem.tree is not None
    n, ids = len(problem.tree.place), problem.ids
    if n != problem.n_all:
        raise DomainError(f"tree has {n} leaves: expected {problem.n_all}, as many as objects")
    if ids is not None and len(ids) and not 0 <= ids.min() <= ids.max() < n:
        raise DomainError(f"ids: expected the indices of the leaves, 0 ... {n - 1}")


def divide_tree(problem: Problem) -> I32:
    """Return (n,) the part of each leaf of this rank.  Collective; ranks gather all weights.

    On the curve, a leaf has a length equal to its weight, and it goes to the part in which its
    midpoint lies.
    """
    assert problem.tree is not None
    place, k = problem.tree.place, problem.parts
    weight = np.ones(problem.n) if problem.weight is None else problem.weight[:, 0]
    leaf = problem.first + np.arange(problem.n) if problem.ids is None else problem.ids
    along = np.empty(problem.n_all)
    for ids, weights in problem.ranks.gather((leaf, weight)):
        along[place[ids]] = weights
    middle = np.cumsum(along) - along / 2
    shares = np.full(k, 1 / k) if problem.shares is None else problem.shares
    ends = np.cumsum(shares) * along.sum()
    some = np.flatnonzero(shares)
    part = np.clip(np.searchsorted(ends, middle, side="left"), some[0], some[-1])
    mine: I32 = part[place[leaf]].astype(np.int32)
    return mine


# ---- the call -----------------------------------------------------------------------------------


MISSING = {
    "graph": "graph is missing: this method divides graphs",
    "nets": "graph and nets are missing: this method divides hypergraphs",
    "coords": "coords are missing: this method divides points",
    "tree": "tree is missing: this method divides the leaves of a refinement tree",
}

# Arguments from which the number of objects follows.
COUNTED = ("graph", "nets", "coords", "tree", "ids", "weight", "old")


def partition(
    graph: Any = None,
    parts: int | None = None,
    *,
    nets: Any = None,
    coords: ArrayLike | None = None,
    tree: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    shares: ArrayLike | None = None,
    method: str | Sequence[str] | None = None,
    approach: str | None = None,
    machine: Any = None,
    old: ArrayLike | None = None,
    nbytes: ArrayLike | None = None,
    migration_ratio: float = 1.0,
    fixed_part: ArrayLike | None = None,
    imbalance: float = 1.03,
    seed: int = 0,
    symmetrize: bool = False,
    comm: Any = None,
    ids: ArrayLike | None = None,
    starts: int = 6,
    cycles: int = 6,
    **params: Any,
) -> Partition:
    """Divide objects into parts of equal weight with little communication between the parts.

    With a communicator the call is collective.  Each rank passes the rows of `graph`, `coords` etc.
    for its own objects; arguments that are not arrays are the same on all ranks.

    Parameters
    ----------
    graph : scipy.sparse matrix or (start, to[, weight]), optional
        A symmetric graph: object v has edges to ``to[start[v]:start[v + 1]]``, and each edge occurs
        in both directions.  Loops and the values of a matrix are ignored.
    parts : int
        Number of parts.  Default: the number of ranks; without a communicator, 2.
    nets : scipy.sparse matrix or (start, pin[, weight]), optional
        A hypergraph: net e has the objects ``pin[start[e]:start[e + 1]]``.  Each net is passed by
        one rank.  Default, for methods that need nets: for each object of the graph a net with the
        object and its neighbours.
    coords : (n, 1 ... 3) array of float, optional
        Positions, for "rcb", "rib" and "hsfc".
    tree : (m,) array of int, optional
        For "reftree": the parent of each element of a refinement tree, e.g. a quadtree or octree;
        -1 for the coarsest elements.  The objects are the leaves, in order of index.  Every rank
        passes the whole tree.
    weight : (n,) or (n, d) array of float, optional
        Weights of the objects; "metis", "rcb" and "parmetis" balance each column.  Default: 1.
    shares : (parts,) array of float, optional
        Relative sizes of the parts; a part with share 0 stays empty.  Default: all equal.
    method : str
        A name in `pylb.partitioning.METHODS`; see the page Partitioning.  "keep": only evaluate the
        parts in `old`.  "hypergraph": make `starts` hypergraph partitions with different seeds,
        refine each by one V-cycle, refine the two best until they have had `cycles` V-cycles, and
        return the best.  Zoltan makes them, or pylb if Zoltan is missing; but Mt-KaHyPar, if it is
        installed, makes the first one if the approach is "partition".  On several ranks, "scotch"
        means "ptscotch", "hypergraph" means "zoltan", and "metis", "mtkahypar" and "pylb" run on
        the first rank.
        Default: "hypergraph" with a graph or nets, "rcb" with `coords`, "reftree" with `tree`.
        With `machine`, also a sequence of names: one for each level, first for the nodes.
    machine : pylb.Machine, pylb.model.Tree, str or path, optional
        Divide hierarchically: first for the top level, then each part for the next level, and so
        on.  `parts` is then by default the number of leaves, and `shares` the part sizes of the
        `pylb.Machine`.  A path, or a string that ends in ``.json``, names a file written by
        `pylb.Machine.save`; other strings are read by `pylb.Machine.parse`.
    approach : {"partition", "repartition", "refine"}, optional
        "partition": from scratch.  "repartition": from `old`, minimizing `migration_ratio` times
        the communication plus the sizes of the objects that leave their part.  "refine": only
        improve `old`.  Points are always divided from scratch; "metis" and "mtkahypar" need
        ``approach="partition"``.  The new parts are numbered so that most objects stay (with
        ``REMAP=0``, they keep Zoltan's numbers).  Default: "repartition" if `old` is given,
        otherwise "partition".
    old : (n,) array of int, optional
        Present part of each object; -1: a new object, which counts as an object of the first part
        of its rank.  Default on several ranks: the first part of the rank that owns the object.
    nbytes : (n,) array of float, optional
        Cost of migrating an object, in units of the edges' or nets' weight.  Default: 1.
    migration_ratio : float
        How often the objects communicate between two repartitions (PHG_REPART_MULTIPLIER).
    fixed_part : (n,) array of int, optional
        Part to which an object must belong; -1: any part.
    imbalance : float
        Largest allowed ratio of a part's weight to its share of the total weight; above 1.
    seed : int
        The same input, number of ranks and seed give the same partition.
    symmetrize : bool
        Add the other direction of edges that are given in one direction only, else an error.
    comm : mpi4py.MPI.Intracomm, optional
    ids : (n,) array of int, optional
        Global id of each object of this rank, used in `graph` and `nets`.  Default: 0, 1, ... from
        the first rank to the last.
    starts, cycles : int
        How much work "hypergraph" does; see `method`.  `cycles` is also used by "pylb".
    **params
        Parameters of the library, with the library's names: ``PHG_COARSENING_METHOD="IPM"``
        (Zoltan), ``NITER=20`` (METIS), ``STRATEGY="quality"`` (Scotch).

    Warns
    -----
    PartitionerWarning
        The method balances only the first of several weights.

    Raises
    ------
    DomainError, OutOfRangeError, DuplicateKeyError, UnknownKeyError
        Arguments are wrong, differ between ranks, or are of no use to the method.
    PartitionerError
        The library failed.  All errors are raised on every rank.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])  # vertices 0 - 1 - 2 - 3, as (start, to)
    >>> best = pylb.partition(line, 2, method="pylb")
    >>> best.part, best.cut, best.max_over_mean
    (array([0, 0, 1, 1], dtype=int32), 1.0, 1.0)
    """
    given = {**locals()}
    ranks = Ranks(comm)

    def read() -> tuple[Request, Problem]:
        for word in params:
            if not word.isupper():
                known = list(inspect.signature(partition).parameters)[:-1]
                also = f"or a library's parameter in capital letters{nearest(word, known)}"
                raise DomainError(f"no parameter {word!r}: expected {', '.join(known)}, {also}")
        levels = None if machine is None else Levels(machine)
        if levels is not None:
            given["parts"] = levels.n_parts if parts is None else parts
            given["shares"] = levels.shares if shares is None else shares
        return _choice(ranks, levels, given), local(ranks, given)

    def whole() -> Partition:
        choice, problem = ranks.together(read, lambda found: _facts(*found))
        complete(problem, choice.symmetrize)
        for name in choice.names:
            _check(problem, name, choice.approach)
        begin = time.perf_counter()
        part, held, rename = _parts_of(problem, choice)
        seconds = time.perf_counter() - begin
        settled, number, sums = settle(problem, part, rename)
        method, cuts = "/".join(choice.names), None
        if held is not None:
            assert problem.coords is not None
            zz, label = held
            if number is not None:
                label = number if label is None else number[label]
            cuts = Cuts(method, problem.parts, problem.coords.shape[1], zz, label)
        return Partition(
            **settled,
            n_parts=problem.parts,
            evaluation=evaluated(problem, settled["part"], sums),
            seconds=seconds,
            method=method,
            approach=choice.approach,
            seed=problem.seed,
            cuts=cuts,
        )

    return ranks.whole(whole)


class Request(NamedTuple):
    names: tuple[str, ...]  # names of the methods, one for each level
    approach: str
    levels: Levels | None
    starts: int
    cycles: int
    symmetrize: bool


def _choice(ranks: Ranks, levels: Levels | None, given: dict[str, Any]) -> Request:
    """Check the arguments that choose the method, and fill in the defaults."""
    method, approach = given["method"], given["approach"]
    if method is None:
        some = [name for name in ("nets", "graph", "coords", "tree") if given[name] is not None]
        rest = {"coords": "rcb", "tree": "reftree"}
        method = rest.get(some[0], "hypergraph") if some else "hypergraph"
    depth = 1 if levels is None else levels.depth
    if not isinstance(method, str | Sequence):
        raise DomainError(f"method is {method!r}: expected a name, or a sequence of names")
    names = (method,) * depth if isinstance(method, str) else tuple(method)
    for name in names:
        if name not in METHODS:
            raise DomainError(unknown("method", name, METHODS))
    takes = {METHODS[name].takes for name in names}
    if "" in takes and all(given[name] is None for name in COUNTED):
        raise DomainError("ids are missing: no other argument gives the number of objects")
    if len(names) != depth:
        raise DomainError(f"method has {len(names)} names: expected {depth}, one for each level")
    if levels is not None and given["parts"] != levels.n_parts:
        expected = f"expected {levels.n_parts}, one for each leaf of machine"
        raise DomainError(f"parts is {given['parts']}: {expected}")
    if levels is not None and "tree" in takes:
        raise DomainError("method 'reftree' cannot divide by levels of a machine")
    if ranks.size > 1:
        names = tuple(METHODS[name].over or name for name in names)
    if approach is None:
        approach = "partition" if given["old"] is None else "repartition"
    checks.one_of("approach", approach, APPROACHES)
    starts = checks.whole("starts", given["starts"], 1)
    cycles = checks.whole("cycles", given["cycles"], 0)
    symmetrize = checks.flag("symmetrize", given["symmetrize"])
    return Request(names, approach, levels, starts, cycles, symmetrize)


def _facts(choice: Request, problem: Problem) -> RankFacts:
    what = {**choice._asdict(), "method": "/".join(choice.names), "machine": None}
    del what["names"]
    if (levels := what.pop("levels")) is not None:
        text = f"{levels.branch} {levels.label.tolist()}"
        what["machine"] = f"{levels.n_parts} leaves, checksum {zlib.crc32(text.encode()):08x}"
    return problem.facts(**what)


def _check(problem: Problem, name: str, approach: str) -> None:
    """Check that the method can use the arguments and has all it needs."""
    how = METHODS[name]
    has = getattr(problem, how.takes) if how.takes else problem.n
    if has is None and not (how.takes == "nets" and problem.graph is not None):
        raise DomainError(MISSING[how.takes])
    if problem.fixed_part is not None and not how.fixes:
        names = [key for key, row in METHODS.items() if row.fixes]
        if problem.ranks.size > 1:  # "scotch" then means "ptscotch", which accepts none
            names = [key for key in names if METHODS[METHODS[key].over or key].fixes]
        raise DomainError(f"method {name!r} accepts no fixed objects: {', '.join(names)} do")
    alone = problem.old is None and problem.ranks.size == 1
    if approach != "partition" and alone:
        raise DomainError(f"old is missing: approach {approach!r} starts from the present parts")
    if approach == "repartition" and not how.repartitions:
        raise DomainError(
            f"method {name!r} divides from scratch, but approach is 'repartition', the default "
            "with old=: expected approach='partition', or method 'hypergraph' or 'zoltan'"
        )
    if problem.tree is not None and how.takes == "tree":
        problem.ranks.together(lambda: check_leaves(problem))


def _parts_of(problem: Problem, choice: Request) -> tuple[I32, Any, bool]:
    """Return each object's part, Zoltan's geometric cuts, and whether parts may be renumbered."""
    if choice.levels is None:
        name = choice.names[0]
        part, held = _answer(problem, name, choice)
        return part, held, _free(problem, name)

    def ask(inner: Problem, name: str) -> I32:
        part, _ = _answer(inner, name, choice)
        rename = inner.old is not None and _free(inner, name)
        return settle(inner, part, rename)[0]["part"] if rename else part

    return divide_by_levels(problem, choice.levels, choice.names, ask), None, False


def _free(problem: Problem, name: str) -> bool:
    """Say whether the parts may be renumbered; new parts along a curve must keep their order."""
    ordered = METHODS[name].takes == "tree" and problem.old is None
    return name != "keep" and not ordered and problem.params.get("REMAP") != "0"


def _answer(problem: Problem, name: str, choice: Request) -> tuple[I32, Any]:
    how, approach = METHODS[name], choice.approach
    weight = problem.weight
    if not (weight is None or weight.shape[1] == 1 or how.several):
        what = f"only one weight per object: the first of {weight.shape[1]}"
        warn(f"method {name!r} balances {what}", PartitionerWarning)
        problem = replace(problem, weight=np.ascontiguousarray(weight[:, :1]))
    if how.takes == "tree":
        return divide_tree(problem), None
    if name == "keep":
        return zoltan.present(problem), None
    if name == "ptscotch" and zoltan.lack_weights(problem)[1]:
        name, how, approach = "scotch", METHODS["scotch"], "partition"
    if how.library == "Zoltan":
        return zoltan.ask(problem, name, how, approach)
    if approach == "repartition" and problem.old is None:
        problem = replace(problem, old=zoltan.present(problem))
    if approach == "refine":
        part, fixed = zoltan.present(problem), problem.fixed_part
        # new and fixed objects need parts, too
        problem = replace(problem, old=part if fixed is None else np.where(fixed < 0, part, fixed))
    return serial.ask(problem, name, how, approach, choice.starts, choice.cycles), None


# ---- levels of a machine ------------------------------------------------------------------------


Branch = tuple[Any, ...]  # a vertex of the tree: the tuple of its children; a leaf is ()


class Levels:
    """The levels of a machine (nodes, sockets, ranks), with a part for each leaf."""

    def __init__(self, machine: Any) -> None:
        if isinstance(machine, str | os.PathLike):
            is_file = not isinstance(machine, str) or machine.endswith(".json")
            machine = Machine.load(machine) if is_file else Machine.parse(str(machine))
        self.shares: F64 | None = None  # (k,) shares of the parts, if the machine has speeds
        if isinstance(machine, Machine):
            self.branch = _branch(machine.root)
            self.label = np.array(machine.ranks, np.int32)  # the part at each leaf: its rank
            self.shares = machine.part_sizes()
        elif isinstance(machine, Tree) and machine.sizes and min(machine.sizes) > 0:
            self.branch = ()
            for size in reversed(machine.sizes):
                self.branch = (self.branch,) * size
            self.label = np.arange(machine.n_ranks, dtype=np.int32)
        else:
            expected = "a pylb.Machine, a pylb.model.Tree with leaves, or a string or file of one"
            raise DomainError(f"machine is {machine!r}: expected {expected}")

        self.depth = _most(self.branch, 0)  # number of levels below the root
        self.n_parts = len(self.label)


def _branch(place: Place) -> Branch:
    return tuple(map(_branch, place.children))


def _most(branch: Branch, least: int) -> int:
    """Return the largest number of vertices with more than `least` children on a way to a leaf."""
    return (len(branch) > least) + max(_most(b, least) for b in set(branch)) if branch else 0


def _leaves(branch: Branch) -> int:
    return sum(map(_leaves, branch)) if branch else 1


def divide_by_levels(
    problem: Problem, levels: Levels, methods: tuple[str, ...], ask: Callable[[Problem, str], I32]
) -> I32:
    """Divide level by level, and return the part of each object, as ``ask(problem, method)`` does.

    Collective.
    """
    place = np.empty_like(levels.label)
    place[levels.label] = np.arange(levels.n_parts, dtype=np.int32)
    inner = renumbered(problem, place, levels.n_parts)
    # k divisions one below the other may each have the k-th root of the imbalance
    inner.imbalance = problem.imbalance ** (1 / max(1, _most(levels.branch, 1)))
    part: I32 = levels.label[_divide(inner, levels.branch, methods, ask)]
    return part


def _divide(
    problem: Problem, branch: Branch, methods: tuple[str, ...], ask: Callable[[Problem, str], I32]
) -> I32:
    """Divide among the leaves below `branch`; return parts, numbered in the order of the leaves."""
    if not branch or problem.n_all == 0:
        return np.zeros(problem.n, np.int32)
    if len(branch) == 1:
        return _divide(problem, branch[0], methods[1:], ask)
    first = np.array([0, *accumulate(map(_leaves, branch))])
    group = np.repeat(np.arange(len(branch), dtype=np.int32), np.diff(first))
    part = ask(renumbered(problem, group, len(branch)), methods[0])
    out: I32 = first[part].astype(np.int32)
    for number, below in enumerate(branch):
        if below:
            mine = part == number
            within = np.where(group == number, np.arange(len(group)) - first[number], -1)
            inner = renumbered(_restricted(problem, mine), within, int(np.diff(first)[number]))
            out[mine] += _divide(inner, below, methods[1:], ask)
    return out


def _restricted(problem: Problem, keep: NDArray[np.bool_]) -> Problem:
    """Return the problem of the objects in `keep`, renumbered, without edges to other objects."""
    ranks = problem.ranks
    counts = ranks.gather(int(np.count_nonzero(keep)))
    dist = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    number = np.full(problem.n, -1, np.int32)
    number[keep] = dist[ranks.rank] + np.arange(counts[ranks.rank])

    arrays: dict[str, Any] = {}
    for name in ("weight", "coords", "fixed_part", "old", "nbytes"):
        array = getattr(problem, name)
        arrays[name] = None if array is None else np.ascontiguousarray(array[keep])
    for name, of_rows in (("graph", keep), ("nets", None)):
        rows = getattr(problem, name)
        arrays[name] = None if rows is None else _select(problem, rows, of_rows, number)
    inner = replace(problem, n=counts[ranks.rank], dist=dist, ids=None, **arrays)
    if inner.weight is not None:
        drop_zeros(inner, bool(ranks.sum(np.count_nonzero(inner.weight, axis=0)).any()))
    return inner


def _select(problem: Problem, rows: Rows, of_rows: NDArray[np.bool_] | None, number: I32) -> Rows:
    """Renumber the entries of rows that have a new number; `of_rows`: the rows to keep, or None."""
    to = of_entries(problem, rows, number)
    row, keep = rows.row(), to >= 0
    if of_rows is not None:
        keep &= of_rows[row]
    count = np.bincount(row[keep], minlength=len(rows))
    count = count if of_rows is None else count[of_rows]
    weight = rows.weight
    if weight is not None and of_rows is not None:
        weight = weight[keep]  # edges have a weight for each entry, nets one for each row
    return Rows(np.concatenate([[0], np.cumsum(count)]), to[keep].astype(np.int64), weight)

"""Placements of the same snapshots by other libraries, called directly, if they are installed.

pymetis and pyscotch (``pip install pymetis pyscotch``) get the graph in their own form; converting
it is not timed.  "bare" is the library that pylb itself calls.  LBAF
(github.com/DARMA-tasking/LB-analysis-framework) reads the snapshot from LBDatafile JSON, its format
of recorded runs; reading is not timed either.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pylb
import pylb.partitioning.libraries

Answer = tuple[float, np.ndarray]  # seconds, rank of each object
MOST_WEIGHT = 1 << 30  # sum of the weights that a library gets, as in csrc/place/parts.c


def installed(name: str) -> bool:
    """Say whether a Python package is installed, without importing it."""
    return importlib.util.find_spec(name) is not None


def csr(snapshot: pylb.Snapshot) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the graph of a snapshot: starts, neighbours, integer weights of objects and edges.

    The graph is undirected.  A multicast is an edge to each of its receivers.
    """
    from scipy.sparse import coo_array

    n, parts = snapshot.n_objects, []
    if snapshot.edges is not None:
        parts.append(snapshot.edges[:3])
    if snapshot.multicasts is not None:
        src, start, dst, nbytes, _ = snapshot.multicasts
        size = np.diff(start)
        parts.append((np.repeat(src, size), dst, np.repeat(nbytes, size)))
    src, dst, nbytes = (np.concatenate(column) for column in zip(*parts, strict=True))
    keep = src != dst
    src, dst, nbytes = src[keep], dst[keep], nbytes[keep]
    both = (np.concatenate([src, dst]), np.concatenate([dst, src]))
    graph = coo_array((np.tile(nbytes, 2), both), shape=(n, n)).tocsr()
    return graph.indptr, graph.indices, _weights(snapshot.load), _weights(graph.data)


def _weights(values: np.ndarray) -> np.ndarray:
    values = values if values.ndim == 1 else values.sum(axis=1)
    total = values.sum()
    small = total <= MOST_WEIGHT and np.array_equal(values, np.floor(values))
    scale = 1.0 if small or total == 0 else MOST_WEIGHT / total
    return np.maximum(1, np.floor(values * scale + 0.5)).astype(np.int32)


Call = Callable[[], np.ndarray]


def bare(library: str, snapshot: pylb.Snapshot) -> Call:
    """Return a call of the library that pylb was built with, with the arrays in its form."""
    starts, neighbours, vertices, edges = csr(snapshot)
    pylb.partitioning.libraries.load(library)
    return functools.partial(
        pylb._core.partition,
        library,
        snapshot.n_objects,
        snapshot.n_ranks,
        weight=vertices,
        start=starts.astype(np.int32),
        to=neighbours.astype(np.int32),
        edge_weight=edges,
        imbalance=1.03,
    )


def metis(snapshot: pylb.Snapshot) -> Call:
    """Return a call of METIS' k-way partitioning through pymetis."""
    import pymetis

    starts, neighbours, vertices, edges = csr(snapshot)
    graph = pymetis.CSRAdjacency(starts, neighbours)
    options = pymetis.Options(seed=1, ufactor=30)

    def call() -> np.ndarray:
        _, part = pymetis.part_graph(
            snapshot.n_ranks,
            adjacency=graph,
            vweights=vertices,
            eweights=edges,
            recursive=False,
            options=options,
        )
        return np.asarray(part)

    return call


def scotch(snapshot: pylb.Snapshot) -> Call:
    """Return a call of Scotch's default mapping through pyscotch."""
    graph = _scotch_graph(snapshot)
    return lambda: np.asarray(graph.partition(snapshot.n_ranks))


def scotch_repart(snapshot: pylb.Snapshot) -> Call:
    """Return a call of Scotch's remapping from the present placement through pyscotch."""
    graph, rank = _scotch_graph(snapshot), snapshot.rank.astype(np.int64)
    return lambda: np.asarray(graph.repart(snapshot.n_ranks, rank, emrat=1.0))


def prepared(library: str, snapshot: pylb.Snapshot) -> dict[str, Call]:
    """Return calls of a library: directly, and through its Python package if that is installed."""
    out = {f"{library} bare": bare(library, snapshot)}
    name, make = {"METIS": ("pymetis", metis), "Scotch": ("pyscotch", scotch)}[library]
    if installed(name):
        out[name] = make(snapshot)
    return out


def timed(make: Callable[..., Call], snapshot: pylb.Snapshot) -> Answer:
    """Time one call; its preparation is not timed."""
    call = make(snapshot)
    begin = time.perf_counter()
    part = call()
    return time.perf_counter() - begin, part


def _scotch_graph(snapshot: pylb.Snapshot):
    with contextlib.redirect_stderr(io.StringIO()):  # pyscotch prints a greeting
        import pyscotch
    starts, neighbours, vertices, edges = csr(snapshot)
    graph = pyscotch.Graph()
    graph.build(starts, neighbours, velotab=vertices, edlotab=edges)
    pyscotch.random_reset()
    return graph


LBAF = {
    "CentralizedPrefixOptimizer": {"do_second_stage": True},
    "InformAndTransfer": {
        "n_iterations": 8,
        "n_rounds": 2,
        "fanout": 2,
        "order_strategy": "element_id",
        "transfer_strategy": "Recursive",
        "criterion": "Tempered",
        "max_objects_per_transfer": 8,
        "deterministic_transfer": True,
    },
}
LBAF_MOST = 1000  # objects; LBAF takes minutes for ten times more


def lbaf(algorithm: str, snapshot: pylb.Snapshot) -> Answer:
    """Run an algorithm of LBAF with the parameters of LBAF's default configuration, and time it."""
    from lbaf.Execution.lbsRuntime import Runtime
    from lbaf.IO import lbsStatistics
    from lbaf.IO.lbsVTDataReader import LoadReader
    from lbaf.Model.lbsPhase import Phase

    log = logging.getLogger("lbaf")
    log.setLevel(logging.CRITICAL)
    LoadReader.SCHEMA_VALIDATOR_CLASS = object  # otherwise LBAF downloads a needless validator
    lbsStatistics.initialize()
    keys = snapshot.key if snapshot.key is not None else np.arange(snapshot.n_objects)
    with tempfile.TemporaryDirectory() as folder:
        pylb.Trace.from_snapshots([snapshot]).save(folder)
        stem = str(Path(folder) / "data")
        reader = LoadReader(stem, log, "json", check_schema=False)
        phase = Phase(log, 0, reader=reader)
        phase.populate_from_log(0)
    work = {"name": "AffineCombination", "parameters": {"beta": 0.0, "gamma": 0.0, "delta": 0.0}}
    how = {"name": algorithm, "phase_id": 0, "parameters": LBAF[algorithm]}
    begin = time.perf_counter()
    with contextlib.redirect_stdout(None):
        done = Runtime({0: phase}, work, how, log).execute(0)
    seconds = time.perf_counter() - begin
    where = {o.get_id(): r.get_id() for r in done.get_ranks() for o in r.get_objects()}
    return seconds, np.array([where[key] for key in keys.tolist()])


def peers(snapshot: pylb.Snapshot) -> dict[str, Callable[[], Answer]]:
    """Return the libraries that are installed and can place this snapshot, by name."""
    calls: dict[str, Callable[[pylb.Snapshot], Answer]] = {}
    talks = snapshot.edges is not None or snapshot.multicasts is not None
    for library in ("METIS", "Scotch"):
        if talks and pylb.partitioning.libraries.available(library):
            make = functools.partial(bare, library)
            calls[f"{library} bare"] = functools.partial(timed, make)
    if talks and installed("pymetis"):
        calls["pymetis"] = functools.partial(timed, metis)
    if talks and installed("pyscotch"):
        calls["pyscotch"] = functools.partial(timed, scotch)
        calls["pyscotch repart"] = functools.partial(timed, scotch_repart)
    if snapshot.n_objects <= LBAF_MOST and installed("lbaf"):
        calls.update({f"LBAF {name}": functools.partial(lbaf, name) for name in LBAF})
    return {name: functools.partial(call, snapshot) for name, call in calls.items()}

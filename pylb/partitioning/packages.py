"""Partition by Mt-KaHyPar, which is a Python package; the C core calls this module.

It runs on one thread: the ranks of a program use the other cores, and with several threads a seed
may give different parts.
"""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import numpy as np

from pylb.errors import PartitionerError
from pylb.model.snapshot import F64, I32
from pylb.optional import require
from pylb.partitioning.arrays import MOST

_LOCK = threading.Lock()  # Mt-KaHyPar is initialized once, and runs one call at a time


@functools.cache
def _mtkahypar() -> Any:
    return require("mtkahypar").initialize(1, False)


def _divide(
    weight: I32, limit: Any, fixed: I32 | None, start: I32, to: I32, net_weight: I32, seed: int
) -> Any:
    """Divide a hypergraph by Mt-KaHyPar's deterministic preset, which minimizes connectivity - 1.

    The preset has no seed; instead, the seed shuffles the numbers of the vertices.
    """
    n_light = int((weight == 0).sum())
    if n_light:  # with vertices of weight 0, Mt-KaHyPar may never end
        times = max(1, min(8 * n_light, MOST // (2 * int(limit.sum()) + 1)))
        weight, limit = np.maximum(1, weight * times), limit * times + n_light
    place = np.random.default_rng(seed).permutation(len(weight))
    vertex = np.argsort(place)
    module, library = require("mtkahypar"), _mtkahypar()
    context = library.context_from_preset(module.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(len(limit), 0.03, module.Objective.KM1)
    context.set_individual_target_block_weights(limit.tolist())
    context.logging = False
    pins, ends = place[to].tolist(), start.tolist()
    rows = [sorted(pins[a:b]) for a, b in itertools.pairwise(ends)]
    # Sort, so that the result does not depend on the order of the nets.
    weighted = sorted(zip(rows, net_weight.tolist(), strict=True))
    nets, weights = [row for row, _ in weighted], [w for _, w in weighted]
    graph = library.create_hypergraph(
        context, len(vertex), len(nets), nets, weight[vertex].tolist(), weights
    )
    if fixed is not None:
        graph.add_fixed_vertices(fixed[vertex].tolist(), len(limit))
    return np.array(graph.partition(context).get_partition())[place]


def _limits(weight: I32, share: F64, imbalance: float, fixed: I32 | None) -> Any:
    """Return weight limits that the parts can meet; with other limits, Mt-KaHyPar may hang.

    With fixed vertices, or if a vertex is heavier than the tolerance allows, a greedy placement,
    the heaviest vertex first, shows which limits can be met.  A part without a share has only fixed
    vertices; they do not raise the limits of other parts.
    """
    mean = np.maximum(weight.sum(dtype=np.int64) * share / share.sum(), 1e-300)
    limit = np.maximum(np.ceil(mean), mean * imbalance)
    if fixed is not None or weight.max() > (limit - mean).min():
        held = np.full(len(weight), -1) if fixed is None else fixed
        stays = held >= 0
        load = np.bincount(held[stays], weight[stays], len(share))
        for w in -np.sort(-weight[~stays].astype(np.int64)):
            load[np.argmin((load + w) / mean)] += w
        most = (load / mean)[share > 0].max()
        limit = np.maximum(limit, np.maximum(mean * most, load))
    return np.ceil(limit).astype(np.int64)


def answer_of(
    n: int,
    parts: int,
    imbalance: float,
    seed: int,
    nets: bool,
    weight: I32 | None,
    share: F64 | None,
    fixed: I32 | None,
    start: I32,
    to: I32,
    edge_weight: I32 | None,
) -> I32:
    """Divide a hypergraph, or without `nets` a graph; see ``csrc/partition/partition.h``."""
    require("mtkahypar")
    weight = np.ones(n, np.int32) if weight is None else weight
    if edge_weight is None:
        edge_weight = np.ones(len(start) - 1 if nets else len(to), np.int32)
    if not nets:
        # The edges of a symmetric graph become nets of two vertices.
        source = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
        one = source < to
        to, edge_weight = np.stack([source[one], to[one]], axis=1).ravel(), edge_weight[one]
        start = np.arange(0, len(to) + 1, 2, dtype=np.int32)
    share = np.ones(parts) if share is None else share
    # Sums of weights must fit into 32 bits.
    weight = weight // (1 + int(imbalance * weight.sum(dtype=np.int64)) // MOST)
    limit = _limits(weight, share, imbalance, fixed)
    try:
        with _LOCK:
            part = _divide(weight, limit, fixed, start, to, edge_weight, seed)
            part = np.ascontiguousarray(part, np.int32)
    except Exception as why:
        raise PartitionerError(f"mtkahypar: {why}") from why
    if part.shape != (n,):
        raise PartitionerError(f"mtkahypar returned a part for {part.size} vertices: expected {n}")
    return part

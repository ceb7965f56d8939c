"""Experts of a mixture-of-experts model on GPUs, with the arguments and results of DeepSeek's EPLB.

See https://github.com/deepseek-ai/EPLB.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.model import checks
from pylb.placing.copies import place_copies

__all__ = ["rebalance_experts"]


def rebalance_experts(
    weight: Any,
    num_replicas: int,
    num_groups: int,
    num_nodes: int,
    num_gpus: int,
    previous: Any = None,
) -> tuple[Any, Any, Any]:
    """Choose how many replicas each expert gets, and the GPU of each replica.

    The replicas of an expert share its load evenly, and are on different GPUs.

    Parameters
    ----------
    weight : (layers, experts) array_like, or tensor
        Load of each expert in each layer, e.g. its number of tokens.
    num_replicas : int
        Number of replicas in each layer.  If `num_gpus` does not divide it, the first GPUs have one
        more.
    num_groups, num_nodes, num_gpus : int
        Number of groups of consecutive experts, of nodes, and of GPUs of all nodes together.  If
        `num_nodes` divides `num_groups`, the experts of a group stay on one node; otherwise, groups
        and nodes are ignored.
    previous : (layers, num_replicas) array_like of int, optional
        The first result of the previous call: as many replicas as possible stay where they are
        (not in EPLB).

    Returns
    -------
    phy2log : (layers, num_replicas) int64
        The expert of each replica; the replicas of the first GPU come first.
    log2phy : (layers, experts, X) int64
        The replicas of each expert, then -1; X is the largest number of replicas of an expert.
    logcnt : (layers, experts) int64
        Number of replicas of each expert.

    All three are tensors (on the CPU) if `weight` is a tensor of torch, else arrays.

    Examples
    --------
    >>> phy2log, log2phy, logcnt = pylb.eplb.rebalance_experts([[90, 10, 20, 40]], 6, 1, 1, 2)
    >>> phy2log, logcnt
    (array([[0, 2, 3, 0, 3, 1]]), array([[2, 1, 1, 2]]))
    """
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(weight, torch.Tensor)
    loads = checks.array("weight", _array(weight, torch), np.float64)
    if loads.ndim != 2 or not loads.size:
        raise DomainError(f"weight has shape {loads.shape}: expected (layers, experts)")
    (layers, n), below = loads.shape, 1 << 31
    gpus = checks.whole("num_gpus", num_gpus, 1, "a number of GPUs", below)
    nodes = checks.whole("num_nodes", num_nodes, 1, "a number of nodes", below)
    groups = checks.whole("num_groups", num_groups, 1, "a number of groups", below)
    s = checks.whole("num_replicas", num_replicas, max(n, gpus), "a replica of each expert", below)
    node: dict[str, Any] = {}
    most = n * gpus
    if groups % nodes == 0 and nodes > 1:
        for name, value, least in (("num_groups", groups, n), ("num_nodes", nodes, gpus)):
            if least % value:
                raise DomainError(f"{name} is {value}: expected a divisor of {least}")
        node = {"group": groups, "node": nodes}
        most //= nodes
    if s > most:
        where = "each GPU of its node" if node else "each GPU"
        raise DomainError(
            f"num_replicas is {s}: expected at most {most}, each expert once on {where}"
        )
    plan = place_copies(loads, slots=s, ranks=gpus, previous=_array(previous, torch), **node)
    phy2log = plan.copies["object"].astype(np.int64)
    at = phy2log + n * np.arange(layers)[:, None]
    logcnt = np.bincount(at.ravel(), minlength=layers * n)
    order = np.argsort(at, axis=None, kind="stable")  # replicas by layer and expert
    nth = np.arange(layers * s) - np.repeat(np.cumsum(logcnt) - logcnt, logcnt)
    log2phy = np.full((layers * n, logcnt.max()), -1, np.int64)
    log2phy[at.ravel()[order], nth] = order % s
    out = (phy2log, log2phy.reshape(layers, n, -1), logcnt.reshape(layers, n))
    return tuple(torch.from_numpy(x) for x in out) if is_tensor else out  # type: ignore[union-attr]


def _array(value: Any, torch: Any) -> Any:
    """Return a tensor as an array; floats as float64, which NumPy has for each type of torch."""
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.double() if value.is_floating_point() else value).numpy()

"""The metrics of a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb.partition.arrays import F64

I64 = NDArray[np.int64]
KEPT = 1 + 1e-6  # rounding errors of sums that keep the tolerance


@dataclass(frozen=True, eq=False)
class Quality:
    """The metrics of a partition, as in Zoltan_LB_Eval; the same on all ranks.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> figures = pylb.partition(line, 2, method="block").evaluation
    >>> figures.objects, figures.cut
    (array([2, 2]), 1.0)
    """

    objects: I64  #: (k,) number of objects in each part.
    weights: F64  #: (k,) sum of the objects' weights in each part.
    #: (d,) largest ratio of a part's weight to its share of the total, for each of the d weights;
    #: max/mean if the shares are equal.
    imbalance: F64
    object_imbalance: float  #: The imbalance if each object had the weight 1.
    #: (k,) number and weight of the edges from each part to other parts.  The sum over the parts
    #: counts each edge twice, as in Zoltan.  Without a graph, `cut_edges`, `cut_weight`,
    #: `boundary`, `neighbours` and `cut` are None.
    cut_edges: F64 | None = None
    cut_weight: F64 | None = None
    #: (k,) number of objects of each part with a neighbour in another part.
    boundary: I64 | None = None
    neighbours: I64 | None = None  #: (k,) number of other parts to which each part has edges.
    cut: float | None = None  #: Weight of the edges between parts; each edge counts once.
    #: Sum over the nets of weight * (touched parts - 1).  For a graph without nets, each object
    #: with its neighbours is a net.
    connectivity: float | None = None
    cut_nets: float | None = None  #: Weight of the nets that touch several parts.
    #: The largest allowed imbalance, as in the argument `imbalance` of `pylb.partition`.
    tolerance: float = 1.03
    #: By which fraction the largest `imbalance` exceeds the tolerance; 0 if it keeps it.
    missed: float = 0.0
    #: Whether the tolerance can be kept.  True: this partition does.  False: no partition can,
    #: because of the heaviest object, of fixed objects, or of the number of equal objects.  None:
    #: not known.
    possible: bool | None = True

    def table(self) -> list[list[Any]]:
        """Return rows with name, sum, minimum, mean and maximum over the parts."""
        weights = self.weights.reshape(len(self.weights), -1).T
        named: list[tuple[str, Any]] = [("objects", self.objects)]
        names = ["weight"] if len(weights) == 1 else [f"weight {i}" for i in range(len(weights))]
        named += zip(names, weights, strict=True)
        for name in ("cut_edges", "cut_weight", "boundary", "neighbours"):
            named.append((name.replace("_", " "), getattr(self, name)))
        return [
            [name, x.sum().item(), x.min().item(), x.mean().item(), x.max().item()]
            for name, x in named
            if x is not None
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics as a dict for JSON."""
        out: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            out[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return out

    def __str__(self) -> str:
        lines = [f"{'':12}{'sum':>12}{'min':>12}{'mean':>12}{'max':>12}"]
        for name, *values in self.table():
            lines.append(f"{name:12}" + "".join(f"{x:12.6g}" for x in values))
        lines.append("max over share: " + ", ".join(f"{x:.4g}" for x in self.imbalance))
        if self.missed:
            why = (
                "a better partition may exist" if self.possible is None else "no partition keeps it"
            )
            lines.append(f"tolerance {self.tolerance:g}: missed by {self.missed:.2%}; {why}")
        for name in ("cut", "connectivity", "cut_nets"):
            value = getattr(self, name)
            if value is not None:
                label = "connectivity - 1" if name == "connectivity" else name.replace("_", " ")
                lines.append(f"{label}: {value:.6g}")
        return "\n".join(lines)


class Counts(NamedTuple):
    """The counts of all ranks together; `quality` makes a `Quality` of them on demand."""

    objects: F64  #: (k,) number of objects of each part.
    weights: list[F64]  #: For each weight, its sum over the objects of each part.
    #: For a graph: cut edges, their weight, and boundary objects of each part; the volume; the
    #: number of neighbours of each part.
    cut: list[NDArray[Any]] | None
    #: (2,) sum over the nets of connectivity - 1, and number of cut nets, both weighted.
    nets: F64 | None
    shares: F64 | None  #: (k,)
    tolerance: float
    least: float  #: No partition has a lower imbalance; 0 if nothing is known.

    def quality(self) -> Quality:
        """Return all metrics of the partition."""
        weights, k = self.weights or [self.objects], len(self.objects)
        shares = np.full(k, 1 / k) if self.shares is None else self.shares
        out: dict[str, Any] = {
            "objects": self.objects.astype(np.int64),
            "weights": weights[0].copy() if len(weights) == 1 else np.array(weights).T.copy(),
            "imbalance": np.array([_highest_ratio(w, shares) for w in weights]),
            "object_imbalance": _highest_ratio(self.objects, shares),
            "tolerance": self.tolerance,
        }
        if (most := float(out["imbalance"].max())) > self.tolerance * KEPT:
            possible = None if self.least <= self.tolerance * KEPT else False
            out |= {"missed": most / self.tolerance - 1, "possible": possible}
        if self.cut is not None:
            out |= _graph_figures(*self.cut)
        if self.nets is not None:
            out["connectivity"], out["cut_nets"] = self.nets.tolist()
        return Quality(**out)


def _graph_figures(
    cut: F64, weight: F64, boundary: F64, volume: F64, neighbours: NDArray[Any]
) -> dict[str, Any]:
    """Return the fields of `Quality` that need a graph, by name."""
    return {
        "cut_edges": cut.copy(),
        "cut_weight": weight.copy(),
        "boundary": boundary.astype(np.int64),
        "neighbours": neighbours,
        "cut": float(weight.sum()) / 2,
        # a net is an object with its neighbours; it is cut if the object is at the boundary
        "connectivity": float(volume[0]),
        "cut_nets": float(boundary.sum()),
    }


def least_imbalance(
    total: float, n: int, heaviest: float, lightest: float, fixed: F64, shares: F64
) -> float:
    """Return a lower bound of the imbalance of any partition, for one weight.

    Parameters
    ----------
    total : float
        Sum of the weights of all objects; above 0.
    n : int
        Number of objects with a weight above 0.
    heaviest, lightest : float
        The largest weight, and the smallest above 0.
    fixed : (k,) array
        Weight of the fixed objects of each part.
    shares : (k,) array
        The parts' shares; their sum is 1.
    """
    if (fixed[shares == 0] > 0).any():
        return np.inf
    used = shares > 0
    low: float = max(
        1.0, heaviest / total / shares.max(), float((fixed[used] / shares[used]).max() / total)
    )
    if heaviest == lightest:  # equal objects: only whole numbers of them fit
        high = n + 1 / shares.max()
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            few = np.floor(middle * shares * n * KEPT).sum() < n
            low, high = (middle, high) if few else (low, middle)
        low = high
    return low


def _highest_ratio(load: F64, shares: F64) -> float:
    """Return the largest ratio of a part's load to its share of the total load; 1 without loads."""
    total = float(load.sum())
    if total == 0:
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(load > 0, load / (total * shares), 0.0)
    return float(over.max())

"""Zoltan: ``csrc/bind/zoltanmodule.c``, ``csrc/partition/libraries/zoltan.h``."""

from typing import Any, Final

from numpy import float64, int32, int64
from numpy.typing import NDArray

version: Final[str]
partitioner: Final[Any]

def partition(
    comm: Any, dist: Any, parts: int, home: int, old: Any, *, n_weights: int = 0, n_dims: int = 0,
    first_net: int = 0, weight: Any = None, share: Any = None, coords: Any = None,
    start: Any = None, to: Any = None, edge_weight: Any = None, net_start: Any = None,
    pin: Any = None, net_weight: Any = None, fixed: Any = None, size: Any = None,
    options: list[str] = [], keep: bool = False, scale: float = 0.0,
) -> tuple[NDArray[int32], Any]: ...  # fmt: skip
def points(cuts: Any, n_dims: int, points: Any, /) -> NDArray[int32]: ...
def boxes(
    cuts: Any, n_dims: int, n_parts: int, name: Any, lo: Any, hi: Any, /
) -> tuple[NDArray[int64], NDArray[int32]]: ...
def regions(
    cuts: Any, n_dims: int, n_parts: int, /
) -> tuple[NDArray[float64], NDArray[float64]]: ...

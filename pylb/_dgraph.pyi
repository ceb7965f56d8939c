"""Graph colouring by Zoltan and graph ordering by PT-Scotch, ``csrc/bind/dgraphmodule.c``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def color(
    comm: Any, first: int, start: Any, to: Any, owner: Any, distance: int, /
) -> NDArray[np.int32]: ...
def order(
    comm: Any, first: int, start: Any, to: Any, owner: Any, total: int, /
) -> tuple[NDArray[np.int32], NDArray[np.int32] | None, NDArray[np.int32] | None]: ...

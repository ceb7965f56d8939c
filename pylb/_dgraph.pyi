"""Graph colouring by Zoltan and graph ordering by PT-Scotch, ``csrc/bind/dgraphmodule.c``."""

from typing import Any

def color(
    comm: Any, start: Any, to: Any, number: Any, owner: Any, distance: int, color: Any, /
) -> None: ...
def order(
    comm: Any, start: Any, to: Any, perm: Any, room: int, first: Any, parent: Any, /
) -> int: ...

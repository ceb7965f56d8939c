"""Zoltan, ``csrc/partitioners/zoltan.c``."""

from typing import Any, Final

version: Final[str]
partitioner: Final[Any]

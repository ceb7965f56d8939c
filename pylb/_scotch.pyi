"""Scotch, ``csrc/partitioners/scotch.c``."""

from typing import Any, Final

version: Final[str]
partitioner: Final[Any]

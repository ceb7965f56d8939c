"""Scotch: ``csrc/bind/scotchmodule.c``, ``csrc/partition/libraries/scotch.c``."""

from typing import Any, Final

version: Final[str]
partitioner: Final[Any]

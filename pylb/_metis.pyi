"""METIS, ``csrc/partitioners/metis.c``."""

from typing import Any, Final

version: Final[str]
partitioner: Final[Any]

"""METIS: ``csrc/bind/metismodule.c``, ``csrc/partition/libraries/metis.c``."""

from typing import Any, Final

version: Final[str]
partitioner: Final[Any]

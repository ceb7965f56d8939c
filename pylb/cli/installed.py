"""What this pylb was built with, and what it finds at run time."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from pylb import _core
from pylb._version import __version__
from pylb.optional import PARTS, OptionalPart, first_line
from pylb.run.environment import settings_in_force


def gather() -> dict[str, Any]:
    """Version, compiler, SIMD levels, MPI and optional parts, ready for JSON.

    Returns
    -------
    dict
        ``version``, ``compiler``, ``simd`` (``cpu``: what the processor offers, which is what runs;
        ``compiled``: what the whole core was compiled for), ``python``, ``numpy``, ``mpi``
        (``pylb`` and ``mpi4py``: library strings or None; ``agree``: None unless both are there),
        ``environment`` (variables that override what programs say, by name) and ``parts``: for each
        optional part ``name``, ``version`` (None: missing or broken), ``problem`` (the error of
        loading it), ``purpose``, and ``command``, which installs it.
    """
    return {
        "version": __version__,
        "compiler": _core.compiler,
        "simd": _core.simd(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "mpi": _mpi(),
        "environment": settings_in_force(),
        "parts": [_state(part) for part in PARTS.values()],
    }


def _state(part: OptionalPart) -> dict[str, str | None]:
    version, problem = None, None
    try:
        version = part.find()
    except ModuleNotFoundError:
        pass  # absent: the command is all that a user needs
    except (ImportError, OSError) as error:
        problem = str(error)
    return {
        "name": part.name,
        "version": version,
        "problem": problem,
        "purpose": part.purpose,
        "command": part.command,
    }


def _mpi() -> dict[str, str | bool | None]:
    strings: dict[str, str | None] = {"pylb": None, "mpi4py": None}
    with suppress(ImportError):  # `parts` gives the reason
        strings["pylb"] = first_line(import_module("pylb._mpi").library_version())
    with suppress(ImportError):
        strings["mpi4py"] = first_line(import_module("mpi4py.MPI").Get_library_version())
    both = strings["pylb"] is not None and strings["mpi4py"] is not None
    return {**strings, "agree": strings["pylb"] == strings["mpi4py"] if both else None}

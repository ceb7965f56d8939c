"""Find out what this pylb was built with, and which optional parts are installed."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from pylb import _core
from pylb._version import __version__
from pylb.optional import PARTS, OptionalPart, first_line, needed_first
from pylb.run.environment import settings_in_force


def gather() -> dict[str, Any]:
    """Return versions, compiler, SIMD levels, MPI and optional parts, ready for JSON.

    Returns
    -------
    dict
        - ``version``, ``compiler``, ``python``, ``numpy``
        - ``simd``: ``cpu``, the level of the processor, which is used at run time; ``compiled``,
          the level for which the core was compiled
        - ``mpi``: ``pylb`` and ``mpi4py``, the version of the MPI library that each uses, or None;
          ``agree``, whether the versions are equal (None: one is missing)
        - ``environment``: the variables, by name, that override arguments of pylb in programs
        - ``parts``: for each optional part ``name``, ``version`` (None: missing or broken),
          ``problem`` (why it cannot be loaded), ``purpose``, and ``command``, which installs it
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
    version, problem, command = None, None, part.command
    try:
        version = part.find()
    except ModuleNotFoundError as error:  # absent, not broken: there is no problem to report
        needed = needed_first(part, error)
        if needed.name != part.name:
            problem, command = f"needs {needed.name}", needed.command
    except (ImportError, OSError) as error:
        problem = str(error)
    return {
        "name": part.name,
        "version": version,
        "problem": problem,
        "purpose": part.purpose,
        "command": command,
    }


def _mpi() -> dict[str, str | bool | None]:
    strings: dict[str, str | None] = {"pylb": None, "mpi4py": None}
    with suppress(ImportError):  # the list of parts says why MPI is missing
        strings["pylb"] = first_line(import_module("pylb._mpi").library_version())
    with suppress(ImportError):
        strings["mpi4py"] = first_line(import_module("mpi4py.MPI").Get_library_version())
    both = strings["pylb"] is not None and strings["mpi4py"] is not None
    return {**strings, "agree": strings["pylb"] == strings["mpi4py"] if both else None}

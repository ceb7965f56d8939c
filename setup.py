"""Build of the C core.  Project data stands in pyproject.toml.

pylb._core needs a C compiler and NumPy, nothing else.  pylb._mpi is built where an MPI compiler
is found (MPICC, else mpicc on the PATH) and left out, saying so, where there is none.

Environment: MPICC=path; PYLB_MPI=0 leaves pylb._mpi out; PLB_DEBUG=1 no optimisation;
PLB_SANITIZE=1 address and undefined-behaviour sanitizers; PLB_WERROR=1 warnings are errors.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup

ROOMS = ["base", "measure", "decide", "place", "move", "machine", "explore"]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-declarations"]


def sources(*folders):
    return sorted(str(p) for f in folders for p in Path("csrc", f).glob("*.c"))


def headers():
    return sorted(str(p) for p in Path("csrc").rglob("*.h"))


def flags():
    out = ["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-ffp-contract=off", *WARNINGS]
    out += ["-O0", "-g"] if os.environ.get("PLB_DEBUG") else ["-O3", "-g1"]
    if os.environ.get("PLB_WERROR"):
        out += ["-Werror"]
    if os.environ.get("PLB_SANITIZE"):
        out += ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
    return out


def extension(name, files, include=(), compile_args=(), link_args=()):
    sanitize = ["-fsanitize=address,undefined"] if os.environ.get("PLB_SANITIZE") else []
    return Extension(
        name,
        files,
        include_dirs=["csrc", numpy.get_include(), *include],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=[*flags(), *compile_args],
        extra_link_args=[*sanitize, *link_args],
        depends=headers(),
    )


def mpi_extension():
    """The extension for MPI, or None with a line that says why not."""
    if os.environ.get("PYLB_MPI") == "0":
        return None
    mpicc = os.environ.get("MPICC") or shutil.which("mpicc")
    if not mpicc:
        print("pylb: no mpicc found: building without pylb._mpi", file=sys.stderr)
        return None
    try:
        import mpi4py

        shown = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=True)
    except (ImportError, OSError, subprocess.CalledProcessError) as why:
        print(f"pylb: {why}: building without pylb._mpi", file=sys.stderr)
        return None
    words = shlex.split(shown.stdout)[1:]
    print(f"pylb: building pylb._mpi with {mpicc}", file=sys.stderr)
    out = extension(
        "pylb._mpi",
        sources("base", "measure", "mpi")
        + [f"csrc/py/{f}.c" for f in ("mpimodule", "errors", "stats", "views")],
        include=[mpi4py.get_include()],
        compile_args=[w for w in words if w.startswith(("-I", "-D"))],
        link_args=[w for w in words if not w.startswith(("-I", "-D"))],
    )
    # A broken MPI costs pylb._mpi, not the whole install, unless this MPI was asked for.
    out.optional = "MPICC" not in os.environ
    return out


def extensions():
    core = [f for f in sources(*ROOMS, "py") if not f.endswith("mpimodule.c")]
    mpi = mpi_extension()
    return [extension("pylb._core", core, link_args=["-lm", "-pthread"]), *([mpi] if mpi else [])]


setup(ext_modules=extensions())

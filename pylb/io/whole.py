"""Files that appear when they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pylb.errors import MissingFileError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a file to write; it gets the name `path` when all is written.

    Raises
    ------
    MissingFileError
        There is no such folder.
    OSError
        The file cannot be written; the message has the name `path`.
    """
    out = Path(path)
    if not out.parent.is_dir():
        raise MissingFileError(f"{out}: there is no folder {out.parent}")
    part = out.with_name(f".{out.name}.part")
    try:
        yield part
        part.replace(out)
    except OSError as why:
        if why.errno is None or str(part) not in str(why):
            raise
        raise OSError(why.errno, os.strerror(why.errno), str(out)) from None
    finally:
        part.unlink(missing_ok=True)

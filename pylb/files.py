"""Open files safely: read only regular files, and let a new file appear only when complete."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, BinaryIO

from pylb.console import clip
from pylb.errors import DomainError, FormatError, MissingFileError, MissingPartError, PylbError

MOST_TEXT = 1 << 32  # limit of the size of a text or JSON file in bytes
STREAMS = ("/dev/std", "/dev/fd/", "/proc/")  # these paths name files that a process has open
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


def decoded(path: str | os.PathLike[str]) -> str:
    """Return a path as text; raise DomainError if it is not a path."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise DomainError(f"path is {clip(repr(path), 60)}: expected a path") from None


def named(path: str | os.PathLike[str]) -> str:
    """Return the path of a new file as text; DomainError if it is no path or has a zero byte."""
    name = decoded(path)
    if "\0" in name:
        raise DomainError(f"path is {clip(repr(name), 60)}: expected a path without a zero byte")
    return name


def descriptor(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading without blocking, and return its descriptor.

    Raises DomainError if `path` is not a path, MissingFileError if there is no such file,
    FormatError for a folder, pipe, socket or device, and OSError if the file cannot be read.
    """
    name = decoded(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"{name}: no such file") from None
    except ValueError as why:  # the path contains a zero byte
        raise MissingFileError(f"{name!r}: {why}") from None
    except OSError as why:
        if why.errno == errno.ENXIO:
            raise FormatError(f"{name} is a socket: expected a regular file") from None
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise FormatError(f"{name} is {kind_of(mode)}: expected a regular file")
    return fd


def kind_of(mode: int) -> str:
    """Return the kind of a file in words: "a folder", "a pipe" and so on."""
    return KINDS.get(stat.S_IFMT(mode), "a regular file")


def reading(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read its bytes; the errors are those of `descriptor`."""
    return open(descriptor(path), "rb")


def begins(path: str | os.PathLike[str], start: bytes) -> bool:
    """Say whether a path is a regular file that begins with `start`."""
    try:
        with reading(path) as file:
            return file.read(len(start)) == start
    except (OSError, FormatError):
        return False


def text(path: str | os.PathLike[str], most: int = MOST_TEXT) -> str:
    """Read a whole file in UTF-8; FormatError if it is no UTF-8, or longer than `most` bytes."""
    name = decoded(path)
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FormatError(f"{name} has {size} bytes: expected at most {most}")
        try:
            return file.read().decode()
        except UnicodeDecodeError as why:
            raise FormatError(f"{name}: byte {why.start} is not UTF-8 text") from None


def json_of(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; the errors are those of `text`, and FormatError if it is not JSON."""
    content = text(path)
    with understood(path, "JSON"):
        return json.loads(content)


def check_format(found: Any, expected: str, version: int = 1) -> None:
    """Check the header ``{"format": ..., "version": ...}`` of a JSON file."""
    content = (found["format"], found["version"])
    if content != (expected, version):
        raise FormatError(
            f"format is {content[0]!r}, version {content[1]!r}: expected {expected!r}, {version}"
        )


@contextmanager
def understood(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn an error of reading a file in this block into a short FormatError that names the file.

    Errors pass unchanged if a file or an optional package is missing, or permission is denied.
    `what` says what the file should be, e.g. "a machine".
    """
    name = decoded(path)
    try:
        yield
    except (MissingFileError, MissingPartError, PermissionError):
        raise
    except RecursionError:
        raise FormatError(f"{name}: not {what}: it is nested too deeply") from None
    except Exception as why:
        if isinstance(why, FormatError) and name in str(why):
            raise
        content = " ".join(str(why).split()) or type(why).__name__
        raise FormatError(f"{name}: not {what}: {clip(content)}") from why


@contextmanager
def writing(path: str | os.PathLike[str], mode: str = "wb", **how: Any) -> Iterator[IO[Any]]:
    """Open a new file, which replaces `path` when the block ends without an error.

    Until then the new file has no name, so that nothing remains if the process is killed.  If the
    file system does not support this, the file has a random name.  A device or a pipe is written
    directly.

    `mode` is "wb", "w+b" or "w"; `how` has further arguments of `open`.  Raises DomainError if
    `path` is not a path or has a zero byte, MissingFileError if there is no such folder, and
    OSError, which names `path`, if the file cannot be written.
    """
    path = named(path)
    target, made, old = os.path.realpath(path), False, None
    folder = os.path.dirname(target)
    part = os.path.join(folder, f".pylb-{os.urandom(8).hex()}.part")
    try:
        with suppress(FileNotFoundError):  # other errors end here, before the caller computes
            old = os.stat(path).st_mode
        if old is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if old is not None and (not stat.S_ISREG(old) or path.startswith(STREAMS)):
            with open(path, mode, **how) as file:
                yield file
            return
        if not os.path.isdir(folder):
            raise MissingFileError(f"{path}: there is no folder {folder}")
        try:
            fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError as why:
            if why.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
            flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR | os.O_CLOEXEC
            fd, made = os.open(part, flags, 0o666), True
        with open(fd, mode, **how) as file:
            if old is not None:
                os.fchmod(fd, stat.S_IMODE(old))
            yield file
            file.flush()
            if not made:
                # linkat(2) must follow the link in /proc.  Python calls linkat only if `src_dir_fd`
                # is given; this argument has no other effect, because the path is absolute.
                os.link(f"/proc/self/fd/{fd}", part, src_dir_fd=fd, follow_symlinks=True)
                made = True
        os.replace(part, target)
        made = False
    except OSError as why:
        if isinstance(why, PylbError) or why.errno is None:
            raise
        raise OSError(why.errno, why.strerror, path) from None
    finally:
        if made:
            with suppress(FileNotFoundError):
                os.unlink(part)


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Write a whole file in UTF-8; the errors are those of `writing`."""
    with writing(path, "w", encoding="utf-8") as file:
        file.write(content)

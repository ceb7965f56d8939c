"""HDF5 files: written so that a full disk ends nothing, and read so that none can do harm.

libhdf5 sees the files only through the two classes of this module.  A write that fails would leave
its file open and crash the process at its end.  A damaged file can make libhdf5 loop without end,
allocate what a number in the file says, or open other files.
"""

from __future__ import annotations

import errno
import io
import math
import os
import stat
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from pylb import optional
from pylb.errors import FormatError
from pylb.files import descriptor

SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUFFIXES = (".h5", ".hdf5")
MOST = 1 << 40  # bytes that a file that was cut short claims to have
CHUNK = 1 << 14  # elements of a chunk of a whole array
MOST_AT_ONCE = 1 << 28  # bytes of a chunk, and of one read
MOST_DEFLATED = 1032  # how many times larger data become, RFC 1951
HEAP = b"GCOL\x01\0\0\0"  # head of a global heap, followed by its size


# ---- writing ----------------------------------------------------------------------------------


class Output:
    """An HDF5 file that is written.

    Parameters
    ----------
    where : path or file
        A path: the file is created at once, and grows.  A file, opened by ``"w+b"``: it belongs to
        the caller.

    Attributes
    ----------
    h5 : h5py.File

    Raises
    ------
    OSError
        The file cannot be created.
    """

    def __init__(self, where: str | os.PathLike[str] | IO[bytes]) -> None:
        h5py = optional.require("h5py")
        self._name = os.fspath(where) if isinstance(where, str | os.PathLike) else None
        fd = where.fileno() if self._name is None else _created(where)  # type: ignore
        self._kept = _Kept(fd, self._name is not None)
        # The oldest layout does not mark a file as open, so it can be read if its writer has died.
        self.h5 = h5py.File(self._kept, "w", libver="earliest")
        # At the interpreter's end libhdf5 would call Python when it is gone.
        self._finalize = weakref.finalize(self, _close, self.h5, self._kept)

    def text(self, name: str, said: str) -> None:
        """Write a short text as an attribute of fixed length: no global heap can be damaged."""
        self.h5.attrs.create(name, said.encode(), dtype=f"S{max(len(said.encode()), 1)}")

    def array(self, name: str, values: Any) -> None:
        """Write a whole array, with a checksum of each chunk."""
        how = {"chunks": (min(len(values), CHUNK),), "fletcher32": True} if len(values) else {}
        self.h5.create_dataset(name, data=values, **how)
        self._check()

    def flush(self) -> None:
        """Write what is in memory; OSError if anything could not be written so far."""
        self.h5.flush()
        self._check()

    def close(self) -> None:
        """Flush and close; may be called twice.  OSError as `flush`."""
        self._finalize()
        self._check()

    def _check(self) -> None:
        if self._kept.failed is not None:
            why = self._kept.failed
            raise OSError(why.errno, why.strerror, self._name)


def _created(path: str | os.PathLike[str]) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    os.ftruncate(fd, 0)
    return fd


def _close(file: Any, kept: _Kept) -> None:
    file.close()
    kept.close()


class _Kept(io.RawIOBase):
    """A file that never fails: from the first error on, what is written stays in memory.

    That is little, because the writer stops when it sees the error.
    """

    def __init__(self, fd: int, owned: bool) -> None:
        super().__init__()
        self._fd, self._owned, self._at = fd, owned, 0
        self._unwritten: list[tuple[int, bytes]] = []
        self.failed: OSError | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (self._end() if whence == io.SEEK_END else 0)
        return self._at

    def _end(self) -> int:
        ends = [at + len(data) for at, data in self._unwritten]
        return max([os.fstat(self._fd).st_size, *ends])

    def readinto(self, buffer: Any) -> int:
        out = memoryview(buffer).cast("B")
        n = os.preadv(self._fd, [out], self._at)
        out[n:] = bytes(len(out) - n)
        for at, data in self._unwritten:
            low, high = max(at, self._at), min(at + len(data), self._at + len(out))
            if low < high:
                out[low - self._at : high - self._at] = data[low - at : high - at]
        self._at += len(out)
        return len(out)

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        at, self._at = self._at, self._at + len(left)
        n = len(left)
        try:
            while left and self.failed is None:
                done = os.pwrite(self._fd, left, at)
                left, at = left[done:], at + done
        except OSError as why:
            self.failed = why
        if left:
            self._unwritten.append((at, bytes(left)))
        return n

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        try:
            if self.failed is None:
                os.ftruncate(self._fd, size)
        except OSError as why:
            self.failed = why
        return size

    def close(self) -> None:
        if self._owned and not self.closed:
            os.close(self._fd)
        super().close()


# ---- reading ----------------------------------------------------------------------------------


@contextmanager
def reading(
    path: str | os.PathLike[str], dtypes: Mapping[str, Any], *, cut: bool = False
) -> Iterator[Input]:
    """Open a file to read it; with `cut`, also one that was cut short.

    `dtypes` are the types that its datasets must have, by name.

    Raises
    ------
    MissingFileError, MissingPartError
        There is no such file; h5py is absent.
    FormatError
        It is not an HDF5 file.
    """
    h5py = optional.require("h5py")
    with _Bounded(descriptor(path), cut) as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise FormatError(f"{os.fsdecode(path)}: not an HDF5 file")
        with h5py.File(file, "r") as opened:
            yield Input(opened, file.size, dtypes)


class Input:
    """An HDF5 file that is read: only what is in this file itself, and not more than its size."""

    def __init__(self, file: Any, size: int, dtypes: Mapping[str, Any]) -> None:
        self._file, self._size, self._dtypes = file, size, dtypes
        self._wholes: dict[str, Any] = {}  # datasets; None: it can be read only in part

    def text(self, name: str) -> str:
        """A text attribute of the file; empty if there is none."""
        said = self._file.attrs.get(name, "")
        if isinstance(said, bytes):
            said = said.decode()
        if not isinstance(said, str):
            raise FormatError(f"{name} is no text")
        return said

    def number(self, name: str, low: int, high: int) -> int:
        """An attribute that is a number in this range."""
        said = int(self._file.attrs[name])
        if not low <= said <= high:
            raise FormatError(f"{name} is {said}: expected {low} ... {high}")
        return said

    def bytes(self, name: str) -> bytes:
        """A dataset of bytes; those of missing data are zeros, or there are none."""
        said = self.rows(name)
        return b"" if said is None else said.tobytes()

    def names(self, group: str) -> int:
        """How many datasets a group has: they are named by their numbers."""
        return len(self._own(group))

    def length(self, name: str) -> int:
        """Number of rows of a dataset."""
        return len(self._dataset(name))

    def rows(self, name: str, first: int = 0, n: int | None = None) -> Any:
        """Read n rows of a dataset (default: all), or None if that fails."""
        if name not in self._wholes:  # many small reads would take longer than one
            self._wholes[name] = self._read(name, 0, None)
        whole = self._wholes[name]
        if whole is None:
            return self._read(name, first, n)
        n = len(whole) - first if n is None else n
        return whole[first : first + n] if 0 <= first <= first + n <= len(whole) else None

    def _read(self, name: str, first: int, n: int | None) -> Any:
        try:
            found = self._dataset(name)
            n = len(found) - first if n is None else n
            width = found.dtype.itemsize * math.prod(found.shape[1:])
            most = self._size * (MOST_DEFLATED if found.compression else 1)
            if not (0 <= first <= first + n <= len(found) and n * width <= most):
                return None
            return found[first : first + n]
        except (OSError, RuntimeError):
            return None

    def _own(self, name: str) -> Any:
        """What has this name in the file: no link to elsewhere is followed."""
        h5py = optional.require("h5py")
        parts = name.split("/")
        for i in range(len(parts)):
            link = self._file.get("/".join(parts[: i + 1]), getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise FormatError(f"{name} is {'absent' if link is None else 'a link'}")
        return self._file[name]

    def _dataset(self, name: str) -> Any:
        found = self._own(name)
        if not isinstance(found, optional.require("h5py").Dataset) or not found.shape:
            raise FormatError(f"{name} is no array")
        if found.external or found.is_virtual:
            raise FormatError(f"{name} is in another file")
        expected = self._dtypes.get(name, found.dtype)
        if found.dtype.hasobject or found.dtype.newbyteorder("=") != expected:
            raise FormatError(f"{name} has the type {found.dtype}: expected {expected}")
        if math.prod(found.chunks or (0,)) * found.dtype.itemsize > MOST_AT_ONCE:
            raise FormatError(f"{name} has chunks of {found.chunks}")
        return found


class _Bounded(io.FileIO):
    """A file whose numbers are not believed; if it was cut short, with zeros after its end.

    The checksums of missing data are then wrong.
    """

    def __init__(self, fd: int, cut: bool) -> None:
        super().__init__(fd, "rb")
        self.size = os.fstat(fd).st_size
        self._end = MOST if cut else self.size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (self._end if whence == io.SEEK_END else 0)
        if not 0 <= at <= self._end:
            raise FormatError(f"it refers to its byte {at}")
        return super().seek(at)

    def readinto(self, buffer: Any) -> int:
        out = memoryview(buffer).cast("B")
        if len(out) > MOST_AT_ONCE:
            raise FormatError(f"it has a piece of {len(out)} bytes")
        at = self.tell()
        n = super().readinto(out) or 0
        out[n:] = bytes(len(out) - n)
        _check_heaps(bytes(out), self.size - at)
        return len(out)


def _check_heaps(data: bytes, left: int) -> None:
    """Check the global heaps in a part of a file that has `left` bytes.

    libhdf5 goes through a heap by the sizes of its objects, without end if a free one has no size.
    Only texts of variable length are in such heaps, as in pylb's files before version 3.
    """
    start = data.find(HEAP)
    while start >= 0:
        size = int.from_bytes(data[start + 8 : start + 16], "little")
        at, end = start + 16, min(start + size, len(data))
        if start + size > left:
            raise FormatError("its global heap is cut short")
        while at + 16 <= end:
            used = int.from_bytes(data[at : at + 2], "little") > 0
            length = int.from_bytes(data[at + 8 : at + 16], "little")
            if start + size < at + length + 16 * used or (not used and length < 16):
                raise FormatError("its global heap is damaged")
            at += 16 + -(-length // 8) * 8 if used else length
        start = data.find(HEAP, start + 8)

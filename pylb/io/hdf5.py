"""Write and read HDF5 files: a full disk or a truncated file does not crash the process.

libhdf5 uses the files only through the classes of this module.  Without them, a failed write would
leave the file open and crash the process at its end, and no part of a truncated file could be read.
"""

from __future__ import annotations

import errno
import io
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
MOST = 1 << 40  # size in bytes that libhdf5 sees if a truncated file is accepted
CHUNK = 1 << 14  # elements of a chunk, for arrays that are written by one call


class Output:
    """An HDF5 file for writing.

    `where` is a path, or a file opened with ``"w+b"``, which the caller closes.  An older `Output`
    of this process for the same path is closed, and its next `check` raises an error.
    """

    def __init__(self, where: str | os.PathLike[str] | IO[bytes]) -> None:
        h5py = optional.require("h5py")
        self._name = os.fspath(where) if isinstance(where, str | os.PathLike) else None
        if self._name is None:
            fd = where.fileno()  # type: ignore[union-attr]
        else:
            fd = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise OSError(errno.EINVAL, "not a regular file", self._name)
            older = _open.get(_identity(fd))
            if older is not None:  # two records must not mix
                older.end(OSError(errno.EBUSY, "another record is written to this file now"))
            os.ftruncate(fd, 0)
        self._kept = _Kept(fd, self._name is not None)
        # The oldest layout does not mark a file as open, so the file can be read after a crash.
        self.h5 = h5py.File(self._kept, "w", libver="earliest")
        # The finalizer closes the file before the interpreter ends; otherwise, libhdf5 would call
        # Python afterwards.
        self._finalize = weakref.finalize(self, _close, self.h5, self._kept)
        if self._name is not None:
            _open[_identity(fd)] = self

    def text(self, name: str, value: str) -> None:
        """Write a short text as an attribute of fixed length, which needs no global heap."""
        self.h5.attrs.create(name, value.encode(), dtype=f"S{max(len(value.encode()), 1)}")

    def array(self, name: str, values: Any) -> None:
        """Write a whole array, with a checksum of each chunk."""
        how = {"chunks": (min(len(values), CHUNK),), "fletcher32": True} if len(values) else {}
        self.h5.create_dataset(name, data=values, **how)
        self.check()

    def flush(self) -> None:
        """Write all data to disk; raise OSError if this or an earlier write failed."""
        self.h5.flush()
        self.check()

    def close(self) -> None:
        """Flush and close; may be called twice.  Raises OSError like `flush`."""
        self._finalize()
        self.check()

    def check(self) -> None:
        """Raise OSError if an earlier write failed, or another `Output` writes to the file now."""
        if self._kept.failed is not None:
            why = self._kept.failed
            raise OSError(why.errno, why.strerror, self._name)

    def end(self, why: OSError) -> None:
        """Close the file, which another `Output` will overwrite; `check` raises `why`."""
        self._finalize()
        self._kept.failed = why


# The outputs of this process to paths, by the identities of their files.
_open: weakref.WeakValueDictionary[tuple[int, int], Output] = weakref.WeakValueDictionary()


def _identity(fd: int) -> tuple[int, int]:
    about = os.fstat(fd)
    return about.st_dev, about.st_ino


def _close(file: Any, kept: _Kept) -> None:
    file.close()
    kept.close()


class _Kept(io.RawIOBase):
    """A file whose writes never fail: after an error, the few data to come stay in memory."""

    def __init__(self, fd: int, owned: bool) -> None:
        super().__init__()
        self._fd, self._owned, self._at = fd, owned, 0
        self._unwritten: list[tuple[int, bytes]] = []
        self.failed: OSError | None = None

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


@contextmanager
def reading(
    path: str | os.PathLike[str], dtypes: Mapping[str, Any], *, cut: bool = False
) -> Iterator[Input]:
    """Open an HDF5 file for reading.

    `dtypes` has the required type of each dataset by name.  `cut` accepts a truncated file.
    """
    h5py = optional.require("h5py")
    with _Padded(descriptor(path), cut) as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            raise FormatError(f"{os.fsdecode(path)}: not an HDF5 file")
        with h5py.File(file, "r") as opened:
            yield Input(opened, dtypes)


class Input:
    """An HDF5 file for reading."""

    def __init__(self, file: Any, dtypes: Mapping[str, Any]) -> None:
        self._file, self._dtypes = file, dtypes
        self._wholes: dict[str, Any] = {}  # datasets read so far; None if not readable as a whole

    def text(self, name: str) -> str:
        """Return a text attribute of the file; empty if there is none."""
        return (self._attribute(name, "S", "text of fixed length") or b"").decode()

    def number(self, name: str) -> int:
        """Return an integer attribute of the file; 0 if there is none."""
        return int(self._attribute(name, "iu", "integer") or 0)

    def _attribute(self, name: str, kinds: str, expected: str) -> Any:
        # A text of variable length is refused: in a truncated file libhdf5 may loop forever.
        attributes = self._file.attrs
        if name not in attributes:
            return None
        dtype = attributes.get_id(name).dtype
        if dtype.kind not in kinds:
            raise FormatError(f"attribute {name} has the type {dtype}: expected {expected}")
        return attributes[name]

    def bytes(self, name: str) -> bytes:
        """Return a dataset as bytes, with zeros for missing data; b"" if none can be read."""
        value = self.rows(name) if name in self._file else None
        return b"" if value is None else value.tobytes()

    def n_datasets(self, group: str) -> int:
        return len(self._file[group])

    def length(self, name: str) -> int:
        return len(self._dataset(name))

    def rows(self, name: str, first: int = 0, n: int | None = None) -> Any:
        """Return n rows of a dataset from `first` on (default: all); None if unreadable."""
        if name not in self._wholes:  # one large read is faster than many small ones
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
            if not 0 <= first <= first + n <= len(found) or not _has_sound_chunks(found):
                return None
            return found[first : first + n]
        except (OSError, RuntimeError):
            return None

    def _dataset(self, name: str) -> Any:
        found = self._file[name]
        expected = self._dtypes.get(name, found.dtype)
        if found.dtype.hasobject or found.dtype.newbyteorder("=") != expected:
            raise FormatError(f"{name} has the type {found.dtype}: expected {expected}")
        return found


def _has_sound_chunks(found: Any) -> bool:
    """Say whether each chunk has room for its checksum.

    libhdf5 2.0 does not check this, and crashes if half-written data give a chunk the size 0.
    """
    chunks, least = found.id, 4
    if not found.fletcher32:
        return True
    if not hasattr(chunks, "chunk_iter"):  # before HDF5 1.12.3
        return all(chunks.get_chunk_info(i).size >= least for i in range(chunks.get_num_chunks()))
    return not chunks.chunk_iter(lambda one: None if one.size >= least else True)


class _Padded(io.FileIO):
    """A file that is followed by zeros.

    With `cut`, it appears long enough for every offset in a truncated file.  The zeros do not match
    the checksums of the missing data.
    """

    def __init__(self, fd: int, cut: bool) -> None:
        super().__init__(fd, "rb")
        self._cut = cut

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if self._cut and whence == io.SEEK_END:
            return super().seek(MOST + offset)
        return super().seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        out = memoryview(buffer).cast("B")
        n = super().readinto(out) or 0
        out[n:] = bytes(len(out) - n)
        return len(out)

"""Bytes that a migration sends, measured by packing some of the objects."""

from __future__ import annotations

from typing import Any

from pylb import _core
from pylb.comm import parcel
from pylb.run.objects import Item, Store

SAMPLE = 32  # how many objects of a type are packed, at most


class SizeEstimator:
    """Estimates the bytes of objects whose size is not given, and the seconds to pack one.

    Some objects of each type, spread over the keys, are packed; the others get the mean size.

    Attributes
    ----------
    refused : (int, Exception) or None
        Key of an object that cannot be packed, and why.
    """

    def __init__(self) -> None:
        self._of_type: dict[type, tuple[int, int]] = {}  # bytes, objects that were packed
        self._seconds, self._packed = 0.0, 0
        self.refused: tuple[int, Exception] | None = None

    @property
    def handling(self) -> float:
        """Seconds to pack an object; 0 if none was packed."""
        return self._seconds / self._packed if self._packed else 0.0

    def measure(self, store: Store) -> None:
        """Give every object a size.

        An object that cannot be packed keeps size 0.  The LB step that moves it, or shadow mode,
        raises the error.
        """
        unknown: dict[type, list[Item]] = {}
        for item in store.items.values():
            if item.nbytes == 0 or not self._packed:
                unknown.setdefault(type(item.value), []).append(item)
        for kind, items in unknown.items():
            if kind not in self._of_type:
                self._sample(kind, items[:: -(-len(items) // SAMPLE)])
            nbytes, n = self._of_type[kind]
            for item in items:
                item.nbytes = item.nbytes or nbytes // max(n, 1)

    def _sample(self, kind: type, items: list[Any]) -> None:
        total = n = 0
        for item in items:
            begin = _core.clock()
            try:
                nbytes = parcel.size_of(parcel.pack(item.value))
            except Exception as why:
                self.refused = self.refused or (item.key, why)
                continue
            self._seconds += max(_core.clock() - begin, 0.0)
            self._packed += 1
            item.nbytes = item.nbytes or nbytes
            total, n = total + nbytes, n + 1
        self._of_type[kind] = total, n

"""Estimate the bytes that migrations send, by packing some of the objects."""

from __future__ import annotations

import numpy as np

from pylb import _core
from pylb.comm import parcel
from pylb.model.snapshot import I64
from pylb.run.object_store import Store

SAMPLE = 32  # largest number of objects of a type that are packed


class SizeEstimator:
    """Estimates the bytes of objects whose size is not given, and the seconds to pack one.

    Some objects of each type, evenly spaced in order of keys, are packed; the other objects of the
    type that have no given size get the mean size.
    """

    def __init__(self) -> None:
        self._of_type: dict[type, tuple[int, int]] = {}  # type -> (bytes, number of packed objects)
        self._seconds, self._packed = 0.0, 0
        # Key of an object that cannot be packed, and why.
        self.refused: tuple[int, Exception] | None = None

    @property
    def handling(self) -> float:
        """Mean seconds to pack an object; 0 if none was packed."""
        return self._seconds / self._packed if self._packed else 0.0

    def measure(self, store: Store) -> None:
        """Give every object a size.

        An object that cannot be packed raises no error here; the LB step that moves it, or shadow
        mode, raises the error.
        """
        nbytes = store.properties["nbytes"]
        unknown = np.flatnonzero(nbytes == 0) if self._packed else np.arange(len(store))
        if not len(unknown):
            return
        every = dict.fromkeys(map(type, store.values))
        number = np.fromiter(map(id, map(type, store.values)), np.int64, len(store))[unknown]
        for kind in every:
            mine = unknown[number == id(kind)]
            if not len(mine):
                continue
            if kind not in self._of_type:
                self._sample(kind, mine[:: -(-len(mine) // SAMPLE)], store, nbytes)
            total, n = self._of_type[kind]
            mine = mine[nbytes[mine] == 0]
            nbytes[mine] = total // max(n, 1)
        store.properties.given["nbytes"] = nbytes

    def _sample(self, kind: type, places: I64, store: Store, nbytes: I64) -> None:
        total = n = 0
        for i in places.tolist():
            begin = _core.clock()
            try:
                size = parcel.size_of(parcel.pack(store.values[i]))
            except Exception as why:
                self.refused = self.refused or (int(store.keys[i]), why)
                continue
            self._seconds += max(_core.clock() - begin, 0.0)
            self._packed += 1
            nbytes[i] = nbytes[i] or size
            total, n = total + size, n + 1
        self._of_type[kind] = total, n

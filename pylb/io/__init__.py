"""Read files into plain arrays, and write them.

The files are run records (HDF5, or JSON from the C library), checkpoints, and LBDatafiles of vt.
The arrays are in `RunData` and `Phases`.  This package imports `model`, and `decide` for receipts.
"""

from pylb.io.phases import Phases
from pylb.io.run_record import Loop, RunData, RunFacts, Stretch

__all__ = ["Loop", "Phases", "RunData", "RunFacts", "Stretch"]

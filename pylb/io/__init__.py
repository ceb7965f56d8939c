"""Read files into plain arrays, and write them.

The files are run records (HDF5) and LBDatafiles of vt; the arrays are in `RunData` and `Phases`.
This room imports `model` and the receipts of `decide`.
"""

from pylb.io.phases import Phases
from pylb.io.run_record import Loop, RunData, RunFacts, Stretch

__all__ = ["Loop", "Phases", "RunData", "RunFacts", "Stretch"]

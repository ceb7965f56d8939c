"""Files to plain arrays and back.

In and out: run records (HDF5) and the LBDatafile of vt; as data `RunData` and `Phases`.  Imports
`model` and the receipts of `decide`.
"""

from pylb.io.phases import Phases
from pylb.io.run_record import Loop, RunData, RunFacts, Stretch

__all__ = ["Loop", "Phases", "RunData", "RunFacts", "Stretch"]

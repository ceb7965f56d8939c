"""Files to plain arrays and back: run records (HDF5) and the LBDatafile of vt."""

from pylb.io.phases import Phases
from pylb.io.run_record import Loop, RunData, RunFacts, Stretch

__all__ = ["Loop", "Phases", "RunData", "RunFacts", "Stretch"]

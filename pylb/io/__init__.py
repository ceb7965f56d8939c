"""Files: run records (HDF5) and the LBDatafile of vt."""

from pylb.io.run_record import RunRecord

__all__ = ["RunRecord"]

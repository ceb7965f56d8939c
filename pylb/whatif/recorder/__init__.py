"""Record the operations of an MPI program, for `pylb.whatif`."""

from pylb.whatif.recorder.marks import procedure
from pylb.whatif.recorder.recording import Recording

__all__ = ["Recording", "procedure"]

"""Record the operations of an MPI program, for `pylb.whatif`."""

from pylb.prediction.recorder.marks import procedure
from pylb.prediction.recorder.recording import Recording

__all__ = ["Recording", "procedure"]

"""Record the operations of an MPI program, for `pylb.whatif`."""

from pylb.prediction.recorder.recording import Recording, procedure

__all__ = ["Recording", "procedure"]

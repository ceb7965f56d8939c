"""Recorded operations of an MPI program: what `pylb record` writes and `pylb.whatif` reads."""

from pylb.whatif.recorder.marks import procedure
from pylb.whatif.recorder.recording import Recording

__all__ = ["Recording", "procedure"]

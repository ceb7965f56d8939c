"""Recorded operations of an MPI program: what `pylb record` writes and `pylb.whatif` reads."""

from pylb.events.procedures import procedure
from pylb.events.recording import Recording

__all__ = ["Recording", "procedure"]

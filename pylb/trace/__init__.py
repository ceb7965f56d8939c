"""Recorded runs."""

from pylb.trace.trace import Trace

__all__ = ["Trace"]

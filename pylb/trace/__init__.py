"""Recorded runs, and generated ones."""

from pylb.trace.record import RunRecord
from pylb.trace.synthetic import hotspot
from pylb.trace.trace import Trace

__all__ = ["RunRecord", "Trace", "hotspot"]

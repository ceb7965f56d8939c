"""Shared by benchmarks: snapshots, other libraries, the quality of a placement."""

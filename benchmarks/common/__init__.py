"""Modules that the benchmarks share: snapshots, other libraries, starting programs, results."""

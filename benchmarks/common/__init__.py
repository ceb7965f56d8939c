"""What several benchmarks share: snapshots, other libraries, the quality of a placement."""

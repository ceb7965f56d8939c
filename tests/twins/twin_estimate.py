"""The estimate of an object's load (csrc/measure/estimate.c), in plain Python.

A `row` is a list: the column of one object in the estimator's table.  This file computes its first
four entries; only the core fills the others.
"""

MEAN, PASSES, ERROR, SPREAD = range(4)


def follow(row, load):
    """Update the estimate with a load in seconds.

    The gain is that of Trigg and Leach, one iteration late.
    """
    row[PASSES] += 1
    if row[PASSES] <= 2:  # the first iteration is a warm-up
        row[MEAN] = load
        return
    e = load - row[MEAN]
    signal = min(abs(row[ERROR]) / row[SPREAD], 1.0) if row[SPREAD] > 0 else 0.0
    row[MEAN] += max(signal, 0.1, 1 / (row[PASSES] - 1)) * e
    if row[PASSES] == 3:
        row[SPREAD] = abs(e)
    row[ERROR] += 0.2 * (e - row[ERROR])
    row[SPREAD] += 0.2 * (abs(e) - row[SPREAD])

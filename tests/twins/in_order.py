"""Sums from left to right, as in a loop of C; since Python 3.12, `sum` of floats is more exact."""


def added(values):
    out = 0.0
    for value in values:
        out += value
    return out

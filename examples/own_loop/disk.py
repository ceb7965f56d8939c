"""The work of a mesh through which a disk moves, for the programs of this folder."""

import time

import numpy as np


def compute(place, part):
    """Compute a step of some cells; return the seconds that each took.

    place: (n, 2) centres of the cells in the unit square; part: how much of the run is over,
    0 ... 1.  Cells in the disk have more to do.
    """
    seconds = np.zeros(len(place))
    refined = ((place - 0.2 - 0.6 * part) ** 2).sum(axis=1) < 0.2**2
    for cell, fine in enumerate(refined):
        began = time.thread_time()
        for _ in range(200 if fine else 10):
            np.sqrt(np.arange(1000.0))
        seconds[cell] = time.thread_time() - began
    return seconds

"""The program of overlap.py in charm4py, whose LB step stops all objects (AtSync, GreedyRefineLB).

    pip install charm4py==1.1
    python -m charmrun.start +p2 benchmarks/overlap_charm4py.py +balancer GreedyRefineLB ++local

2 ranks, 64 objects, half a second of computing an iteration; a quarter of the objects has twice the
load of the others, and after each LB step the next quarter has.  Prints, for each iteration, its
seconds and those of the LB step after it (0: none).  MEGABYTES (16) and STEPS (4) in the
environment: size of an object, and number of LB steps.
"""

import os
import time

import numpy as np
from charm4py import Array, Chare, Future, charm

N, EVERY, SECONDS = 64, 3, 0.5
MEGABYTES, STEPS = (float(os.environ.get(k, v)) for k, v in (("MEGABYTES", 16), ("STEPS", 4)))


def compute(seconds, numbers):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        np.sqrt(numbers).sum()


class Block(Chare):
    def __init__(self):
        self.data = np.full(int(MEGABYTES * 1e6) // 8, float(self.thisIndex[0]))
        self.iteration, self.over = 0, None

    def iterate(self, over):
        heavy = self.thisIndex[0] * 4 // N == self.iteration // EVERY % 4
        compute(2 * SECONDS / N * (1.6 if heavy else 0.8), np.arange(2000.0))
        self.iteration += 1
        self.reduce(over)

    def balance(self, over):
        self.over = over
        self.AtSync()

    def resumeFromSync(self):
        self.reduce(self.over)


def seconds_of(call):
    begin, over = time.perf_counter(), Future()
    call(over)
    over.get()
    return time.perf_counter() - begin


def main(_):
    blocks = Array(Block, N, useAtSync=True)
    for it in range(EVERY * (int(STEPS) + 1)):
        passed = seconds_of(blocks.iterate)
        paused = seconds_of(blocks.balance) if it % EVERY == EVERY - 1 else 0.0
        print(f"{it} {passed:.3f} {paused:.3f}", flush=True)
    charm.exit()


charm.start(main)

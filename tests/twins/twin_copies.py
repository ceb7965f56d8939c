"""Oracles of copies and packs in plain Python: DeepSeek's EPLB, and Karmarkar and Karp's method.

Written from their descriptions: https://github.com/deepseek-ai/EPLB, and Michiels, Korst and Aarts
(2003), "Performance ratios for the Karmarkar-Karp differencing method".
"""

import heapq

import numpy as np


def packed(weight, n_packs):
    """Return (pack, place in it) of each item: the heaviest first, to the lightest pack with room.

    All packs get the same number of items.
    """
    room = len(weight) // n_packs
    if room == 1:
        return np.arange(len(weight)), np.zeros(len(weight), int)
    sums, count = [0.0] * n_packs, [0] * n_packs
    pack, place = np.zeros(len(weight), int), np.zeros(len(weight), int)
    for item in sorted(range(len(weight)), key=lambda i: -weight[i]):
        best = min((k for k in range(n_packs) if count[k] < room), key=lambda k: sums[k])
        pack[item], place[item] = best, count[best]
        sums[best] += weight[item]
        count[best] += 1
    return pack, place


def replicated(weight, n_slots):
    """Return the object of each slot: one each, then again that with the largest load a copy."""
    count = np.ones(len(weight), int)
    objects = list(range(len(weight)))
    for _ in range(n_slots - len(weight)):
        objects.append(int(np.argmax(weight / count)))
        count[objects[-1]] += 1
    return np.array(objects), count


def eplb(weight, n_replicas, n_groups=1, n_nodes=1, n_gpus=1):
    """Return phy2log of one layer, as EPLB places it."""
    if n_groups % n_nodes:
        n_groups = n_nodes = 1
    weight = np.asarray(weight, float)
    size = len(weight) // n_groups
    of_group, _ = packed(weight.reshape(n_groups, size).sum(1), n_nodes)
    out = []
    for node in range(n_nodes):
        own = np.concatenate(
            [np.arange(g * size, (g + 1) * size) for g in range(n_groups) if of_group[g] == node]
        )
        objects, count = replicated(weight[own], n_replicas // n_nodes)
        gpu, place = packed((weight[own] / count)[objects], n_gpus // n_nodes)
        out.append(own[objects][np.lexsort((place, gpu))])
    return np.concatenate(out)


def times(weight, phy2log, n_gpus):
    """Return the load of each GPU if the copies of an expert share its load evenly."""
    one = np.asarray(weight, float) / np.maximum(np.bincount(phy2log, minlength=len(weight)), 1)
    return one[phy2log].reshape(n_gpus, -1).sum(1)


def least_copy(weight, n_slots, n_ranks):
    """Return the smallest possible load of the largest copy, by bisection."""
    weight = np.asarray(weight, float)
    low, high = 0.0, float(weight.max(initial=0.0))
    for _ in range(100):
        middle = (low + high) / 2
        count = np.ceil(np.divide(weight, middle, out=np.ones_like(weight), where=middle > 0))
        count = np.maximum(count, 1)
        fits = count.sum() <= n_slots and count.max() <= n_ranks
        low, high = (low, middle) if fits and middle > 0 else (middle, high)
    return high


def karmarkar_karp(lengths, n_bins, equal=False):
    """Return the items of each bin by the largest differencing method.

    equal: all bins get the same number of items, which begin in groups of one for each bin.
    """

    def state(bins):  # of (sum, items)
        bins.sort(key=lambda b: -b[0])
        return (bins[-1][0] - bins[0][0], next(tie), bins)

    tie = iter(range(1 << 60))
    if equal:
        order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        starts = [order[i : i + n_bins] for i in range(0, len(order), n_bins)]
    else:
        starts = [[i] for i in range(len(lengths))]
    heap = [
        state([(lengths[i], [i]) for i in start] + [(0, [])] * (n_bins - len(start)))
        for start in starts
    ]
    heapq.heapify(heap)
    while len(heap) > 1:
        one, two = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        both = zip(one, reversed(two), strict=True)
        heapq.heappush(heap, state([(a[0] + b[0], a[1] + b[1]) for a, b in both]))
    return [items for _, items in heap[0][2]]

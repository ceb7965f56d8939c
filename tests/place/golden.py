"""Stored answers of pylb's own strategies, partitioners and triggers to small cases.

``python tests/place/golden.py`` compares them with `golden.json` and writes the file again.  Do so
only for a change of behaviour that is wanted, and say in the commit which answers changed and why.

Nothing here is random: loads and edges are remainders of integers, the same on any machine.
"""

import json
from pathlib import Path

import numpy as np

import pylb

FILE = Path(__file__).with_suffix(".json")
KEPT = ("iteration", "choice", "strategy", "until", "times", "left", "max", "mean", "before")
KEPT += ("predicted", "migrations", "realised", "gain", "iterations", "reason", "why", "seconds")
KEPT += ("seconds_warm_up", "passed_over", "heaviest", "next_heaviest", "heaviest_key", "ahead")
KEPT += ("before_with_messages", "predicted_with_messages", "realised_idle_max")
FIGURES = ("tau", "max_slope", "mean_slope", "growth", "residual", "excess", "rate", "cost")


def remainders(n, factor, modulus):
    return np.arange(1, n + 1) * factor % modulus


def grid(width, height):
    """Return the edges of a grid: (source, destination, bytes), each way."""
    ids = np.arange(width * height).reshape(height, width)
    one = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    other = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    nbytes = 1000.0 * (1 + remainders(len(one), 7, 5))
    return np.concatenate([one, other]), np.concatenate([other, one]), np.tile(nbytes, 2)


def snapshots():
    """Return {name: snapshot}: uneven loads; uneven ranks with limits; many objects; and so on."""
    n, p = 48, 6
    load = (1.0 + remainders(n, 37, 101)) / 64.0
    blocks = np.arange(n) * p // n
    memory = 1 + remainders(n, 11, 17)
    coords = np.stack([np.arange(n) % 8, np.arange(n) // 8, np.zeros(n)], axis=1)
    return {
        "blocks": pylb.Snapshot(load, blocks, n_ranks=p, edges=grid(8, 6), coords=coords),
        "unlike": pylb.Snapshot(
            load,
            blocks // 2,
            n_ranks=p,
            edges=grid(8, 6),
            nbytes=1000 * (1 + remainders(n, 13, 19)),
            memory=memory,
            memory_limit=np.full(p, 260),
            migratable=remainders(n, 5, 12) > 0,
            speed=np.array([1.0, 1.0, 2.0, 2.0, 0.5, 1.0]),
            background=np.array([0.0, 0.5, 0.0, 0.25, 0.0, 0.0]),
            node=np.arange(p) // 2,
            coords=coords,
        ),
        "many": pylb.Snapshot((1.0 + remainders(252, 37, 101)) / 64.0, np.arange(252) // 42),
        "wide": pylb.Snapshot(  # many ranks, most of which have nothing at first
            (1.0 + remainders(240, 37, 101)) / 64.0,
            np.arange(240) // 60,
            n_ranks=30,
            node=np.arange(30) // 6,
            edges=grid(20, 12),
            coords=np.stack([np.arange(240) % 20, np.arange(240) // 20, np.zeros(240)], axis=1),
        ),
        "vectors": pylb.Snapshot(
            np.stack([load, (1.0 + remainders(n, 29, 53)) / 64.0], axis=1), blocks, n_ranks=p
        ),
    }


def placed():
    """Return {"strategy, snapshot": ranks of the objects}, or the error."""
    found = {}
    own = [row.name for row in pylb.strategies().values() if not (row.library or row.call)]
    for name in own:
        for what, snapshot in snapshots().items():
            try:
                ranks = pylb.place(snapshot, name, seed=5).rank.tolist()
            except pylb.errors.PylbError as error:
                ranks = [type(error).__name__]
            found[f"{name}, {what}"] = " ".join(map(str, ranks))
    return found


def partitioned():
    """Return {"method, approach": parts of the objects} of the methods that need no library."""
    n = 48
    weight = (1.0 + remainders(n, 37, 101)) / 64.0
    old = np.arange(n) * 4 // n
    graph = grid(8, 6)
    rows = np.argsort(graph[0], kind="stable")
    start = np.searchsorted(graph[0][rows], np.arange(n + 1))
    csr = (start, graph[1][rows], graph[2][rows])
    first, inside = np.arange(0, 4 * 20 + 1, 4), remainders(80, 31, n)
    tree = np.concatenate([[-1], np.arange(39) // 3])  # three children each; 27 leaves
    asks = {
        "pylb, partition": {"graph": csr, "method": "pylb"},
        "pylb, repartition": {"graph": csr, "method": "pylb", "old": old},
        "pylb, refine": {"graph": csr, "method": "pylb", "old": old, "approach": "refine"},
        "pylb, nets": {"nets": (first, inside), "method": "pylb"},
        "keep": {"graph": csr, "method": "keep", "old": old},
        "reftree": {"tree": tree, "method": "reftree", "weight": weight[:27]},
    }
    return {
        name: " ".join(map(str, pylb.partition(parts=4, seed=5, **{"weight": weight} | ask).part))
        for name, ask in asks.items()
    }


def decided():
    """Return {trigger: receipts} of a replayed run, with the strategy given or chosen."""
    trace = pylb.replaying.hotspot(n_ranks=5, n_objects=40, n_phases=25, noise=0.0, turns=1.0)
    asks = {name: {"strategy": "GreedyLB", "trigger": name} for name in pylb.triggers()}
    asks["auto, which strategy"] = {}
    asks["foresight"] = {"strategy": "RefineLB", "every": 3, "foresight": True}
    asks["lag"] = {"lag": 3, "alpha": 1e-4, "beta": 1e-9}
    return {
        name: [kept(receipt) for receipt in trace.replay(**ask, cost=0.004).decisions]
        for name, ask in asks.items()
    }


def triggered():
    """Return {trigger, program: iterations of the LB steps}."""
    i = np.arange(400)
    wave = np.abs(i % 60 - 30.0) / 60.0
    drifts = {"grows": i / 400.0, "steps": i // 90 * 0.25, "wave": wave, "stays": 0.0 * i}
    noise = remainders(400, 37, 101) / 2000.0 + 2.0 * (i % 97 == 50)
    found = {}
    for what, drift in drifts.items():
        program = pylb.replaying.Imbalance(1.0, drift=drift, noise=noise, start=0.25)
        for name in pylb.triggers():
            for cost in (0.25, 8.0):
                known = (400, cost if what == "grows" else np.nan)
                steps = program.run(name, cost=cost, expect=known).iterations
                found[f"{name}, {what}, {cost}"] = " ".join(map(str, steps))
    return found


def program(comm, jumps, noisy, options):
    """Run 80 iterations on virtual ranks; from iteration 40 on, rank 0 takes three times longer.

    jumps: in iterations 20 and 21, a few objects take ten times longer.  noisy: the loads of all
    objects change in each iteration, so that no placement stays balanced.
    """
    lb = pylb.Balancer(comm, **options)
    work = (1.0 + remainders(48, 37, 101)) / 2048.0
    for key in range(12 * comm.rank, 12 * comm.rank + 12):
        lb.add(key, None, nbytes=1000 * (1 + key % 7))
    for it in lb.iterate(80):
        for key, _ in lb.local():
            lb.send((key + 1) % 48, key, b"12345")
            odd = 10.0 if jumps and it in (20, 21) and key % 12 < 3 else 1.0
            odd *= 1.0 + (key * 31 + it * 17) % 53 if noisy else 1.0
            comm.elapse(odd * work[key] * (3.0 if it >= 40 and comm.rank == 0 else 1.0))
    return lb.history


def steered():
    """Return {case: receipts} of programs on ranks of unlike speed, which nobody has told pylb."""
    asks = {
        "auto": (False, False, {}),
        "jumps": (True, False, {"learn_speeds": False}),
        "useless": (False, True, {"trigger": "threshold", "strategy": "GreedyLB"}),
        "noisy": (True, True, {}),
        "slower": (False, False, {"learn_speeds": True, "pause_if_useless": False}),
        "given": (True, False, {"learn_speeds": True, "strategy": "RefineLB", "every": 7}),
    }
    found = {}
    for name, ask in asks.items():
        cluster = pylb.VirtualCluster(
            4, speed=[1.0, 1.0, 0.5, 0.25], network=(3e-4, 0.0), clock="none"
        )
        found[name] = [kept(receipt) for receipt in cluster.run(program, *ask)[0]]
    return found


def kept(receipt):
    """Return one line of text with nine digits, which all mathematical libraries agree on."""
    told = receipt.to_dict()
    told |= told.pop("figures")
    values = {key: told[key] for key in (*KEPT, *FIGURES)}
    for other in told["alternatives"]:
        values[other["strategy"] or "no LB step"] = other["gain"]
    return ", ".join(
        f"{k} {round(v, 12):.9g}" if isinstance(v, float) else f"{k} {v}"
        for k, v in values.items()
        if v == v
    )


ROOMS = {"place": placed, "partition": partitioned, "decide": decided}
ROOMS |= {"trigger": triggered, "steer": steered}


def write():
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    now = {room: ask() for room, ask in ROOMS.items()}
    for room, answers in now.items():
        old = before.get(room, {})
        for name in sorted(answers.keys() | old.keys()):
            if answers.get(name) != old.get(name):
                print(f"{room}: {name}: changed")
    FILE.write_text(json.dumps(now, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write()

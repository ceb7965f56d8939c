"""pylb.partition over communicators."""

import itertools
from importlib.util import find_spec

import dgraph_cases
import numpy as np
from each_case import raised

import pylb
from pylb import errors

SIDE = 20
N = SIDE * SIDE


GRID = dgraph_cases.grid(SIDE, SIDE)
START, TO = GRID.indptr, GRID.indices.astype(int)
WEIGHT = 1.0 + np.arange(N) % 3
XY = np.stack(np.divmod(np.arange(N), SIDE), axis=1) + np.random.default_rng(0).random((N, 2)) / 4


def own(comm, how):
    """Return the ids of this rank: in blocks, round-robin, at random, or all on the last rank."""
    if how == "block":
        return np.arange(N * comm.rank // comm.size, N * (comm.rank + 1) // comm.size)
    if how == "dealt":
        return np.arange(comm.rank, N, comm.size)
    if how == "random":
        owner = np.random.default_rng(3).integers(0, comm.size, N)
        return np.random.default_rng(comm.rank).permutation(np.flatnonzero(owner == comm.rank))
    return np.arange(N) if comm.rank == comm.size - 1 else np.zeros(0, int)


def rows(ids):
    size = np.diff(START)[ids]
    to = np.concatenate([np.zeros(0, int), *(TO[START[v] : START[v + 1]] for v in ids)])
    return np.concatenate([[0], np.cumsum(size)]).astype(int), to


def whole(comm, ids, part):
    """Return the parts of all objects, by id."""
    out = np.full(N, -1)
    for i, p in comm.allgather((ids, part)):
        assert (out[i] == -1).all(), "an object is there twice"
        out[i] = p
    assert (out >= 0).all(), "an object is lost"
    return out


def twin(part, k, nets=None):
    """Compute the quality of the parts in plain Python."""
    cut, boundary, near, volume = 0, [0] * k, [set() for _ in range(k)], 0
    for v in range(N):
        others = {int(part[w]) for w in TO[START[v] : START[v + 1]]} - {int(part[v])}
        cut += sum(part[w] != part[v] for w in TO[START[v] : START[v + 1]])
        boundary[part[v]] += bool(others)
        near[part[v]] |= others
        volume += len(others)
    return cut / 2, boundary, [len(x) for x in near], volume


def worth(comm, ids, out, k, weight=WEIGHT):
    part = whole(comm, ids, out.part)
    cut, boundary, near, volume = twin(part, k)
    q = out.evaluation
    assert np.array_equal(q.objects, np.bincount(part, minlength=k))
    assert np.allclose(q.weights, np.bincount(part, weight, k))
    assert (q.cut, q.connectivity) == (cut, volume)
    assert q.boundary.tolist() == boundary
    assert q.neighbours.tolist() == near
    assert q.cut_edges.sum() == 2 * cut
    assert out.max_over_mean == q.weights.max() / q.weights.mean()
    assert len({str(q) for q in comm.allgather(q)}) == 1
    moves(comm, ids, out)
    return part


def moves(comm, ids, out):
    """Check that the exports of all ranks are the imports of all ranks."""
    e = out.exports
    assert np.array_equal(ids[e.row], e.id)
    assert np.array_equal(out.part[e.row], e.part)
    assert np.array_equal(out.rank[e.row], e.rank)
    said = {
        (int(i), comm.rank, int(r), int(p)) for i, r, p in zip(e.id, e.rank, e.part, strict=True)
    }
    heard = {
        (int(i), int(r), comm.rank, int(p))
        for i, r, p in zip(out.imports.id, out.imports.rank, out.imports.part, strict=True)
    }
    assert set().union(*comm.allgather(said)) == set().union(*comm.allgather(heard))


# ---- cases -------------------------------------------------------------------------------------


def graphs(comm):
    for how in ("block", "dealt", "random", "last")[0 if comm.size < 3 else 2 :]:
        ids = own(comm, how)
        for method in ("graph", "zoltan", "ptscotch", "metis", "pylb"):
            k = 7 if how == "random" else comm.size
            given = {"graph": rows(ids), "ids": ids, "weight": WEIGHT[ids], "parts": k}
            out = pylb.partition(method=method, comm=comm, imbalance=1.05, **given)
            part = worth(comm, ids, out, k)
            assert out.max_over_mean <= 1.1, (how, method, k, out)
            assert k == 1 or out.cut < 250, (how, method, k, out)
            assert len(set(part)) == k
            if how == "random":
                again = pylb.partition(method=method, comm=comm, imbalance=1.05, **given)
                assert np.array_equal(out.part, again.part), (how, method, k)


def points(comm):
    for how in ("block", "random", "last"):
        ids = own(comm, how)
        for method in ("rcb", "rib", "hsfc"):
            given = {"coords": XY[ids], "ids": ids, "weight": WEIGHT[ids], "graph": rows(ids)}
            out = pylb.partition(method=method, comm=comm, parts=6, **given)
            worth(comm, ids, out, 6)
            assert out.max_over_mean <= 1.1
            found = out.points(XY)  # every rank has all cuts
            assert (found == whole(comm, ids, out.part)).mean() > 0.9
            assert len({a.tobytes() for a in comm.allgather(found)}) == 1
            start, part = out.boxes(XY - 0.25, XY + 0.25)
            hit = np.zeros((N, 6), bool)
            hit[np.repeat(np.arange(N), np.diff(start)), part] = True
            assert hit[np.arange(N), found].all()
            if method == "rcb":
                lo, hi = out.cuts.regions()
                meets = (XY[:, None] - 0.25 <= hi) & (XY[:, None] + 0.25 >= lo)
                assert np.array_equal(hit, meets.all(axis=2))


def repartition(comm):
    """Few objects move if communication is cheap; `old` may contain parts of other ranks."""
    ids = own(comm, "random")
    old = ids * 4 // N
    weight = np.where(ids < N // 4, 1.5, 1.0)
    given = {"graph": rows(ids), "ids": ids, "weight": weight, "parts": 4, "comm": comm}
    moved = {}
    for approach in ("partition", "repartition", "refine"):
        out = pylb.partition(
            method="graph", approach=approach, old=old, migration_ratio=0.1, **given
        )
        assert out.max_over_mean < 1.2
        moved[approach] = out.migrations
        assert (
            out.migrations == out.migration_volume == comm.allreduce(int((out.part != old).sum()))
        )
    assert 0 < moved["repartition"] <= moved["partition"]
    fixed = np.where(ids % 50 == 0, ids // 50 % 4, -1)
    if comm.size > 1:
        text, wrong = "'ptscotch' accepts no fixed objects: graph, zoltan, ", {"method": "scotch"}
        wrong |= {"fixed_part": fixed, **given}
        raised(errors.DomainError, text, lambda: pylb.partition(**wrong))
    out = pylb.partition(method="graph", fixed_part=fixed, **given)
    assert np.array_equal(out.part[fixed >= 0], fixed[fixed >= 0])


def names(comm):
    """New parts are numbered so that most objects keep their part, or else their rank."""
    ids = own(comm, "random")
    for method in ("rcb", "hsfc", "graph", "metis"):
        given = {"coords": XY[ids], "ids": ids, "parts": 5, "comm": comm, "method": method}
        given |= {"graph": rows(ids)}
        plain = pylb.partition(**given)
        turned = np.array([2, 0, 1, 4, 3])[plain.part]
        out = pylb.partition(old=turned, approach="partition", nbytes=WEIGHT[ids], **given)
        worth(comm, ids, out, 5, np.ones(N))
        assert out.migrations == out.migration_volume == 0
        old = (ids * 7 + ids // 9) % 5  # old parts that do not follow the coordinates
        out = pylb.partition(old=old, approach="partition", nbytes=WEIGHT[ids], **given)
        before, after = whole(comm, ids, old), whole(comm, ids, out.part)
        kept = np.zeros((5, 5))
        np.add.at(kept, (after, before), WEIGHT)
        best = max(kept[range(5), list(p)].sum() for p in itertools.permutations(range(5)))
        assert kept.trace() == WEIGHT.sum() - out.migration_volume
        assert kept.trace() >= 0.9 * best  # the heuristic is close
        assert out.migrations == np.count_nonzero(before != after)
    block = own(comm, "block")[::-1]  # with two parts per rank, most objects can stay
    k = 2 * comm.size
    out = pylb.partition(coords=XY[block], ids=block, parts=k, comm=comm)
    moves(comm, block, out)
    plain = pylb.partition(coords=XY[block], ids=block, parts=k, comm=comm, REMAP=0)
    stay = [comm.allreduce(np.count_nonzero(x.rank == comm.rank)) for x in (out, plain)]
    assert stay[0] >= stay[1]
    few = pylb.partition(coords=XY[block], ids=block, parts=1, comm=comm)
    assert len(few.exports.id) == (len(block) if comm.rank else 0)  # new objects
    moves(comm, block, few)


def levels(comm):
    """Two nodes of three ranks: one method between nodes, another within; check the quality."""
    ids = own(comm, "random")
    given = {"graph": rows(ids), "coords": XY[ids], "ids": ids, "weight": WEIGHT[ids]}
    machine = pylb.model.Tree((2, 3))
    for methods in (("graph", "rcb"), ("rcb", "graph"), "zoltan"):
        out = pylb.partition(method=methods, machine=machine, comm=comm, imbalance=1.1, **given)
        part = worth(comm, ids, out, 6)
        assert out.max_over_mean < 1.2
        halves = np.bincount(part // 3, WEIGHT)
        assert halves.max() / halves.mean() < 1.1
        assert out.cut < 200
    job = pylb.Machine.measure(comm, seconds=0.01, network=False)
    out = pylb.partition(method="rcb", machine=job, comm=comm, imbalance=1.2, **given)
    assert out.n_parts == comm.size
    # max/mean is relative to DRUM's shares.  On a busy machine, a rank can get a small share, and
    # then an object is much of it.
    grain = WEIGHT.max() / (job.part_sizes().min() * WEIGHT.sum())
    assert out.max_over_mean < 1.3 + grain
    out = pylb.partition(method="rcb", machine="node:2 rank:2", comm=comm, **given)
    worth(comm, ids, out, 4)
    given |= {"method": ["rcb"], "machine": machine, "comm": comm}
    raised(errors.DomainError, "method has 1 names", lambda: pylb.partition(**given))


def trees(comm):
    """A quadtree with one corner refined many times gets the same parts as on one rank."""
    parent = [-1]
    last = 0
    for _ in range(30):
        parent += [last] * 4
        last = len(parent) - 1
    parent = np.array(parent)
    leaves = np.setdiff1d(np.arange(len(parent)), parent)
    weight = 1.0 + np.arange(len(leaves)) % 2
    alone = pylb.partition(tree=parent, weight=weight, parts=3)
    assert alone.method == "reftree"
    mine = np.array_split(np.arange(len(leaves)), comm.size)[comm.rank]
    out = pylb.partition(tree=parent, weight=weight[mine], parts=3, comm=comm)
    assert np.array_equal(np.concatenate(comm.allgather(out.part)), alone.part)
    mine = np.arange(len(leaves))[comm.rank :: comm.size]
    dealt = pylb.partition(tree=parent, weight=weight[mine], ids=mine, parts=3, comm=comm)
    assert np.array_equal(dealt.part, alone.part[mine])
    assert out.max_over_mean < 1.1


def others(comm):
    ids = own(comm, "block")
    for method in ("block", "cyclic", "random"):
        out = pylb.partition(
            weight=WEIGHT[ids], ids=ids, graph=rows(ids), method=method, parts=4, comm=comm
        )
        worth(comm, ids, out, 4)
    out = pylb.partition(coords=np.zeros((3, 2)), comm=comm, parts=2)  # equal points
    assert out.evaluation.objects.sum() == 3 * comm.size
    out = pylb.partition(coords=np.zeros((int(comm.rank == 0), 3)), comm=comm, parts=5)
    assert out.evaluation.objects.sum() == 1
    out = pylb.partition(coords=np.zeros((0, 3)), comm=comm, parts=5)
    assert len(out.part) == 0
    out = pylb.partition(([0], []), comm=comm, parts=3, method="graph")
    assert out.evaluation.objects.tolist() == [0, 0, 0]
    out = pylb.partition(weight=np.zeros(len(ids)), coords=XY[ids], comm=comm, parts=2)
    assert abs(int(out.evaluation.objects[0]) - N // 2) <= N // 8
    out = pylb.partition(graph=rows(ids), shares=[0, 1, 2], comm=comm, method="graph", parts=3)
    assert out.evaluation.objects[0] == 0
    assert 1.7 < out.evaluation.objects[2] / out.evaluation.objects[1] < 2.3
    few = np.arange(2) if comm.rank == 0 else np.zeros(0, int)
    pair = ([0, 1, 2], [1, 0]) if comm.rank == 0 else ([0], np.zeros(0, int))
    out = pylb.partition(graph=pair, ids=few, comm=comm, parts=9, method="zoltan")
    assert sorted(out.evaluation.objects.tolist()) == [0] * 7 + [1, 1]


def wrong(comm):
    ids, last = own(comm, "block"), comm.rank == comm.size - 1
    given, xy = {"comm": comm, "parts": 2}, {"coords": XY[ids]}
    bad = XY[ids].copy()
    bad[0, 1] = np.nan if last else 0.0
    where = "" if comm.size == 1 else f"rank {comm.size - 1}: "
    weight = np.where(last, -1.0, 1.0) * np.ones(len(ids))
    twice, shuffled = np.concatenate([ids, [0]]), own(comm, "dealt") + 5
    start, to = rows(ids)
    strange = start, np.where(to == 1, 10**6, to)
    lone = np.where((to == 1) & (np.repeat(ids, np.diff(start)) == 0), 2, to)
    elsewhere, dealt = {"graph": (start, lone + 900), "ids": ids + 900}, rows(shuffled - 5)
    of_graph = {"method": "graph"}
    domain, unknown = errors.DomainError, errors.UnknownKeyError
    for error, text, more in [
        (domain, f"{where}coords[0, 1] is nan", {"coords": bad}),
        (domain, f"{where}weight[0] is -1", xy | {"weight": weight}),
        (errors.DuplicateKeyError, "id 0 is given twice", {"coords": XY[twice], "ids": twice}),
        (errors.OutOfRangeError, "is 1000000", of_graph | {"graph": strange}),
        (unknown, "no rank has an object", of_graph | {"graph": dealt, "ids": shuffled}),
        (domain, "symmetrize=True", of_graph | {"graph": (start, lone)}),
        (domain, "not symmetric at (900, 902)", of_graph | elsewhere),  # names ids
        (domain, "graph is missing", of_graph | xy),
    ]:
        raised(error, text, lambda more=more: pylb.partition(**given, **more))
    out = pylb.partition(graph=(start, lone), method="graph", symmetrize=True, **given)
    assert out.max_over_mean < 1.1
    if comm.size == 1:
        return
    tree = pylb.model.Tree((2 + comm.rank,))
    for text, more in (
        ("imbalance differs: rank 0: 1.5", xy | {"imbalance": 1.03 + 0.47 * (comm.rank == 0)}),
        ("method differs", xy | {"method": "rcb" if last else "rib"}),
        ("machine differs: rank 0: 2 leaves", xy | {"machine": tree, "parts": None}),
        ("symmetrize differs", of_graph | {"graph": rows(ids), "symmetrize": last}),
        ("shares differs: rank 0", xy | {"shares": [1.0, 2.0 + last]}),
        ("coords, columns differs", {"coords": XY[ids, : 1 + last]}),
    ):
        raised(domain, text, lambda more=more: pylb.partition(**(given | more)))


def plain(comm):
    """Parameters that pylb sets to save exchanges change neither parts nor cuts."""
    slow = {"TFLOPS_SPECIAL": 0, "CHECK_GEOM": 1}
    lattice = np.stack(np.divmod(np.arange(N), SIDE), axis=1).astype(float)  # equal coordinates
    points = np.random.default_rng(5).random((200, 2)) * SIDE
    for how, xy in (("random", XY), ("block", lattice), ("last", lattice)):
        ids = own(comm, how)
        for k, method, weigh in itertools.product(
            (1, comm.size, 7, 16), ("rcb", "rib"), (False, True)
        ):
            given = {"coords": xy[ids], "parts": k, "method": method, "ids": ids, "comm": comm}
            if weigh:
                given["weight"] = WEIGHT[ids]
            mine, zoltans = pylb.partition(**given), pylb.partition(**given, **slow)
            assert np.array_equal(mine.part, zoltans.part), (how, k, method, weigh)
            assert np.array_equal(mine.points(points), zoltans.points(points))


def lopsided(comm):
    """Zero, light and heavy weights, small shares, and few objects do not make Zoltan hang."""
    for seed in range(24):
        rng, alike = np.random.default_rng((seed, comm.rank)), np.random.default_rng(seed)
        n, k = int(rng.integers(0, alike.choice([4, 60]))), int(alike.integers(1, 40))
        coords = rng.random((n, 1 + seed % 3)) ** (1 + seed % 2 * 5)
        weight = [
            None,
            (rng.random(n) < 0.1).astype(float),
            np.exp(rng.normal(0, 6, n)),
            np.round(3 * rng.random(n)),
        ][seed % 4]
        shares = alike.random(k) ** 3 if seed % 3 else None
        for method in ("rcb", "rib", "hsfc"):
            given = {"coords": coords, "weight": weight, "shares": shares, "parts": k}
            out = pylb.partition(method=method, comm=comm, **given)
            objects = comm.allreduce(np.bincount(out.part, minlength=k))
            assert np.array_equal(out.evaluation.objects, objects)
            if n:
                assert ((out.points(coords) >= 0) & (out.points(coords) < k)).all()
    # one object is heavier than all others together
    heavy = np.where(np.arange(N) == 17, 1e6, 1.0)
    ids = own(comm, "random")
    out = pylb.partition(
        coords=XY[ids], weight=heavy[ids], parts=4, method="hsfc", ids=ids, comm=comm
    )
    assert sorted(out.weights)[-1] >= 1e6
    # fewer vertices than ranks
    to = {0: [1], 1: [0]}.get(comm.rank, [])
    if comm.size > 1:
        here = comm.rank < 2
        graph = (np.array([0, 1] if here else [0]), np.array(to, int))
        out = pylb.partition(graph, 2, method="ptscotch", comm=comm)
        assert out.evaluation.objects.sum() == 2


def again(comm):
    """Zoltan's structures are used again, but not while a result still holds them."""
    ids = own(comm, "random")
    given = {"coords": XY[ids], "ids": ids, "comm": comm}
    methods = ("rcb", "rib", "hsfc")
    points = np.random.default_rng(6).random((100, 2)) * SIDE
    first = {method: pylb.partition(parts=5, method=method, **given) for method in methods}
    where = {method: out.points(points) for method, out in first.items()}
    held = []
    rng = np.random.default_rng(comm.rank)  # ranks release their results at different times
    for i in range(24):
        method = methods[i // 2 % 3]
        held.append(pylb.partition(parts=5, method=method, seed=i % 2, **given))
        assert np.array_equal(held[-1].part, first[method].part)
        held = [out for out in held if rng.random() < 0.8]
        assert all(np.array_equal(out.points(points), where[out.method]) for out in held)
        shifted = pylb.partition(coords=XY[ids] * [1, 3], parts=5, method="rcb", ids=ids, comm=comm)
        del shifted
    assert all(np.array_equal(first[m].points(points), where[m]) for m in methods)

    shares = [4, 1, 1, 1, 1]
    for method in ("rcb", "graph"):
        given = {"ids": ids, "comm": comm, "method": method, "parts": 5}
        given |= {"coords": XY[ids]} if method == "rcb" else {"graph": rows(ids)}
        even = pylb.partition(**given)
        odd = pylb.partition(**given, shares=shares)
        assert odd.weights[0] > 0.4 * N
        fixed = np.where(ids < 5, ids, -1)
        if method == "graph":
            assert (pylb.partition(**given, fixed_part=fixed).part[ids < 5] == ids[ids < 5]).all()
        assert np.array_equal(pylb.partition(**given).part, even.part)

    other = comm.Dup()
    kept = pylb.partition(coords=XY[ids], ids=ids, comm=other, parts=5, method="rcb")
    gone = pylb.partition(coords=XY[ids], ids=ids, comm=other, parts=5, method="rib")
    del gone
    other.Free()
    assert np.array_equal(kept.points(points), where["rcb"])


def weights_on_some_ranks(comm):
    """PT-Scotch gets weights from all ranks or from none, and a rank may have no edges."""
    if comm.size == 1 or find_spec("pylb._zoltan") is None or find_spec("pylb._scotch") is None:
        return
    last = comm.size - 1
    for n, alone, empty in ((60, False, 0), (2, False, 0), (60, True, 0), (60, True, last - 1)):
        here = empty <= comm.rank < last  # the first ranks have no objects, if there are others
        mine = np.arange(n)[comm.rank - empty :: last - empty] if here else np.arange(0)
        edges = np.stack([mine - 1, (mine + 1) % n], axis=1).ravel() % n
        start = 2 * np.arange(len(mine) + 1)
        if alone and comm.rank == last:  # this rank has an object without edges
            mine, start = np.array([n]), np.array([0, 0])
        for weight, of_edges in ((None, ()), (mine + 1.0, ()), (None, (0.0 * edges + 2.0,))):
            for method in ("ptscotch", "scotch"):
                out = pylb.partition(
                    *((start, edges, *of_edges), 2),
                    **{"method": method, "ids": mine, "weight": weight, "comm": comm},
                )
                assert out.max_over_mean < 1.4
                assert out.cut <= 8


def objects_of_a_rank_without_parts(comm):
    """Without `old`, objects on a rank that has no part change their part, in each method."""
    ids = own(comm, "dealt")
    for method, approach in itertools.product(("block", "pylb"), ("partition", "repartition")):
        if method == "block" and find_spec("pylb._zoltan") is None:
            continue
        if comm.size > 1:
            nets = (np.array([0, len(ids)]), ids)
            given = {"nets": nets, "ids": ids, "method": method, "approach": approach}
            out = pylb.partition(parts=1, comm=comm, **given)
            assert len(out.exports.id) == (len(ids) if comm.rank else 0)
            assert out.migrations == N - len(range(0, N, comm.size))

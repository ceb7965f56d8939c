"""Colours and orders on any number of ranks."""

import numpy as np
from each_case import raised
from scipy import sparse

import pylb
from pylb import errors


def grid(*shape):
    """Return the neighbours of each point of a grid."""
    ids = np.arange(np.prod(shape)).reshape(shape)
    a, b = [], []
    for axis in range(len(shape)):
        low, high = (np.delete(ids, at, axis).ravel() for at in (-1, 0))
        a, b = [*a, low, high], [*b, high, low]
    n = ids.size
    rows, columns = np.concatenate(a), np.concatenate(b)
    out = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (n, n))
    out.sort_indices()
    return out


def shared(comm, matrix, seed):
    """Return this rank's ids, in random order, and their rows; an id is not a row number."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, comm.size, matrix.shape[0])
    if seed % 2:
        owner[:] = 0  # the other ranks have no rows
    mine = rng.permutation(np.flatnonzero(owner == comm.rank))
    rows = matrix[mine]
    return mine, (rows.indptr, 7 * rows.indices.astype(np.int64) + 10**12), 7 * mine + 10**12


def whole(comm, mine, values, n):
    out = np.full(n, -1)
    for m, v in comm.allgather((mine, values)):
        out[m] = v
    return out


def colors(comm):
    """Compare with the definition: all pairs within the distance."""
    for seed, matrix in enumerate([grid(9, 11), grid(5, 4, 6), grid(1), grid(40)]):
        for distance in (1, 2):
            mine, rows, ids = shared(comm, matrix, seed)
            found = pylb.partitioning.color(rows, distance, comm=comm, ids=ids)
            color = whole(comm, mine, found.color, matrix.shape[0])
            assert color.min() >= 0
            assert np.array_equal(np.bincount(color), found.counts)
            near = matrix if distance == 1 else matrix + matrix @ matrix
            a, b = near.nonzero()
            assert (color[a] != color[b])[a != b].all()
            assert found.n_colors <= 1 + max(np.diff(near.tocsr().indptr).max(), 0)


def orders(comm):
    """Check the permutation, and the fill against a dense factorisation."""
    for seed, matrix in enumerate([grid(13, 12), grid(6, 6, 5)]):
        n = matrix.shape[0]
        mine, rows, ids = shared(comm, matrix, 2 * seed)
        found = pylb.partitioning.order(rows, comm=comm, ids=ids)
        place = whole(comm, mine, found.perm, n)
        assert sorted(place) == list(range(n))
        at = np.argsort(place)
        assert found.fill == fill_twin(matrix[at][:, at])
        assert found.blocks[0] == 0
        assert found.blocks[-1] == n
        assert found.separators.sum() < n
        if comm.size == 1:
            assert found.fill < found.fill_before


def fill_twin(matrix):
    """Count the entries of the Cholesky factor: eliminate one column after the other."""
    full = matrix.toarray() != 0
    count = 0
    for k in range(len(full)):
        below = np.flatnonzero(full[k + 1 :, k]) + k + 1
        full[np.ix_(below, below)] = True
        count += 1 + len(below)
    return count


def wrong_use(comm):
    color, order = pylb.partitioning.color, pylb.partitioning.order
    last, mine = comm.rank == comm.size - 1, 70 + comm.rank
    lone = sparse.csr_array(([1.0], ([0], [1])), (2, 2)) if comm.rank == 0 else ([0], [])
    one = [0, 1], [comm.rank]
    to_90 = [0, *[0] * (comm.rank == 0), int(last)], [90] * last  # 90 is on the first rank
    ids = [90, mine] if comm.rank == 0 else [mine]
    twice = [-1, -1] if last else [comm.rank, comm.rank + 50]
    out, unknown, domain = errors.OutOfRangeError, errors.UnknownKeyError, errors.DomainError
    of_99, ids_99 = ([0, 1], [99 if last else comm.rank]), ([0, 1], [99 if last else mine])
    for error, text, call, graph, more in [
        (domain, "not symmetric at (0, 1)", color, lone, {}),
        (domain, "graph is not symmetric at (", color, to_90, {"ids": ids}),  # the error names ids
        *(
            (domain, "distance is ", color, one, {"distance": wrong if last else 1})
            for wrong in (3, 2.0, [1, 2], np.array([1, 2]))
        ),
        (out, f"graph.indices[0] is 99: expected 0 ... {comm.size - 1}", color, of_99, {}),
        (unknown, "is 99: no rank has an object with that id", color, ids_99, {"ids": [mine]}),
        (errors.DuplicateKeyError, "given twice", order, ([0, 0, 0], []), {"ids": twice}),
        (domain, "start: expected values from 0", order, ([0, 5], [1]) if last else one, {}),
        (domain, "graph is 3: expected", order, 3 if last else one, {}),
        *[(domain, "distance differs", color, one, {"distance": 1 + last})] * (comm.size > 1),
    ]:
        raised(error, text, lambda c=call, g=graph, m=more: c(g, comm=comm, **m))
    assert color(lone, comm=comm, symmetrize=True).n_colors == 2
    assert color(([0], []), comm=comm).n_colors == 0
    assert order(([0], []), comm=comm).fill == 0

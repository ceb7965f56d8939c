"""The time of an iteration with two alphas and betas, written plainly."""


def rank_times(snapshot, rank, alpha, beta):
    """Return the seconds of each rank; `rank` is that of each object."""
    speed = [1.0] * snapshot.n_ranks if snapshot.speed is None else snapshot.speed
    time = [0.0] * snapshot.n_ranks
    for i, load in enumerate(snapshot.load):
        time[rank[i]] += load / speed[rank[i]]

    def send(a, b, nbytes):
        if a == b:
            return
        near = snapshot.near is not None and snapshot.node[a] == snapshot.node[b]
        of_alpha, of_beta = snapshot.near if near else (1.0, 1.0)
        time[a] += of_alpha * alpha + of_beta * beta * nbytes

    for src, dst, nbytes in zip(
        snapshot.edge_src, snapshot.edge_dst, snapshot.edge_bytes, strict=True
    ):
        send(rank[src], rank[dst], nbytes)
    if snapshot.multicasts is not None:
        many = snapshot.multicasts
        for e, src in enumerate(many.src):
            to = {rank[i] for i in many.dst[many.start[e] : many.start[e + 1]]}
            for r in sorted(to):
                send(rank[src], r, many.nbytes[e])
    return time

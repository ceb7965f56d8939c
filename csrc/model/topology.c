#include "model/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/csr.h"
#include "base/interrupt.h"
#include "base/mem.h"

int plb_topology_init(plb_topology_t *self, plb_topology_kind_t kind, const int64_t *size,
                      int n_levels, plb_err_t *err)
{
    int64_t n = 1;
    *self = (plb_topology_t){.kind = kind, .n_levels = n_levels};
    PLB_FAIL_IF(n_levels < 1 || n_levels > PLB_TOPOLOGY_LEVELS, err, PLB_ERR_VALUE,
                "sizes has %d entries: expected 1 ... %d", n_levels, PLB_TOPOLOGY_LEVELS);
    for (int d = 0; d < n_levels; d++) {
        PLB_FAIL_IF(size[d] < 1 || size[d] > INT_MAX / n, err, PLB_ERR_VALUE,
                    "sizes[%d] is %lld: expected 1 or more, and less than 2^31 places in "
                    "total",
                    d, (long long)size[d]);
        self->size[d] = (int32_t)size[d];
        n *= size[d];
    }
    self->n_places = (int32_t)n;
    return PLB_OK;
}

static int32_t tree_hops(const plb_topology_t *self, int32_t a, int32_t b)
{
    int32_t hops = 0;
    for (int d = self->n_levels - 1; a != b; d--) {
        a /= self->size[d];
        b /= self->size[d];
        hops += 2;
    }
    return hops;
}

static int32_t torus_hops(const plb_topology_t *self, int32_t a, int32_t b)
{
    int32_t hops = 0;
    for (int d = self->n_levels - 1; a != b; d--) {
        const int32_t m = self->size[d], apart = (b % m - a % m + m) % m;
        hops += apart < m - apart ? apart : m - apart;
        a /= m;
        b /= m;
    }
    return hops;
}

/* Return the number of links from place a to place b.  Tree: up to the common vertex and down.
 * Torus: the shorter way round in each dimension. */
static int32_t hops_between(const plb_topology_t *self, int32_t a, int32_t b)
{
    return self->kind == PLB_TREE ? tree_hops(self, a, b) : torus_hops(self, a, b);
}

double plb_hop_bytes(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *place)
{
    double out = 0.0;
    for (int32_t a = 0; a < self->n_places; a++) {
        for (int64_t k = flows->start[a]; k < flows->start[a + 1]; k++) {
            out += flows->bytes[k] * hops_between(self, place[a], place[flows->to[k]]);
        }
    }
    return out;
}

/* ---- links ---------------------------------------------------------------------------------- */

/* Add bytes to the links from a up to the common vertex and down to b. link[2 v] leads up from
 * vertex v, and link[2 v + 1] leads down to it; `base` is the first vertex of a level. */
static void load_tree(const plb_topology_t *self, int32_t a, int32_t b, double bytes, double *link)
{
    int64_t base = 0, width = self->n_places;
    for (int d = self->n_levels - 1; a != b; d--) {
        link[2 * (base + a)] += bytes;
        link[2 * (base + b) + 1] += bytes;
        a /= self->size[d];
        b /= self->size[d];
        base += width;
        width /= self->size[d];
    }
}

/* Add bytes to the links from a to b, one dimension after the other.  link[(2 place + side)
 * n_levels + d] leaves a place in dimension d; side 0: positive direction, 1: negative. */
static void load_torus(const plb_topology_t *self, int32_t a, int32_t b, double bytes,
                       double *link)
{
    int32_t stride = self->n_places;
    for (int d = 0; d < self->n_levels; d++) {
        const int32_t m = self->size[d];
        stride /= m;
        const int32_t apart = (b / stride % m - a / stride % m + m) % m;
        const int side = 2 * apart > m;
        for (int32_t left = side ? m - apart : apart; left > 0; left--) {
            link[(2 * (int64_t)a + side) * self->n_levels + d] += bytes;
            const int32_t at = a / stride % m, next = (at + (side ? m - 1 : 1)) % m;
            a += (next - at) * stride;
        }
    }
}

int plb_topology_link(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *place,
                      double *most, plb_err_t *err)
{
    int ret = PLB_OK;
    double *link = NULL;
    const int64_t n_links = (int64_t)self->n_places * self->n_levels * 2;
    *most = 0.0;
    PLB_NEW0(link, n_links); /* enough links for a tree and for a torus */
    for (int32_t a = 0; a < self->n_places; a++) {
        for (int64_t k = flows->start[a]; k < flows->start[a + 1]; k++) {
            (self->kind == PLB_TREE ? load_tree : load_torus)(self, place[a], place[flows->to[k]],
                                                              flows->bytes[k], link);
        }
    }
    for (int64_t k = 0; k < n_links; k++) {
        *most = link[k] > *most ? link[k] : *most;
    }
out:
    plb_free(link);
    return ret;
}

/* ---- mapping -------------------------------------------------------------------------------- */

/* The state of a mapping.  Row a has an entry for each flow from part a and for each flow to part
 * a, because both directions have the same number of hops. */
typedef struct mapper {
    const plb_topology_t *machine;
    plb_csr_t rows;
    double *bytes;        /* [entries of the rows] bytes of each entry's flow */
    const int32_t *group; /* [p] group of each part */
    int32_t *place;       /* [p] the place of each part */
    int32_t *part;        /* [p] the part at each place */
} mapper_t;

static int both_ways(mapper_t *self, const plb_flows_t *flows, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->machine->n_places;
    const int64_t m = flows->start[p];
    int32_t *src = NULL, *dst = NULL;
    PLB_NEW_EACH(2 * m, src, dst);
    for (int32_t a = 0; a < p; a++) {
        for (int64_t k = flows->start[a]; k < flows->start[a + 1]; k++) {
            src[2 * k] = dst[2 * k + 1] = a;
            dst[2 * k] = src[2 * k + 1] = flows->to[k];
        }
    }
    PLB_TRY(plb_csr_init(&self->rows, p, src, dst, 2 * m, err));
    PLB_NEW(self->bytes, 2 * m);
    for (int64_t k = 0; k < 2 * m; k++) {
        self->bytes[k] = flows->bytes[self->rows.edge[k] / 2];
    }
out:
    PLB_FREE(src, dst);
    return ret;
}

/* Return part a's hop-bytes at `place`, with part `other` (-1: none) at the present place of a. */
static double cost(const mapper_t *self, int32_t a, int32_t place, int32_t other)
{
    double out = 0.0;
    for (int64_t k = self->rows.start[a]; k < self->rows.start[a + 1]; k++) {
        const int32_t b = self->rows.to[k];
        const int32_t there = b == other ? self->place[a] : self->place[b];
        out += b == a ? 0.0 : self->bytes[k] * hops_between(self->machine, place, there);
    }
    return out;
}

/* Hop-bytes saved if two parts change places. */
static double gain(const mapper_t *self, int32_t a, int32_t b)
{
    return cost(self, a, self->place[a], -1) + cost(self, b, self->place[b], -1) -
           cost(self, a, self->place[b], b) - cost(self, b, self->place[a], a);
}

static void swap(mapper_t *self, int32_t a, int32_t b)
{
    const int32_t at = self->place[a];
    self->place[a] = self->place[b];
    self->place[b] = at;
    self->part[self->place[a]] = a;
    self->part[self->place[b]] = b;
}

/* Greedy mapping: take the part that exchanges the most bytes with the placed parts (ties: the
 * lowest part), and put it on the free place of its group that adds the fewest hop-bytes (ties:
 * the place with the fewest hops to all taken places, then the lowest).  This is TopoLB (Agarwal,
 * Sharma and Kale, IPDPS 2006), except that bytes to parts that have no place yet are ignored. */
static int place_greedily(mapper_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->machine->n_places;
    double *pull = NULL; /* bytes that each part exchanges with placed parts; -1: it is placed */
    int64_t *far = NULL; /* sum of hops from each place to all taken places */
    int32_t *old = NULL, *group_at = NULL;
    PLB_NEW0_EACH(p, pull, far);
    PLB_NEW_EACH(p, old, group_at);
    memcpy(old, self->place, (size_t)p * sizeof *old);
    for (int32_t a = 0; a < p; a++) {
        group_at[old[a]] = self->group[a];
        self->part[old[a]] = self->place[a] = -1;
    }
    for (int32_t step = 0; ret == PLB_OK && step < p; step++) {
        int32_t next = -1, best = -1;
        double least = 0.0;
        for (int32_t a = 0; a < p; a++) {
            next = pull[a] >= 0.0 && (next < 0 || pull[a] > pull[next]) ? a : next;
        }
        for (int32_t at = 0; at < p; at++) {
            if (self->part[at] >= 0 || group_at[at] != self->group[next]) {
                continue;
            }
            double sum = 0.0;
            for (int64_t k = self->rows.start[next];
                 k < self->rows.start[next + 1] && (best < 0 || sum <= least); k++) {
                const int32_t there = self->place[self->rows.to[k]];
                sum += there < 0 ? 0.0 : self->bytes[k] * hops_between(self->machine, at, there);
            }
            if (best < 0 || sum < least || (sum == least && far[at] < far[best])) {
                best = at;
                least = sum;
            }
        }
        for (int32_t at = 0; at < p; at++) {
            far[at] += hops_between(self->machine, at, best);
        }
        self->place[next] = best;
        self->part[best] = next;
        for (int64_t k = self->rows.start[next]; k < self->rows.start[next + 1]; k++) {
            pull[self->rows.to[k]] += pull[self->rows.to[k]] < 0.0 ? 0.0 : self->bytes[k];
        }
        pull[next] = -1.0;
        ret = plb_interrupted(p);
    }
out:
    PLB_FREE(pull, far, old, group_at);
    return ret;
}

/* Let each part change places with the part that saves the most hop-bytes.  Repeat this until no
 * change saves more than rounding errors, at most PASSES times.  A part that is next to all parts
 * with which it exchanges bytes is skipped: one hop per byte (two in a tree) is the minimum. */
static int swap_all(mapper_t *self)
{
    enum { PASSES = 20 };
    int ret = PLB_OK;
    const int32_t p = self->machine->n_places;
    const double hop = self->machine->kind == PLB_TREE ? 2.0 : 1.0;
    bool better = true;
    for (int pass = 0; ret == PLB_OK && better && pass < PASSES; pass++) {
        better = false;
        for (int32_t a = 0; ret == PLB_OK && a < p; a++) {
            double bytes = 0.0, most = 0.0;
            for (int64_t k = self->rows.start[a]; k < self->rows.start[a + 1]; k++) {
                bytes += self->rows.to[k] == a ? 0.0 : self->bytes[k];
            }
            const double now = cost(self, a, self->place[a], -1);
            int32_t best = -1;
            if (now - hop * bytes <= 1e-9 * now) {
                continue;
            }
            for (int32_t b = 0; b < p; b++) {
                if (b == a || self->group[b] != self->group[a]) {
                    continue;
                }
                const double saved = gain(self, a, b);
                if (saved > most && saved > 1e-9 * now) {
                    most = saved;
                    best = b;
                }
            }
            if (best >= 0) {
                swap(self, a, best);
                better = true;
            }
            ret = plb_interrupted(self->machine->n_places);
        }
    }
    return ret;
}

int plb_topology_map(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *group,
                     int32_t *place, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->n_places;
    mapper_t mapper = {.machine = self, .group = group};
    PLB_NEW_EACH(p, mapper.place, mapper.part);
    PLB_TRY(both_ways(&mapper, flows, err));
    const double given = plb_hop_bytes(self, flows, place);
    memcpy(mapper.place, place, (size_t)p * sizeof *place);
    ret = place_greedily(&mapper, err);
    if (ret == PLB_OK && plb_hop_bytes(self, flows, mapper.place) > given) {
        memcpy(mapper.place, place, (size_t)p * sizeof *place);
        for (int32_t a = 0; a < p; a++) {
            mapper.part[place[a]] = a;
        }
    }
    PLB_THEN(swap_all(&mapper));
    if (ret == PLB_OK) {
        memcpy(place, mapper.place, (size_t)p * sizeof *place);
    }
out:
    plb_csr_free(&mapper.rows);
    PLB_FREE(mapper.bytes, mapper.place, mapper.part);
    return ret;
}

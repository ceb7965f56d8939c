#include "place/internal.h"

#include <float.h>
#include <math.h>

#include "base/base.h"

/* ---- blocks --------------------------------------------------------------------------------- */

/* A block has an entry for each rank that has it.  A block with at least as many objects as there
 * are ranks has an entry for every rank, so that no list is searched. */
static int list_blocks(plb_state_t *self, plb_err_t *err)
{
    const plb_snapshot_t *in = self->in;
    const int64_t b = in->n_blocks;
    if (in->block == NULL || (self->left == NULL && self->of.delta == 0.0)) {
        return PLB_OK; /* blocks do not matter */
    }
    PLB_PASS_NEW0(self->slot, b + 1);
    PLB_PASS_NEW(self->n_slots, b);
    for (int64_t i = 0; i < in->n_objects; i++) {
        if (in->block[i] >= 0) {
            self->slot[in->block[i] + 1]++;
        }
    }
    for (int64_t k = 0; k < b; k++) {
        const int64_t users = self->slot[k + 1];
        self->n_slots[k] = users < self->p ? 0 : -1;
        self->slot[k + 1] = self->slot[k] + (users < self->p ? users : self->p);
    }
    PLB_PASS_NEW_EACH(self->slot[b], self->holder, self->uses);
    return PLB_OK;
}

/* Return the entry of rank r; -1: there is none. */
static int64_t entry_of(const plb_state_t *self, int32_t block, int32_t r)
{
    const int64_t begin = self->slot[block], n = self->n_slots[block];
    for (int64_t k = begin; k < begin + n; k++) {
        if (self->holder[k] == r) {
            return k;
        }
    }
    return n < 0 ? begin + r : -1;
}

int32_t plb_state_uses(const plb_state_t *self, int32_t block, int32_t r)
{
    const int64_t k = entry_of(self, block, r);
    return k < 0 ? 0 : self->uses[k];
}

/* Count a user of the block on rank r; return whether it is the first one. */
static bool enter_block(plb_state_t *self, int32_t block, int32_t r)
{
    int64_t k = entry_of(self, block, r);
    if (k < 0) {
        k = self->slot[block] + self->n_slots[block]++;
        self->holder[k] = r;
        self->uses[k] = 0;
    }
    return self->uses[k]++ == 0;
}

/* Return whether the last user of the block has left rank r. */
static bool leave_block(plb_state_t *self, int32_t block, int32_t r)
{
    const int64_t k = entry_of(self, block, r);
    const bool out = --self->uses[k] == 0;
    if (out && self->n_slots[block] > 0) {
        const int64_t last = self->slot[block] + --self->n_slots[block];
        self->holder[k] = self->holder[last];
        self->uses[k] = self->uses[last];
    }
    return out;
}

int64_t plb_state_bytes(const plb_state_t *self, int64_t i, int32_t r)
{
    const plb_snapshot_t *in = self->in;
    const int32_t block = plb_state_block(self, i);
    return (in->memory == NULL ? 0 : in->memory[i]) +
           (block >= 0 && plb_state_uses(self, block, r) == 0 ? in->block_bytes[block] : 0);
}

/* ---- one object ----------------------------------------------------------------------------- */

static inline bool is_near(const plb_state_t *self, int32_t a, int32_t b)
{
    return a != b && a >= 0 && b >= 0 && self->in->node[a] == self->in->node[b];
}

double plb_state_near(const plb_state_t *self, int32_t i, int32_t r, bool own)
{
    double sum = 0.0;
    for (int64_t k = self->near == NULL ? 0 : self->start[i];
         self->near != NULL && k < self->start[i + 1]; k++) {
        const bool counts = is_near(self, self->rank[self->other[k]], r);
        sum += !counts ? 0.0 : own ? fmax(self->near[k], 0.0) : fabs(self->near[k]);
    }
    return sum;
}

/* Object i has come to rank r (sign 1) or left it (-1): charge the cost of its messages on r, and
 * what messages then cost less on the other ranks of r's node. */
static void charge(plb_state_t *self, int32_t i, int32_t r, double sign)
{
    double inside = 0.0; /* the bonds with objects on rank r */
    for (int64_t k = self->start[i]; k < self->start[i + 1]; k++) {
        inside += self->rank[self->other[k]] == r ? self->bond[k] : 0.0;
    }
    self->t[r] += sign * (self->own[i] - inside);
    for (int64_t k = self->near == NULL ? 0 : self->start[i];
         self->near != NULL && k < self->start[i + 1]; k++) {
        const int32_t other = self->rank[self->other[k]];
        if (is_near(self, other, r)) {
            self->t[self->near[k] < 0.0 ? other : r] -= sign * fabs(self->near[k]);
        }
    }
}

static void enter_list(plb_state_t *self, int32_t i)
{
    int32_t *head = &self->head[self->rank[i]];
    self->prev[i] = -1;
    self->next[i] = *head;
    if (*head >= 0) {
        self->prev[*head] = i;
    }
    *head = i;
}

/* Add object i to rank r (sign 1), or subtract it (-1). */
static void count(plb_state_t *self, int32_t i, int32_t r, int sign)
{
    const int32_t block = plb_state_block(self, i);
    for (int32_t k = 0; k < self->d; k++) {
        const int64_t at = (int64_t)k * self->p + r;
        self->t[at] += sign * plb_state_load(self, i, k) * self->pace[at];
    }
    if (self->own != NULL && self->of.messages) {
        charge(self, i, r, sign);
    }
    const bool alone =
        block >= 0 && (sign > 0 ? enter_block(self, block, r) : leave_block(self, block, r));
    if (alone) {
        self->t[r] += sign * plb_state_homing(self, block, r);
    }
    if (self->left != NULL) {
        self->left[r] -= sign * ((self->in->memory == NULL ? 0 : self->in->memory[i]) +
                                 (alone ? self->in->block_bytes[block] : 0));
    }
}

void plb_state_put(plb_state_t *self, int32_t i, int32_t r)
{
    count(self, i, r, 1);
    self->rank[i] = r;
    if (self->head != NULL && plb_may_migrate(self->in, i)) {
        enter_list(self, i);
    }
}

void plb_state_take(plb_state_t *self, int32_t i)
{
    const int32_t r = self->rank[i];
    self->rank[i] = -1;
    count(self, i, r, -1);
    if (self->head == NULL) {
        return;
    }
    if (self->prev[i] >= 0) {
        self->next[self->prev[i]] = self->next[i];
    } else {
        self->head[r] = self->next[i];
    }
    if (self->next[i] >= 0) {
        self->prev[self->next[i]] = self->prev[i];
    }
}

/* ---- all objects ---------------------------------------------------------------------------- */

static void begin_ranks(plb_state_t *self)
{
    const plb_snapshot_t *in = self->in;
    memset(self->t, 0, (size_t)self->d * (size_t)self->p * sizeof *self->t);
    for (int32_t r = 0; r < self->p; r++) {
        self->t[r] = plb_background(in, r);
        if (self->head != NULL) {
            self->head[r] = -1;
        }
    }
    for (int32_t b = 0; self->slot != NULL && b < in->n_blocks; b++) {
        const int64_t n = self->slot[b + 1] - self->slot[b];
        self->n_slots[b] = self->n_slots[b] < 0 ? -1 : 0;
        memset(self->uses + self->slot[b], 0, (size_t)n * sizeof *self->uses);
    }
    if (self->left != NULL) {
        memcpy(self->left, in->memory_limit, (size_t)self->p * sizeof *self->left);
    }
}

void plb_state_begin(plb_state_t *self)
{
    const plb_snapshot_t *in = self->in;
    begin_ranks(self);
    for (int64_t i = 0; i < in->n_objects; i++) {
        self->rank[i] = -1;
    }
    for (int64_t i = 0; in->migratable != NULL && i < in->n_objects; i++) {
        if (!in->migratable[i]) {
            plb_state_put(self, (int32_t)i, in->rank[i]);
        }
    }
}

void plb_state_set(plb_state_t *self, const int32_t *to)
{
    const plb_snapshot_t *in = self->in;
    if (plb_state_is_plain(self) && self->head == NULL) {
        begin_ranks(self);
        plb_snapshot_rank_times(in, to, self->t);
        for (int64_t i = 0; self->left != NULL && in->memory != NULL && i < in->n_objects; i++) {
            self->left[to[i]] -= in->memory[i];
        }
        if (to != self->rank) {
            memcpy(self->rank, to, (size_t)in->n_objects * sizeof *self->rank);
        }
        return;
    }
    plb_state_begin(self);
    for (int64_t i = 0; i < in->n_objects; i++) {
        if (plb_may_migrate(in, i)) {
            plb_state_put(self, (int32_t)i, to[i]);
        }
    }
}

int plb_state_list(plb_state_t *self, plb_err_t *err)
{
    const plb_snapshot_t *in = self->in;
    if (self->head == NULL) {
        PLB_PASS_NEW_EACH(in->n_objects, self->next, self->prev);
        PLB_PASS_NEW(self->head, self->p);
    }
    memset(self->head, 0xff, (size_t)self->p * sizeof *self->head);
    for (int32_t i = 0; i < in->n_objects; i++) {
        if (self->rank[i] >= 0 && plb_may_migrate(in, i)) {
            enter_list(self, i);
        }
    }
    return PLB_OK;
}

static plb_slowest_t slowest_in(const double *t, int32_t p)
{
    plb_slowest_t out = {{-INFINITY, -INFINITY, -INFINITY}, {-1, -1, -1}};
    for (int32_t r = 0; r < p; r++) {
        if (t[r] <= out.time[2]) {
            continue;
        }
        int at = 2;
        for (; at > 0 && t[r] > out.time[at - 1]; at--) {
            out.time[at] = out.time[at - 1];
            out.rank[at] = out.rank[at - 1];
        }
        out.time[at] = t[r];
        out.rank[at] = r;
    }
    return out;
}

double plb_state_value(plb_state_t *self)
{
    double value = 0.0;
    for (int32_t k = 0; k < self->d; k++) {
        self->slowest[k] = slowest_in(self->t + (int64_t)k * self->p, self->p);
        value = plb_state_add(self, value, self->slowest[k].time[0], k);
    }
    self->fits = true;
    for (int32_t r = 0; self->left != NULL && r < self->p; r++) {
        self->fits = self->fits && self->left[r] >= 0;
    }
    return value;
}

double plb_state_mean(const plb_state_t *self)
{
    double work = 0.0, speed = 0.0;
    for (int32_t r = 0; r < self->p; r++) {
        work += self->t[r] / self->pace[r];
        speed += 1.0 / self->pace[r];
    }
    return work / speed;
}

/* The goal is the largest of three times: the time if all ranks end together; that of the slowest
 * rank with only its background and fixed objects; that of the heaviest object that may migrate,
 * on the rank where it ends first. */
static void set_goals(plb_state_t *self)
{
    const plb_snapshot_t *in = self->in;
    begin_ranks(self);
    for (int64_t j = 0; j < (int64_t)self->d * self->p; j++) {
        self->pace[j] = 1.0 / plb_speed_in(in, (int32_t)(j % self->p), (int32_t)(j / self->p));
    }
    for (int64_t i = 0; in->migratable != NULL && i < in->n_objects; i++) {
        for (int32_t k = 0; !in->migratable[i] && k < self->d; k++) {
            const int64_t at = (int64_t)k * self->p + in->rank[i];
            self->t[at] += plb_state_load(self, i, k) * self->pace[at];
        }
    }
    for (int32_t k = 0; k < self->d; k++) {
        const double *t = self->t + (int64_t)k * self->p;
        const double *pace = self->pace + (int64_t)k * self->p;
        double sum = 0.0, speed = 0.0, heaviest = 0.0, first = INFINITY;
        for (int64_t i = 0; i < in->n_objects; i++) {
            const double x = plb_state_load(self, i, k);
            sum += x;
            heaviest = x > heaviest && plb_may_migrate(in, i) ? x : heaviest;
        }
        for (int32_t r = 0; r < self->p; r++) {
            sum += k == 0 ? plb_background(in, r) * plb_speed(in, r) : 0.0;
            speed += plb_speed_in(in, r, k);
            first = fmin(first, t[r] + heaviest * pace[r]);
        }
        self->goal[k] = fmax(sum / speed, first);
        for (int32_t r = 0; r < self->p; r++) {
            self->goal[k] = fmax(self->goal[k], t[r]);
        }
        /* the inverse of a subnormal number would be infinite */
        self->per[k] = self->goal[k] > 0.0 ? fmin(1.0 / self->goal[k], DBL_MAX) : 0.0;
    }
}

/* ---- messages ------------------------------------------------------------------------------- */

typedef struct reader {
    plb_state_t *self;
    bool counts; /* first pass: count the entries; second pass: write them */
} reader_t;

/* A multicast counts as an edge to each receiver. */
static void read_edge(void *arg, int32_t from, int32_t to, double bytes, double messages)
{
    const reader_t *reader = arg;
    const double *near = reader->self->in->near;
    plb_state_t *self = reader->self;
    const plb_objective_t *of = &self->of;
    const double apart = of->alpha * messages + of->beta * bytes, together = of->gamma * bytes;
    if (from == to) {
        self->own[from] += reader->counts ? together : 0.0;
    } else if (reader->counts) {
        self->own[from] += apart;
        self->start[from]++;
        self->start[to]++;
    } else {
        const int64_t k = --self->start[from], m = --self->start[to];
        self->other[k] = to;
        self->other[m] = from;
        self->bond[k] = self->bond[m] = apart - together;
        if (self->near != NULL) {
            self->near[k] =
                of->alpha * messages * (1.0 - near[0]) + of->beta * bytes * (1.0 - near[1]);
            self->near[m] = -self->near[k];
        }
    }
}

/* Link the ranks of each node to a ring; *several: whether a node has several ranks. */
static int link_neighbours(plb_state_t *self, bool *several, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *node = NULL, *last = NULL, n;
    PLB_NEW_EACH(self->p, self->neighbour, node, last);
    PLB_TRY(plb_snapshot_nodes(self->in, node, &n, err));
    memset(last, -1, (size_t)self->p * sizeof *last);
    for (int32_t r = 0; r < self->p; r++) {
        int32_t *before = &last[node[r]];
        self->neighbour[r] = *before < 0 ? r : self->neighbour[*before];
        self->neighbour[*before < 0 ? r : *before] = r;
        *before = r;
    }
    *several = n < self->p;
out:
    PLB_FREE(node, last);
    return ret;
}

static int list_partners(plb_state_t *self, plb_err_t *err)
{
    const int64_t n = self->in->n_objects;
    const plb_objective_t *of = &self->of;
    if (self->in->n_edges + self->in->n_pins == 0 || of->alpha + of->beta + of->gamma == 0.0) {
        return PLB_OK;
    }
    PLB_PASS_NEW0(self->own, n);
    PLB_PASS_NEW0(self->start, n + 1);
    plb_each_pair(self->in, read_edge, &(reader_t){self, true});
    for (int64_t i = 0, sum = 0; i <= n; i++) { /* start[i]: the end of the entries of object i */
        sum += self->start[i];
        self->start[i] = sum;
    }
    PLB_PASS_NEW_EACH(self->start[n], self->other, self->bond);
    bool several = false;
    if (self->in->near != NULL) {
        PLB_PASS(link_neighbours(self, &several, err));
    }
    if (several) {
        PLB_PASS_NEW(self->near, self->start[n]);
    }
    plb_each_pair(self->in, read_edge, &(reader_t){self, false});
    return plb_interrupted(PLB_INTERRUPT_NOW);
}

int plb_state_init(plb_state_t *self, const plb_snapshot_t *in, const plb_objective_t *of,
                   int32_t *rank, plb_err_t *err)
{
    const int64_t p = in->n_ranks, d = in->n_components;
    *self =
        (plb_state_t){.in = in, .of = *of, .p = in->n_ranks, .d = in->n_components, .rank = rank};
    PLB_PASS_NEW_EACH(d, self->goal, self->per, self->slowest);
    PLB_PASS_NEW_EACH(d * p, self->pace, self->t);
    if (in->memory_limit != NULL && (in->memory != NULL || in->block != NULL)) {
        PLB_PASS_NEW(self->left, p);
    }
    set_goals(self);
    PLB_PASS(list_partners(self, err));
    return list_blocks(self, err);
}

void plb_state_free(plb_state_t *self)
{
    PLB_FREE(self->goal, self->per, self->slowest, self->pace, self->head, self->t, self->next,
             self->prev, self->left);
    PLB_FREE(self->own, self->start, self->other, self->bond, self->near, self->neighbour,
             self->slot, self->n_slots, self->holder, self->uses);
    *self = (plb_state_t){0};
}

#include "replay/phases.h"

#include <string.h>

#include "base/mem.h"
#include "replay/load_sums.h"
#include "replay/trace_check.h"
#include "replay/trace_repeats.h"

/* ---- begin and end -------------------------------------------------------------------------- */

int plb_phases_init(plb_phases_t *self, const plb_phases_options_t *opt, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_phases_t){.opt = *opt, .sums_end = -1};
    const int64_t p = opt->n_ranks;
    PLB_NEW(self->sum, PLB_SUM_PHASES * p);
    PLB_NEW(self->room_of_sums, 2 * PLB_SUM_PHASES * p);
    PLB_NEW(self->time, p);
    PLB_NEW(self->messages, p);
    PLB_NEW(self->sent, p);
    PLB_NEW(self->speed, p);
    PLB_NEW(self->own_ranks, 2 * p);
    PLB_NEW(self->own_limit, p);
    PLB_NEW0(self->other, p);
    PLB_NEW(self->rank_ptr, p + 1);
    PLB_NEW(self->mark, p);
    PLB_NEW(self->shared, 2 * p);
    for (int64_t r = 0; r < p; r++) {
        self->speed[r] = 1.0;
    }
out:
    if (ret != PLB_OK) {
        plb_phases_free(self);
    }
    return ret;
}

void plb_phases_free(plb_phases_t *self)
{
    PLB_FREE(self->rank_of, self->rank_before, self->index_of, self->entity, self->rank,
             self->from, self->key, self->bytes, self->memory, self->movable, self->estimate,
             self->load, self->drift, self->spare, self->order, self->rank_ptr, self->own_edge,
             self->own_amount, self->src, self->dst, self->amount, self->speed, self->sum,
             self->room_of_sums, self->time, self->messages, self->sent, self->own_ranks,
             self->own_limit, self->coords, self->work, self->held, self->other, self->start,
             self->mark, self->shared);
    plb_sharing_free(&self->sharing);
    *self = (plb_phases_t){0};
}

static int64_t largest(const int64_t *ptr, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = ptr[i + 1] - ptr[i] > most ? ptr[i + 1] - ptr[i] : most;
    }
    return most;
}

static int make_room_for_entities(plb_phases_t *self, int64_t n, plb_err_t *err)
{
    if (n > self->room) {
        PLB_PASS_RENEW(self->rank_of, n);
        PLB_PASS_RENEW(self->rank_before, n);
        PLB_PASS_RENEW(self->index_of, n);
        self->room = n;
    }
    for (; self->n_entities < n; self->n_entities++) {
        self->rank_of[self->n_entities] = self->rank_before[self->n_entities] = -1;
        self->index_of[self->n_entities] = -1;
    }
    return PLB_OK;
}

/* The array `window` is the last row of the array `estimate`. */
static int make_room_for_objects(plb_phases_t *self, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t rows = plb_phases_rows(self) + 1;
    n = n > 0 ? n : 1; /* at least 1, because a snapshot without objects needs arrays, too */
    if (n <= self->capacity) {
        return ret;
    }
    PLB_RENEW(self->entity, n);
    PLB_RENEW(self->rank, n);
    PLB_RENEW(self->from, n);
    PLB_RENEW(self->key, n);
    PLB_RENEW(self->bytes, n);
    PLB_RENEW(self->memory, n);
    PLB_RENEW(self->coords, 3 * n);
    PLB_RENEW(self->work, n);
    PLB_RENEW(self->held, 3 * n * (int64_t)sizeof *self->coords);
    PLB_RENEW(self->movable, n);
    PLB_RENEW(self->order, n);
    PLB_RENEW(self->load, n);
    PLB_RENEW(self->drift, n);
    PLB_RENEW(self->estimate, rows * n);
    PLB_RENEW(self->spare, rows * n);
    self->window = self->estimate + (rows - 1) * self->n;
    self->capacity = n;
out:
    return ret;
}

static int make_room_for_edges(plb_phases_t *self, int64_t m, plb_err_t *err)
{
    if (m > self->edge_room) {
        PLB_PASS_RENEW(self->src, m);
        PLB_PASS_RENEW(self->dst, m);
        PLB_PASS_RENEW(self->start, m + 1);
        PLB_PASS_RENEW(self->amount, 2 * m);
        self->edge_room = m;
    }
    return PLB_OK;
}

int plb_phases_begin(plb_phases_t *self, const plb_trace_t *t, plb_err_t *err)
{
    int ret;
    PLB_TRY(plb_trace_check(t, err));
    if (t->n_ranks != self->opt.n_ranks) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE, "n_ranks is %d: expected %d", (int)t->n_ranks,
                       (int)self->opt.n_ranks);
        goto out;
    }
    PLB_TRY(make_room_for_entities(self, t->n_entities, err));
    PLB_TRY(make_room_for_objects(self, largest(t->task_ptr, t->n_phases), err));
    if (self->opt.edges) {
        const int64_t m = largest(t->edge_ptr, t->n_phases);
        PLB_TRY(make_room_for_edges(self, m > self->n_edges ? m : self->n_edges, err));
    }
    if (t->core_group != NULL && self->sharing.group == NULL) {
        PLB_TRY(plb_sharing_init(&self->sharing, t->core_group, t->group_cores, t->n_ranks, err));
    }
out:
    self->trace = t;
    self->trace_speed = t->speed;
    self->in_seconds = t->task_seconds != NULL;
    self->background = t->background;
    self->sums_end = -1;
    self->has_bytes = t->task_bytes != NULL;
    self->has_memory = t->task_memory != NULL;
    self->has_coords = t->task_coords != NULL;
    self->has_work = t->task_work != NULL;
    self->memory_limit = t->memory_limit;
    return ret;
}

/* Copy x[p] to `room`, and return the copy; NULL if x is NULL. */
static const double *own(const double *x, double *room, int32_t p)
{
    if (x != NULL) {
        memmove(room, x, (size_t)p * sizeof *x);
    }
    return x == NULL ? NULL : room;
}

int plb_phases_pause(plb_phases_t *self, plb_err_t *err)
{
    self->trace_speed = own(self->trace_speed, self->own_ranks, self->opt.n_ranks);
    self->background =
        own(self->background, self->own_ranks + self->opt.n_ranks, self->opt.n_ranks);
    if (self->memory_limit != NULL) {
        memmove(self->own_limit, self->memory_limit,
                (size_t)self->opt.n_ranks * sizeof *self->own_limit);
        self->memory_limit = self->own_limit;
    }
    const int64_t m = self->n_edges;
    if (self->edge_src != NULL && self->edge_src != self->own_edge) {
        PLB_PASS_RENEW(self->own_edge, 3 * m + 1);
        PLB_PASS_RENEW(self->own_amount, 2 * m + 1);
        memcpy(self->own_edge, self->edge_src, (size_t)m * sizeof *self->own_edge);
        memcpy(self->own_edge + m, self->edge_dst, (size_t)m * sizeof *self->own_edge);
        memcpy(self->own_amount, self->edge_bytes, (size_t)m * sizeof *self->own_amount);
        for (int64_t k = 0; k < m; k++) {
            self->own_amount[m + k] = self->edge_messages == NULL ? 1.0 : self->edge_messages[k];
        }
        if (self->edge_multicast != NULL) {
            memcpy(self->own_edge + 2 * m, self->edge_multicast,
                   (size_t)m * sizeof *self->own_edge);
            self->edge_multicast = self->own_edge + 2 * m;
        }
        self->edge_src = self->own_edge;
        self->edge_dst = self->own_edge + m;
        self->edge_bytes = self->own_amount;
        self->edge_messages = self->own_amount + m;
    }
    self->trace = NULL;
    self->phase_load = NULL;
    return PLB_OK;
}

/* ---- the objects that are present ----------------------------------------------------------- */

static int32_t rank_in_phase(const plb_phases_t *self, int64_t k, bool is_new)
{
    const plb_trace_t *t = self->trace;
    const int32_t e = t->task_entity[k];
    if (self->opt.as_recorded || !t->entity_migratable[e]) {
        return t->task_rank[k];
    }
    if (is_new && t->task_home != NULL) {
        return t->task_home[k];
    }
    return self->rank_of[e] >= 0 ? self->rank_of[e] : t->task_rank[k];
}

/* Move estimates and `window` to the new indices of their objects; they are 0 for new objects. */
static void carry_over(plb_phases_t *self, int64_t old_n, int64_t n)
{
    const int rows = plb_phases_rows(self) + 1;
    for (int row = 0; row < rows; row++) {
        const double *old = self->estimate + row * old_n;
        double *new = self->spare + row *n;
        for (int64_t k = 0; k < n; k++) {
            new[k] = self->from[k] < 0 ? 0.0 : old[self->from[k]];
        }
    }
    double *swap = self->estimate;
    self->estimate = self->spare;
    self->spare = swap;
    self->window = self->estimate + (rows - 1) * n;
}

/* A property of the present objects, which is taken from the tasks of the trace. */
typedef struct column {
    char *own;         /* values of the present objects */
    const char *given; /* values of the tasks; NULL: the trace does not have this property */
    size_t size;       /* bytes for each object */
} column_t;

enum { N_COLUMNS = 5 };

static void columns_of(const plb_phases_t *self, int64_t first, column_t *out)
{
    const plb_trace_t *t = self->trace;
    const column_t all[N_COLUMNS] = {
        {(char *)self->bytes, (const char *)t->task_bytes, sizeof *self->bytes},
        {(char *)self->memory, (const char *)t->task_memory, sizeof *self->memory},
        {(char *)self->coords, (const char *)t->task_coords, 3 * sizeof *self->coords},
        {(char *)self->work, (const char *)t->task_work, sizeof *self->work},
        {(char *)self->movable, (const char *)t->task_migratable, sizeof *self->movable},
    };
    for (int i = 0; i < N_COLUMNS; i++) {
        out[i] = all[i];
        out[i].given = all[i].given == NULL ? NULL : all[i].given + first * all[i].size;
    }
}

/* Copy one element; the compiler makes a single instruction of a copy whose size it knows. */
static inline void put(char *to, const char *from, size_t size)
{
    if (size == sizeof(int64_t)) {
        memcpy(to, from, sizeof(int64_t));
    } else if (size == sizeof(uint8_t)) {
        *to = *from;
    } else {
        memcpy(to, from, 3 * sizeof(double));
    }
}

/* Move the properties to the new indices of their objects. */
static void keep_facts(plb_phases_t *self, int64_t old_n, int64_t n)
{
    column_t column[N_COLUMNS];
    columns_of(self, 0, column);
    for (const column_t *x = column; x < column + N_COLUMNS; x++) {
        memcpy(self->held, x->own, (size_t)old_n * x->size);
        for (int64_t k = 0; k < n; k++) {
            if (self->from[k] >= 0) {
                put(x->own + k * x->size, self->held + self->from[k] * x->size, x->size);
            }
        }
    }
}

static void take_new_facts(plb_phases_t *self, int64_t first)
{
    column_t column[N_COLUMNS];
    columns_of(self, first, column);
    static const char zeros[3 * sizeof(double)];
    for (int64_t k = 0; k < self->n; k++) {
        if (self->from[k] >= 0) {
            continue;
        }
        for (const column_t *x = column; x < column + N_COLUMNS; x++) {
            const char *from = x->given == NULL ? zeros : x->given + k * x->size;
            put(x->own + k * x->size, from, x->size);
        }
        if (self->trace->task_migratable == NULL) {
            self->movable[k] = self->trace->entity_migratable[self->entity[k]];
        }
    }
}

void plb_phases_take_facts(plb_phases_t *self, int64_t first)
{
    column_t column[N_COLUMNS];
    columns_of(self, first, column);
    for (const column_t *x = column; x < column + N_COLUMNS; x++) {
        if (x->given != NULL && self->n > 0) {
            memcpy(x->own, x->given, (size_t)self->n * x->size);
        }
    }
    const plb_trace_t *t = self->trace;
    for (int64_t k = 0; self->some_stay && t->task_migratable == NULL && k < self->n; k++) {
        self->movable[k] = t->entity_migratable[self->entity[k]];
    }
    self->some_stay = t->task_migratable != NULL;
}

static int list_objects(plb_phases_t *self, int64_t first, int64_t n, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int64_t old_n = self->n;
    for (int64_t k = 0; k < n; k++) {
        self->from[k] = self->index_of[t->task_entity[first + k]];
    }
    for (int64_t k = 0; k < old_n; k++) {
        self->index_of[self->entity[k]] = -1;
    }
    keep_facts(self, old_n, n);
    carry_over(self, old_n, n);
    self->all_movable = true;
    for (int64_t k = 0; k < n; k++) {
        const int32_t e = t->task_entity[first + k];
        PLB_FAIL_IF(self->index_of[e] >= 0, err, PLB_ERR_VALUE,
                    "task_entity[%lld] is %d, which has another task in the phase: "
                    "expected one task for each entity",
                    (long long)(first + k), e);
        self->entity[k] = e;
        self->index_of[e] = (int32_t)k;
        /* for a new object, plb_phases_gain assumes that the last LB step did not move it */
        if (self->from[k] < 0) {
            self->rank_before[e] = -1;
        }
        self->key[k] = t->entity_key[e];
        self->all_movable = self->all_movable && t->entity_migratable[e];
    }
    self->n = n;
    take_new_facts(self, first);
    return PLB_OK;
}

/* Set the ranks of the present objects.  Returns whether these objects or their ranks differ from
 * those of the previous phase; fresh: whether the objects do. */
static bool set_ranks(plb_phases_t *self, int64_t first, bool fresh)
{
    const plb_trace_t *t = self->trace;
    bool moved = fresh;
    for (int64_t k = 0; k < self->n; k++) {
        const bool is_new = fresh && self->from[k] < 0;
        const int32_t r = rank_in_phase(self, first + k, is_new);
        moved = moved || r != self->rank[k];
        self->rank[k] = r;
        if (t->entity_migratable[self->entity[k]]) {
            self->rank_of[self->entity[k]] = r;
        }
    }
    return moved;
}

static bool is_present(const plb_phases_t *self, int64_t first, int64_t n)
{
    return n == self->n && (n == 0 || memcmp(self->entity, self->trace->task_entity + first,
                                             (size_t)n * sizeof *self->entity) == 0);
}

int plb_phases_enter(plb_phases_t *self, int64_t i, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], n = t->task_ptr[i + 1] - first;
    const bool known =
        i < self->sums_end || (i > 0 && self->phase == i - 1 && plb_trace_alike(t, i));
    self->phase = i;
    self->same_objects = known || is_present(self, first, n);
    int ret = plb_trace_check_tasks(t, i, self->same_objects, err);
    if (ret == PLB_OK &&
        (self->opt.edges || self->opt.crossing || plb_network_costs(self->opt.network))) {
        ret = plb_trace_check_edges(t, i, err);
    }
    if (ret != PLB_OK) {
        return ret;
    }
    if (!self->same_objects && (ret = list_objects(self, first, n, err)) != PLB_OK) {
        return ret;
    }
    const bool steady =
        self->same_objects &&
        (self->opt.as_recorded ? i > 0 && plb_trace_same_ranks(t, i) : self->all_movable);
    if (!steady && set_ranks(self, first, !self->same_objects)) {
        self->ordered = false;
        self->sums_end = -1;
    }
    return PLB_OK;
}

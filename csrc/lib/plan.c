/* The time of a rank's work and redistributions; the plan of an LB step, and its migration. */
#include "lib/internal.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

/* ---- the seconds of this rank --------------------------------------------------------------- */

/* Return the time in ns.  Never 0, because self->started is 0 if no measurement has begun. */
static int64_t now_of(const plb_lib_advisor_t *self)
{
    return self->clock == PLB_CLOCK_NONE ? 1 : plb_clock_real_ns(self->clock);
}

int pylb_start(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->started != 0, err, PLB_ERR_STATE,
                "pylb_start within pylb_start: expected pylb_stop");
    PLB_PASS(plb_lib_advisor_ready(self, err));
    if (self->step == 0 && self->work == 0.0) {
        /* the time before the first pylb_start belongs to no step */
        self->mark = plb_clock_real_ns(PLB_CLOCK_WALL);
        self->delayed = plb_run_delay_ns();
    }
    self->started = now_of(self);
    return PLB_OK;
}

int pylb_stop(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->started == 0, err, PLB_ERR_STATE, "pylb_stop without pylb_start");
    const int64_t ns = now_of(self) - self->started;
    self->work += ns > 0 ? 1e-9 * (double)ns : 0.0; /* negative: the clock was set back */
    self->told = true;
    self->started = 0;
    return PLB_OK;
}

double pylb_seconds(pylb_advisor *lb)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = plb_lib_advisor_of(lb, err);
    if (self == NULL || (!self->ready && plb_lib_advisor_ready(self, err) != PLB_OK)) {
        return NAN;
    }
    return 1e-9 * (double)plb_clock_real_ns(self->clock);
}

static int check_seconds(double seconds, double before, plb_err_t *err)
{
    return seconds >= 0.0 && before + seconds <= 1e30
               ? PLB_OK
               : PLB_FAIL(
                     err, PLB_ERR_VALUE,
                     "seconds is %g: expected 0 ... 1e30, also with the %g of this step so far",
                     seconds, before);
}

int pylb_work(pylb_advisor *lb, double seconds)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_PASS(check_seconds(seconds, self->work, err));
    PLB_PASS(plb_lib_advisor_ready(self, err));
    self->work += seconds;
    self->told = self->passed = true;
    return PLB_OK;
}

/* ---- the redistribution --------------------------------------------------------------------- */

static void begin_moving(plb_lib_advisor_t *self)
{
    const int64_t now = plb_clock_real_ns(PLB_CLOCK_WALL);
    self->hidden += self->went_on != 0 && now > self->went_on && !plb_lib_measures_nothing(self)
                        ? 1e-9 * (double)(now - self->went_on)
                        : 0.0;
    self->went_on = 0;
    self->moving = self->moving == 0 ? now : self->moving;
}

static void end_moving(plb_lib_advisor_t *self)
{
    self->rebalanced = true;
    if (self->in_block) {
        return;
    }
    const int64_t now = plb_clock_real_ns(PLB_CLOCK_WALL), ns = now - self->moving;
    self->went_on = self->plan.moves != NULL ? now : 0;
    plb_lib_begin_work(self);
    self->moved_ns += ns > 0 ? ns : 0;
    self->cost += ns > 0 && !plb_lib_measures_nothing(self) ? 1e-9 * (double)ns : 0.0;
    self->moving = 0;
}

int pylb_rebalance_begin(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->in_block, err, PLB_ERR_STATE,
                "pylb_rebalance_begin within pylb_rebalance_begin: "
                "expected pylb_rebalance_end");
    PLB_PASS(plb_lib_advisor_ready(self, err));
    begin_moving(self);
    self->in_block = true;
    return PLB_OK;
}

int pylb_rebalance_end(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(!self->in_block, err, PLB_ERR_STATE,
                "pylb_rebalance_end without pylb_rebalance_begin");
    self->in_block = false;
    end_moving(self);
    return PLB_OK;
}

int pylb_rebalanced(pylb_advisor *lb, double seconds)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_PASS(check_seconds(seconds, self->cost, err));
    PLB_PASS(plb_lib_advisor_ready(self, err));
    self->rebalanced = true;
    plb_lib_begin_work(self);
    self->cost += seconds;
    return PLB_OK;
}

/* ---- migration ------------------------------------------------------------------------------ */

/* An array that moves.  Each cell has one item, or, with offsets, several elements. */
typedef struct plb_move {
    struct plb_move *next;
    const char *from; /* the program's arrays; `from` begins with the first cell */
    char *to;
    int64_t bytes;
    int64_t *offset; /* [n + 1] owned; NULL: one item each */
    /* [p + 1] owned, with offsets: like those of the plan, but they count elements, not cells */
    int64_t *send, *receive;
    char *wire; /* owned: items that leave, ordered by rank; NULL: `from` has this order */
    plb_exchange_t *exchange;
} plb_move_t;

/* What the program passes. */
typedef struct items {
    const char *from;
    size_t bytes;
    char *to;
    bool sized; /* whether there are offsets */
    const int64_t *offset, *new_offset;
} items_t;

static void free_move(plb_move_t *self)
{
    if (self != NULL) {
        PLB_FREE(self->offset, self->send, self->receive, self->wire, self);
    }
}

static int check_offsets(const int64_t *offset, int64_t n, const int64_t *new_offset,
                         plb_err_t *err)
{
    PLB_FAIL_IF(offset == NULL || new_offset == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                offset == NULL ? "offset" : "new_offset");
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(offset[i + 1] < offset[i], err, PLB_ERR_VALUE,
                    "offset[%lld] is %lld: expected %lld or more", (long long)(i + 1),
                    (long long)offset[i + 1], (long long)offset[i]);
    }
    return PLB_OK;
}

/* Count the elements that go to each rank, and that come from each rank. */
static int count_elements(const pylb_plan *plan, const int64_t *offset, const int64_t *new_offset,
                          plb_move_t *out, plb_err_t *err)
{
    const int p = plan->lb->ranks->size;
    PLB_PASS(check_offsets(offset, plan->n, new_offset, err));
    PLB_PASS_NEW0_EACH(p + 1, out->send, out->receive);
    PLB_PASS_NEW(out->offset, plan->n + 1);
    for (int64_t i = 0; i <= plan->n; i++) {
        out->offset[i] = offset[i] - offset[0];
    }
    for (int64_t i = 0; i < plan->n; i++) {
        out->send[plan->rank[i] + 1] += offset[i + 1] - offset[i];
    }
    for (int r = 0; r < p; r++) {
        out->send[r + 1] += out->send[r];
        out->receive[r + 1] = new_offset[plan->receive[r + 1]];
    }
    return PLB_OK;
}

/* Prepare a move, up to the first call that involves other ranks. */
static int prepare(const pylb_plan *plan, const items_t *items, plb_move_t **out, plb_err_t *err)
{
    const int p = plan->lb->ranks->size, me = plan->lb->ranks->rank;
    const int32_t *order = plan->route.order;
    PLB_PASS_NEW0(*out, 1);
    plb_move_t *self = *out;
    *self = (plb_move_t){.from = items->from, .to = items->to, .bytes = (int64_t)items->bytes};
    if (items->sized) {
        PLB_PASS(count_elements(plan, items->offset, items->new_offset, self, err));
    }
    const int64_t *send = items->sized ? self->send : plan->send;
    const int64_t *receive = items->sized ? self->receive : plan->receive;
    const bool sends = items->from == NULL && send[p] > 0;
    const int64_t most = send[p] > receive[p] ? send[p] : receive[p];
    PLB_FAIL_IF(sends || (items->to == NULL && receive[p] > 0), err, PLB_ERR_VALUE,
                "%s is NULL: expected an array of %lld items", sends ? "from" : "to",
                (long long)(sends ? send[p] : receive[p]));
    PLB_FAIL_IF(most > 0 && items->bytes > (size_t)(INT64_MAX / most), err, PLB_ERR_VALUE,
                "%lld items of %zu bytes: expected fewer than 2^63 bytes", (long long)most,
                items->bytes);
    if (items->sized && send[p] > 0) {
        self->from += items->offset[0] * self->bytes;
    }
    if (order == NULL) {
        return PLB_OK;
    }
    /* `wire` has a gap for the cells that stay; its memory is never touched */
    const int64_t *cell = plan->send;
    PLB_PASS_NEW(self->wire, send[p] * self->bytes);
    plb_gather(self->from, self->offset, order, cell[me], self->bytes, self->wire);
    plb_gather(self->from, self->offset, order + cell[me + 1], plan->n - cell[me + 1], self->bytes,
               self->wire + send[me + 1] * self->bytes);
    return PLB_OK;
}

/* Begin to move an array.  failed: PLB_OK, or an error of this rank; then all ranks fail. */
static int begin_move(pylb_plan *plan, int failed, const items_t *items, plb_move_t **out,
                      plb_err_t *err)
{
    plb_move_t *m = NULL;
    plb_exchange_t *exchange;
    int ret = failed;
    begin_moving(plan->lb);
    PLB_THEN(prepare(plan, items, &m, err));
    const bool sized = m != NULL && m->send != NULL;
    ret = plan->lb->ranks->begin_exchange(plan->lb->ranks, ret,
                                          m == NULL         ? NULL
                                          : m->wire == NULL ? m->from
                                                            : m->wire,
                                          sized ? m->send : plan->send, items->to,
                                          sized ? m->receive : plan->receive,
                                          (int64_t)items->bytes, &exchange, err);
    end_moving(plan->lb);
    if (ret != PLB_OK) {
        free_move(m);
        return ret;
    }
    m->exchange = exchange;
    *out = m;
    return PLB_OK;
}

/* Wait until an array has arrived.  Items of cells that stay are copied only now, because the
 * program may have changed them. */
static int end_move(pylb_plan *plan, plb_move_t *m, plb_err_t *err)
{
    const int me = plan->lb->ranks->rank;
    const int64_t *cell = plan->send;
    const int64_t *send = m->send == NULL ? cell : m->send;
    const int64_t own = send[me + 1] - send[me];
    begin_moving(plan->lb);
    const int ret = plan->lb->ranks->end_exchange(plan->lb->ranks, m->exchange, err);
    if (ret == PLB_OK && own * m->bytes > 0) {
        char *to = m->to + (m->receive == NULL ? plan->receive : m->receive)[me] * m->bytes;
        if (plan->route.order != NULL) {
            plb_gather(m->from, m->offset, plan->route.order + cell[me], cell[me + 1] - cell[me],
                       m->bytes, to);
        } else {
            memcpy(to, m->from + send[me] * m->bytes, (size_t)(own * m->bytes));
        }
    }
    end_moving(plan->lb);
    free_move(m);
    return ret;
}

/* End all moves; the first error counts. */
static int end_moves(pylb_plan *plan, plb_err_t *err)
{
    int ret = PLB_OK;
    while (plan->moves != NULL) {
        plb_move_t *m = plan->moves;
        plan->moves = m->next;
        const int ended = end_move(plan, m, ret == PLB_OK ? err : NULL);
        PLB_THEN(ended);
    }
    return ret;
}

/* ---- the plan ------------------------------------------------------------------------------- */

int plb_plan_init(pylb_plan *self, plb_lib_advisor_t *lb, const int32_t *rank, int64_t n,
                  const int64_t *receive, int64_t migrations, plb_err_t *err)
{
    int ret = PLB_OK;
    const int p = lb->ranks->size;
    *self = (pylb_plan){.lb = lb, .n = n, .migrations = migrations};
    PLB_NEW(self->rank, n);
    PLB_NEW0_EACH(p + 1, self->send, self->receive);
    if (n > 0) {
        memcpy(self->rank, rank, (size_t)n * sizeof *rank);
    }
    PLB_TRY(plb_route_init(&self->route, rank, n, p, err));
    for (int64_t i = 0; i < n; i++) {
        self->send[rank[i] + 1]++;
    }
    for (int r = 0; r < p; r++) {
        self->send[r + 1] += self->send[r];
        self->receive[r + 1] = self->receive[r] + receive[r];
    }
out:
    if (ret != PLB_OK) {
        plb_plan_free(self);
    }
    return ret;
}

void plb_plan_free(pylb_plan *self)
{
    (void)end_moves(self, NULL);
    plb_route_free(&self->route);
    PLB_FREE(self->rank, self->send, self->receive);
    *self = (pylb_plan){0};
}

const int32_t *pylb_plan_rank(const pylb_plan *plan)
{
    return plan == NULL ? NULL : plan->rank;
}

int64_t pylb_plan_n(const pylb_plan *plan)
{
    return plan == NULL || plan->lb == NULL ? 0 : plan->receive[plan->lb->ranks->size];
}

int64_t pylb_plan_migrations(const pylb_plan *plan)
{
    return plan == NULL ? 0 : plan->migrations;
}

static int check(const pylb_plan *plan, plb_err_t *err)
{
    PLB_FAIL_IF(plan == NULL || plan->lb == NULL, err, PLB_ERR_VALUE, "plan is %s",
                plan == NULL ? "NULL" : "of an earlier step: expected that of this step");
    return PLB_OK;
}

int pylb_plan_counts(const pylb_plan *plan, int64_t *send, int64_t *receive)
{
    PLB_PASS(check(plan, plb_lib_error()));
    for (int r = 0; r < plan->lb->ranks->size; r++) {
        if (send != NULL) {
            send[r] = plan->send[r + 1] - plan->send[r];
        }
        if (receive != NULL) {
            receive[r] = plan->receive[r + 1] - plan->receive[r];
        }
    }
    return PLB_OK;
}

/* ---- the calls that move -------------------------------------------------------------------- */

/* Move an array.  If `ends` is true, wait until it has arrived. */
static int move(pylb_plan *plan, bool ends, const items_t *items)
{
    plb_err_t *err = plb_lib_error();
    plb_move_t *m, **last;
    PLB_PASS(check(plan, err));
    PLB_PASS(begin_move(plan, PLB_OK, items, &m, err));
    if (ends) {
        return end_move(plan, m, err);
    }
    for (last = &plan->moves; *last != NULL; last = &(*last)->next) {
    }
    *last = m;
    plan->lb->went_on = plan->lb->in_block ? 0 : plb_clock_real_ns(PLB_CLOCK_WALL);
    return PLB_OK;
}

int pylb_plan_migrate(pylb_plan *plan, const void *from, size_t bytes, void *to)
{
    return move(plan, true, &(items_t){.from = from, .bytes = bytes, .to = to});
}

int pylb_plan_migrate_begin(pylb_plan *plan, const void *from, size_t bytes, void *to)
{
    return move(plan, false, &(items_t){.from = from, .bytes = bytes, .to = to});
}

int pylb_plan_migrate_sized(pylb_plan *plan, const void *from, const int64_t *offset, size_t bytes,
                            void *to, const int64_t *new_offset)
{
    return move(plan, true, &(items_t){from, bytes, to, true, offset, new_offset});
}

int pylb_plan_migrate_sized_begin(pylb_plan *plan, const void *from, const int64_t *offset,
                                  size_t bytes, void *to, const int64_t *new_offset)
{
    return move(plan, false, &(items_t){from, bytes, to, true, offset, new_offset});
}

int pylb_plan_migrate_end(pylb_plan *plan)
{
    plb_err_t *err = plb_lib_error();
    PLB_PASS(check(plan, err));
    PLB_FAIL_IF(plan->moves == NULL, err, PLB_ERR_STATE,
                "pylb_plan_migrate_end without pylb_plan_migrate_begin");
    return end_moves(plan, err);
}

static int sizes_of(const int64_t *offset, int64_t n, const int64_t *new_offset, int64_t **size,
                    plb_err_t *err)
{
    PLB_PASS_NEW(*size, n);
    PLB_PASS(check_offsets(offset, n, new_offset, err));
    for (int64_t i = 0; i < n; i++) {
        (*size)[i] = offset[i + 1] - offset[i];
    }
    return PLB_OK;
}

int pylb_plan_offsets(pylb_plan *plan, const int64_t *offset, int64_t *new_offset)
{
    plb_err_t *err = plb_lib_error();
    PLB_PASS(check(plan, err));
    const int64_t n = pylb_plan_n(plan);
    int64_t *size = NULL;
    plb_move_t *m;
    int ret = sizes_of(offset, plan->n, new_offset, &size, err);
    const items_t items = {.from = (const char *)size,
                           .bytes = sizeof *size,
                           .to = new_offset == NULL ? NULL : (char *)(new_offset + 1)};
    ret = begin_move(plan, ret, &items, &m, err);
    PLB_THEN(end_move(plan, m, err));
    plb_free(size);
    PLB_PASS(ret);
    new_offset[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        new_offset[i + 1] += new_offset[i];
    }
    return PLB_OK;
}

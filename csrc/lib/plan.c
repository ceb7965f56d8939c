#include "lib/plan.h"

#include <string.h>

#include "base/mem.h"
#include "lib/handle.h"

int plb_plan_init(pylb_plan *self, plb_transport_t *ranks, const int32_t *rank, int64_t n,
                  const int64_t *receive, int64_t migrations, plb_err_t *err)
{
    int ret = PLB_OK;
    const int p = ranks->size;
    *self = (pylb_plan){.ranks = ranks, .n = n, .migrations = migrations};
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
    return plan == NULL ? 0 : plan->receive[plan->ranks->size];
}

int64_t pylb_plan_migrations(const pylb_plan *plan)
{
    return plan == NULL ? 0 : plan->migrations;
}

static int check(const pylb_plan *plan, plb_err_t *err)
{
    PLB_FAIL_IF(plan == NULL || plan->ranks == NULL, err, PLB_ERR_VALUE, "plan is %s",
                plan == NULL ? "NULL" : "of an earlier step: expected that of this step");
    return PLB_OK;
}

int pylb_plan_counts(const pylb_plan *plan, int64_t *send, int64_t *receive)
{
    PLB_PASS(check(plan, plb_lib_error()));
    for (int r = 0; r < plan->ranks->size; r++) {
        if (send != NULL) {
            send[r] = plan->send[r + 1] - plan->send[r];
        }
        if (receive != NULL) {
            receive[r] = plan->receive[r + 1] - plan->receive[r];
        }
    }
    return PLB_OK;
}

/* ---- migration ------------------------------------------------------------------------------ */

static int move_items(const pylb_plan *plan, const char *from, int64_t bytes, char *to,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    char *wire = NULL;
    if (plan->route.order != NULL) {
        PLB_NEW(wire, plan->n * bytes);
        plb_gather(from, plan->route.order, plan->n, bytes, wire);
    }
    ret = plan->ranks->exchange(plan->ranks, wire == NULL ? from : wire, plan->send, to,
                                plan->receive, bytes, err);
out:
    plb_free(wire);
    return ret;
}

static int check_arrays(const pylb_plan *plan, const void *from, const void *to, plb_err_t *err)
{
    PLB_PASS(check(plan, err));
    PLB_FAIL_IF((from == NULL && plan->n > 0) || (to == NULL && pylb_plan_n(plan) > 0), err,
                PLB_ERR_VALUE, "%s is NULL: expected an array of %lld items",
                from == NULL && plan->n > 0 ? "from" : "to",
                (long long)(from == NULL && plan->n > 0 ? plan->n : pylb_plan_n(plan)));
    return PLB_OK;
}

int pylb_plan_migrate(pylb_plan *plan, const void *from, size_t bytes, void *to)
{
    plb_err_t *err = plb_lib_error();
    PLB_PASS(check_arrays(plan, from, to, err));
    plan->begin(plan->arg);
    const int ret = move_items(plan, from, (int64_t)bytes, to, err);
    plan->end(plan->arg);
    return ret;
}

/* Compute size[i], the number of elements of item i, from offset[n + 1]. */
static int sizes_of(const int64_t *offset, int64_t n, int64_t *size, plb_err_t *err)
{
    for (int64_t i = 0; i < n; i++) {
        size[i] = offset[i + 1] - offset[i];
        PLB_FAIL_IF(size[i] < 0, err, PLB_ERR_VALUE, "offset[%lld] is %lld: expected %lld or more",
                    (long long)(i + 1), (long long)offset[i + 1], (long long)offset[i]);
    }
    return PLB_OK;
}

int pylb_plan_offsets(pylb_plan *plan, const int64_t *offset, int64_t *new_offset)
{
    int ret = PLB_OK;
    plb_err_t *err = plb_lib_error();
    int64_t *size = NULL;
    PLB_TRY(check_arrays(plan, offset, new_offset, err));
    const int64_t n = pylb_plan_n(plan);
    PLB_NEW(size, plan->n);
    PLB_TRY(sizes_of(offset, plan->n, size, err));
    plan->begin(plan->arg);
    ret = move_items(plan, (const char *)size, sizeof *size, (char *)(new_offset + 1), err);
    plan->end(plan->arg);
    new_offset[0] = 0;
    for (int64_t i = 0; ret == PLB_OK && i < n; i++) {
        new_offset[i + 1] += new_offset[i];
    }
out:
    plb_free(size);
    return ret;
}

static int move_sized(const pylb_plan *plan, const char *from, const int64_t *offset,
                      int64_t bytes, char *to, const int64_t *new_offset, plb_err_t *err)
{
    int ret = PLB_OK;
    const int p = plan->ranks->size;
    int64_t *send = NULL, *receive = NULL;
    char *wire = NULL;
    PLB_NEW0_EACH(p + 1, send, receive);
    for (int64_t i = 0; i < plan->n; i++) {
        send[plan->rank[i] + 1] += offset[i + 1] - offset[i];
    }
    for (int r = 0; r < p; r++) {
        send[r + 1] += send[r];
        receive[r + 1] = new_offset[plan->receive[r + 1]];
    }
    PLB_NEW(wire, send[p] * bytes);
    if (plan->route.order != NULL) {
        plb_gather_sized(from, offset, plan->route.order, plan->n, bytes, wire);
    } else if (send[p] > 0) {
        memcpy(wire, from + offset[0] * bytes, (size_t)(send[p] * bytes));
    }
    ret = plan->ranks->exchange(plan->ranks, wire, send, to, receive, bytes, err);
out:
    PLB_FREE(send, receive, wire);
    return ret;
}

int pylb_plan_migrate_sized(pylb_plan *plan, const void *from, const int64_t *offset, size_t bytes,
                            void *to, const int64_t *new_offset)
{
    plb_err_t *err = plb_lib_error();
    PLB_PASS(check(plan, err));
    PLB_FAIL_IF(offset == NULL || new_offset == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                offset == NULL ? "offset" : "new_offset");
    plan->begin(plan->arg);
    const int ret = move_sized(plan, from, offset, (int64_t)bytes, to, new_offset, err);
    plan->end(plan->arg);
    return ret;
}

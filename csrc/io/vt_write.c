#include "io/vt_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"

/* ---- the plan ------------------------------------------------------------------------------- */

static int32_t file_of(const plb_vt_plan_t *self, int32_t f, int64_t k)
{
    const int32_t node = self->node[f][k];
    return node == self->files[f]->tasks[k].node ? f : node;
}

static int add_move(plb_vt_plan_t *self, plb_vt_move_t move, plb_err_t *err)
{
    PLB_PASS_GROW(self->moves, self->room, self->n_moves + 1);
    self->moves[self->n_moves++] = move;
    return PLB_OK;
}

/* Sort moves by new file, phase and kind, then as they are in the old files. */
static int compare(const void *left, const void *right)
{
    const plb_vt_move_t *a = left, *b = right;
    const int64_t keys[][2] = {{a->to, b->to},
                               {a->phase, b->phase},
                               {a->comm, b->comm},
                               {a->from, b->from},
                               {a->index, b->index}};
    for (int i = 0; i < 5; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

/* Index of the first move of this phase and kind into file r, or where it would be. */
static int64_t first_move(const plb_vt_plan_t *self, int32_t r, int64_t phase, bool comm)
{
    const plb_vt_move_t key = {.to = r, .from = -1, .phase = phase, .comm = comm};
    int64_t low = 0, high = self->n_moves;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (compare(&self->moves[middle], &key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_move(const plb_vt_plan_t *self, int64_t i, int32_t r, int64_t phase, bool comm)
{
    return i < self->n_moves && self->moves[i].to == r && self->moves[i].phase == phase &&
           self->moves[i].comm == comm;
}

/* t, c: the next task and communication of the run. */
typedef struct planner {
    plb_vt_plan_t *plan;
    const plb_vt_run_t *run;
    const int32_t *rank;
    int32_t *was, *now; /* [n_entities] old and new file of the entity's task in this phase */
    int64_t t, c;
    plb_err_t *err;
} planner_t;

static int plan_tasks(planner_t *self, int64_t phase, int32_t f, bool again)
{
    plb_vt_plan_t *plan = self->plan;
    const plb_vt_scan_t *file = plan->files[f];
    const plb_vt_phase_t *p = &file->phases[phase];
    for (int64_t k = p->task_begin; k < p->task_end; k++) {
        if (plb_vt_is_initial(p, &file->tasks[k])) {
            continue;
        }
        const int64_t t = self->t++;
        int ret = plb_interrupted(4);
        if (again && plan->node[f][k] != self->rank[t]) {
            ret = PLB_FAIL(
                self->err, PLB_ERR_VALUE,
                "rank[%lld] is %d: expected %d, because this phase is a copy of phase %lld",
                (long long)t, self->rank[t], plan->node[f][k], (long long)p->id);
        }
        plan->node[f][k] = self->rank[t];
        self->was[self->run->task_entity[t]] = f;
        self->now[self->run->task_entity[t]] = file_of(plan, f, k);
        if (!again && file_of(plan, f, k) != f) {
            const plb_vt_move_t move = {file_of(plan, f, k), f, phase, k, false};
            PLB_THEN(add_move(plan, move, self->err));
        }
        if (ret != PLB_OK) {
            return ret;
        }
    }
    return PLB_OK;
}

static int plan_comms(planner_t *self, int64_t phase, int32_t f, bool again)
{
    plb_vt_plan_t *plan = self->plan;
    const plb_vt_phase_t *p = &plan->files[f]->phases[phase];
    for (int64_t k = p->comm_begin; k < p->comm_end; k++) {
        const int64_t c = self->c++;
        const int32_t src = self->run->comm_src[c], dst = self->run->comm_dst[c];
        const bool by_dst = plan->files[f]->comms[k].type == PLB_VT_BROADCAST;
        const int32_t first = by_dst ? dst : src, second = by_dst ? src : dst;
        int32_t to = f; /* it stays if neither end has a task in this file */
        if (first >= 0 && self->was[first] == f) {
            to = self->now[first];
        } else if (second >= 0 && self->was[second] == f) {
            to = self->now[second];
        }
        plan->target[f][k] = to;
        int ret = plb_interrupted(4);
        if (!again && to != f) {
            PLB_THEN(add_move(plan, (plb_vt_move_t){to, f, phase, k, true}, self->err));
        }
        if (ret != PLB_OK) {
            return ret;
        }
    }
    return PLB_OK;
}

static int plan_phase(planner_t *self, int64_t phase)
{
    plb_vt_plan_t *plan = self->plan;
    const bool again = plan->n_kept > 0 && plan->kept[plan->n_kept - 1] == phase;
    int ret = PLB_OK;
    for (int32_t f = 0; ret == PLB_OK && f < plan->n_files; f++) {
        ret = plan_tasks(self, phase, f, again);
    }
    for (int32_t f = 0; ret == PLB_OK && f < plan->n_files; f++) {
        ret = plan_comms(self, phase, f, again);
    }
    if (ret == PLB_OK && !again) {
        plan->kept[plan->n_kept++] = phase;
    }
    return ret;
}

static int stay(plb_vt_plan_t *self, int32_t f, plb_err_t *err)
{
    const plb_vt_scan_t *file = self->files[f];
    PLB_PASS_NEW(self->node[f], file->n_tasks);
    PLB_PASS_NEW(self->target[f], file->n_comms);
    for (int64_t k = 0; k < file->n_tasks; k++) {
        self->node[f][k] = file->tasks[k].node;
    }
    for (int64_t k = 0; k < file->n_comms; k++) {
        self->target[f][k] = f;
    }
    return PLB_OK;
}

int plb_vt_plan_init(plb_vt_plan_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                     const int64_t *source, int64_t n_phases, const plb_vt_run_t *run,
                     const int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_vt_plan_t){.files = files, .n_files = n_files};
    planner_t p = {.plan = self, .run = run, .rank = rank, .err = err};
    PLB_NEW0(self->node, n_files);
    PLB_NEW0(self->target, n_files);
    PLB_NEW(self->kept, n_phases);
    PLB_NEW(p.was, run->n_entities);
    PLB_NEW(p.now, run->n_entities);
    for (int32_t f = 0; ret == PLB_OK && f < n_files; f++) {
        ret = stay(self, f, err);
    }
    for (int64_t i = 0; ret == PLB_OK && i < n_phases; i++) {
        ret = plan_phase(&p, source[i]);
    }
    if (self->n_moves > 0) {
        qsort(self->moves, (size_t)self->n_moves, sizeof *self->moves, compare);
    }
out:
    PLB_FREE(p.was, p.now);
    if (ret != PLB_OK) {
        plb_vt_plan_free(self);
    }
    return ret;
}

void plb_vt_plan_free(plb_vt_plan_t *self)
{
    for (int32_t f = 0; f < self->n_files; f++) {
        plb_free(self->node == NULL ? NULL : self->node[f]);
        plb_free(self->target == NULL ? NULL : self->target[f]);
    }
    PLB_FREE(self->node, self->target, self->kept, self->moves);
    *self = (plb_vt_plan_t){0};
}

/* ---- text ----------------------------------------------------------------------------------- */

/* After a failed allocation or an interrupt, the text does not grow any more. */
typedef struct out {
    char *text;
    size_t size, room;
    int ret;
    plb_err_t *err;
} out_t;

static int grow(out_t *self, size_t room, plb_err_t *err)
{
    PLB_PASS_RENEW(self->text, room);
    self->room = room;
    return PLB_OK;
}

static void put(out_t *self, const char *text, size_t size)
{
    if (self->ret == PLB_OK) {
        self->ret = plb_interrupted(8 + (int64_t)(size >> 6));
    }
    if (self->ret == PLB_OK && self->size + size > self->room) {
        self->ret = grow(self, 2 * (self->size + size), self->err);
    }
    if (self->ret == PLB_OK && size > 0) {
        memcpy(self->text + self->size, text, size);
        self->size += size;
    }
}

static void put_bytes(out_t *out, const plb_vt_scan_t *file, uint64_t begin, uint64_t end)
{
    put(out, file->text + begin, (size_t)(end - begin));
}

static plb_span_t text_of(const plb_vt_scan_t *file, int64_t k, bool comm)
{
    return comm ? file->comms[k].text : file->tasks[k].text;
}

static void put_task(out_t *out, const plb_vt_scan_t *file, int64_t k, int32_t node)
{
    const plb_vt_task_t *task = &file->tasks[k];
    if (task->node == node) {
        put_bytes(out, file, task->text.begin, task->text.end);
        return;
    }
    char number[16];
    const int size = snprintf(number, sizeof number, "%d", node);
    put_bytes(out, file, task->text.begin, task->node_text.begin);
    put(out, number, (size_t)size);
    put_bytes(out, file, task->node_text.end, task->text.end);
}

static void put_element(const plb_vt_plan_t *self, out_t *out, int32_t f, int64_t k, bool comm)
{
    const plb_vt_scan_t *file = self->files[f];
    if (comm) {
        put_bytes(out, file, file->comms[k].text.begin, file->comms[k].text.end);
    } else {
        put_task(out, file, k, self->node[f][k]);
    }
}

/* Tasks or communications of a phase in the file. */
typedef struct list {
    bool comm;
    plb_span_t text; /* text of the array; empty: none */
    int64_t begin, end, moves;
} list_t;

static list_t list_of(const plb_vt_plan_t *self, int32_t r, int64_t phase, bool comm)
{
    const plb_vt_phase_t *p = &self->files[r]->phases[phase];
    const int64_t moves = first_move(self, r, phase, comm);
    return comm ? (list_t){true, p->comms_text, p->comm_begin, p->comm_end, moves}
                : (list_t){false, p->tasks_text, p->task_begin, p->task_end, moves};
}

static bool stays(const plb_vt_plan_t *self, int32_t r, int64_t k, bool comm)
{
    return comm ? self->target[r][k] == r : file_of(self, r, k) == r;
}

static bool list_changes(const plb_vt_plan_t *self, int32_t r, int64_t phase, const list_t *list)
{
    if (is_move(self, list->moves, r, phase, list->comm)) {
        return true;
    }
    for (int64_t k = list->begin; k < list->end; k++) {
        if (!stays(self, r, k, list->comm) ||
            (!list->comm && self->node[r][k] != self->files[r]->tasks[k].node)) {
            return true;
        }
    }
    return false;
}

/* Write the elements that stay, then those that arrive, with the white space of the file. */
static void put_list(const plb_vt_plan_t *self, out_t *out, int32_t r, int64_t phase,
                     const list_t *list)
{
    const plb_vt_scan_t *file = self->files[r];
    const bool any = list->begin < list->end;
    plb_span_t lead = {0, 0}, tail = {0, 0};
    if (any) {
        lead = (plb_span_t){list->text.begin + 1, text_of(file, list->begin, list->comm).begin};
        tail = (plb_span_t){text_of(file, list->end - 1, list->comm).end, list->text.end - 1};
    }
    char before = '[';
    for (int64_t k = list->begin; k < list->end; k++) {
        if (stays(self, r, k, list->comm)) {
            put(out, &before, 1);
            put_bytes(out, file, lead.begin, lead.end);
            put_element(self, out, r, k, list->comm);
            before = ',';
        }
    }
    for (int64_t i = list->moves; is_move(self, i, r, phase, list->comm); i++) {
        put(out, &before, 1);
        put_bytes(out, file, lead.begin, lead.end);
        put_element(self, out, self->moves[i].from, self->moves[i].index, list->comm);
        before = ',';
    }
    put(out, "[", before == '[');
    put_bytes(out, file, tail.begin, tail.end);
    put(out, "]", 1);
}

static void put_phase(const plb_vt_plan_t *self, out_t *out, int32_t r, int64_t phase)
{
    const plb_vt_scan_t *file = self->files[r];
    const plb_vt_phase_t *p = &file->phases[phase];
    list_t lists[2] = {list_of(self, r, phase, false), list_of(self, r, phase, true)};
    if (lists[0].text.begin > lists[1].text.begin) {
        const list_t first = lists[1];
        lists[1] = lists[0];
        lists[0] = first;
    }
    uint64_t at = p->text.begin + 1;
    put(out, "{", 1);
    for (int i = 0; i < 2; i++) {
        const list_t *list = &lists[i];
        if (!list_changes(self, r, phase, list)) {
            continue;
        }
        /* a new list is followed by a comma, because more fields follow (at least `id`) */
        if (list->text.end == 0) {
            put(out, list->comm ? "\"communications\":" : "\"tasks\":", list->comm ? 17 : 8);
            put_list(self, out, r, phase, list);
            put(out, ",", 1);
        } else {
            put_bytes(out, file, at, list->text.begin);
            put_list(self, out, r, phase, list);
            at = list->text.end;
        }
    }
    put_bytes(out, file, at, p->text.end);
}

static bool file_changes(const plb_vt_plan_t *self, int32_t r)
{
    bool changes = self->n_kept != self->files[r]->n_phases;
    for (int64_t i = 0; !changes && i < self->n_kept; i++) {
        const int64_t phase = self->kept[i];
        const list_t tasks = list_of(self, r, phase, false), comms = list_of(self, r, phase, true);
        changes = list_changes(self, r, phase, &tasks) || list_changes(self, r, phase, &comms);
    }
    return changes;
}

static void put_file(const plb_vt_plan_t *self, out_t *out, int32_t r)
{
    const plb_vt_scan_t *file = self->files[r];
    const plb_vt_phase_t *first = &file->phases[0], *last = &file->phases[file->n_phases - 1];
    const uint64_t begin = file->phases_text.begin + 1;
    put_bytes(out, file, 0, begin);
    for (int64_t i = 0; i < self->n_kept; i++) {
        put(out, ",", i > 0);
        put_bytes(out, file, begin, first->text.begin);
        put_phase(self, out, r, self->kept[i]);
    }
    put_bytes(out, file, last->text.end, file->size);
}

int plb_vt_write(const plb_vt_plan_t *self, int32_t r, char **text, size_t *size, plb_err_t *err)
{
    out_t out = {.err = err};
    if (file_changes(self, r)) {
        put_file(self, &out, r);
    } else {
        put_bytes(&out, self->files[r], 0, self->files[r]->size);
    }
    if (out.ret != PLB_OK) {
        plb_free(out.text);
        return out.ret;
    }
    *text = out.text;
    *size = out.size;
    return PLB_OK;
}

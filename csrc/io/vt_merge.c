#include "io/vt_merge.h"

#include <math.h>

#include "base/hash.h"
#include "base/interrupt.h"
#include "base/mem.h"

typedef struct names {
    plb_keys_t ids;   /* gives each id a number */
    plb_keys_t names; /* gives each key_of(number of the id, name) the number of the entity */
} names_t;

static int64_t key_of(int32_t id, const plb_vt_name_t *name)
{
    return (int64_t)id * 8 + name->type * 2 + name->kind;
}

static int32_t find_name(const names_t *self, const plb_vt_name_t *name)
{
    const int32_t id = plb_keys_find(&self->ids, name->id);
    return id < 0 ? -1 : plb_keys_find(&self->names, key_of(id, name));
}

static int add_name(names_t *self, const plb_vt_name_t *name, int32_t *entity, plb_err_t *err)
{
    int32_t id;
    const int ret = plb_keys_add(&self->ids, name->id, &id, err);
    return ret != PLB_OK ? ret : plb_keys_add(&self->names, key_of(id, name), entity, err);
}

/* ---- agreement of the ranks ----------------------------------------------------------------- */

static int check_rank(const plb_vt_scan_t *file, int32_t r, plb_err_t *err)
{
    PLB_FAIL_IF(file->rank >= 0 && file->rank != r, err, PLB_ERR_FORMAT,
                "%s: metadata.rank is %lld: expected %d, as the file's name says", file->name,
                (long long)file->rank, r);
    return PLB_OK;
}

static int check_phases(const plb_vt_scan_t *file, const plb_vt_scan_t *first, plb_err_t *err)
{
    const int64_t n = file->n_phases < first->n_phases ? file->n_phases : first->n_phases;
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(file->phases[i].id != first->phases[i].id, err, PLB_ERR_FORMAT,
                    "ranks have different phases: entry %lld is phase %lld in %s, "
                    "phase %lld in %s",
                    (long long)i, (long long)file->phases[i].id, file->name,
                    (long long)first->phases[i].id, first->name);
    }
    PLB_FAIL_IF(file->n_phases != first->n_phases, err, PLB_ERR_FORMAT,
                "ranks have different phases: %s has %lld phases, %s has %lld", file->name,
                (long long)file->n_phases, first->name, (long long)first->n_phases);
    return PLB_OK;
}

static int check_source(const plb_vt_scan_t *file, const int64_t *source, int64_t n_phases,
                        plb_err_t *err)
{
    for (int64_t i = 0; i < n_phases; i++) {
        PLB_FAIL_IF(source[i] < 0 || source[i] >= file->n_phases, err, PLB_ERR_RANGE,
                    "source[%lld] is %lld: expected 0 ... %lld", (long long)i,
                    (long long)source[i], (long long)file->n_phases - 1);
    }
    return PLB_OK;
}

static int check_nodes(const plb_vt_scan_t *file, int32_t n_files, plb_err_t *err)
{
    for (int64_t i = 0; i < file->n_tasks; i++) {
        if (file->tasks[i].node >= n_files) {
            plb_json_t j;
            plb_json_init(&j, file->text, file->size, file->name, err);
            return plb_json_fail(&j, file->text + file->tasks[i].node_text.begin,
                                 "task node is %d: expected 0 ... %d, a rank of the run",
                                 file->tasks[i].node, n_files - 1);
        }
    }
    return PLB_OK;
}

/* ---- the phases ----------------------------------------------------------------------------- */

typedef struct merger {
    plb_vt_run_t *run;
    const plb_vt_scan_t *const *files;
    int32_t n_files;
    names_t names;
    int64_t *seen;   /* [entities] phase of the entity's most recent task, or -1 */
    int32_t *holder; /* [entities] file with the entity's most recent task */
    bool has_user[PLB_VT_N_USER];
    plb_err_t *err;
} merger_t;

bool plb_vt_is_initial(const plb_vt_phase_t *phase, const plb_vt_task_t *task)
{
    const plb_vt_entity_t *e = &task->entity;
    return phase->id == 0 && task->time == 0.0 && e->name.id == 0 && e->name.kind == PLB_VT_ID &&
           !e->migratable && e->collection == -1 && e->objgroup == -1 && task->user < 0;
}

static void new_entity(merger_t *self, const plb_vt_entity_t *e)
{
    plb_vt_run_t *run = self->run;
    const int64_t i = run->n_entities++;
    self->seen[i] = -1;
    run->entity_key[i] = e->name.id;
    run->entity_migratable[i] = e->migratable;
    run->entity_home[i] = e->home;
    run->entity_collection[i] = e->collection;
}

static int add_task(merger_t *self, int64_t phase, int32_t file, const plb_vt_task_t *task)
{
    plb_vt_run_t *run = self->run;
    int32_t e;
    int ret = plb_interrupted(16);
    PLB_THEN(add_name(&self->names, &task->entity.name, &e, self->err));
    if (ret != PLB_OK) {
        return ret;
    }
    if (e == run->n_entities) {
        new_entity(self, &task->entity);
    }
    PLB_FAIL_IF(self->seen[e] == phase, self->err, PLB_ERR_FORMAT,
                "object %lld is twice in one phase: in %s and in %s",
                (long long)task->entity.name.id, self->files[self->holder[e]]->name,
                self->files[file]->name);
    self->seen[e] = phase;
    self->holder[e] = file;
    run->entity_migratable[e] &= task->entity.migratable;
    const int64_t t = run->n_tasks++;
    run->task_entity[t] = e;
    run->task_rank[t] = task->node;
    run->task_load[t] = task->time;
    for (int k = 0; k < PLB_VT_N_USER; k++) {
        if (run->user[k] != NULL) {
            run->user[k][t] = task->user < 0 ? NAN : self->files[file]->user[task->user][k];
        }
    }
    return PLB_OK;
}

/* The entity with that name; -1: it is unknown or has no task in the phase. */
static int32_t end_of(const merger_t *self, int64_t phase, const plb_vt_name_t *name)
{
    const int32_t e = name->kind == PLB_VT_NAMELESS ? -1 : find_name(&self->names, name);
    return e >= 0 && self->seen[e] == phase ? e : -1;
}

static void add_comm(merger_t *self, int64_t phase, int32_t file, const plb_vt_comm_t *comm)
{
    plb_vt_run_t *run = self->run;
    const int64_t c = run->n_comms++;
    run->comm_src[c] = end_of(self, phase, &comm->from);
    run->comm_dst[c] = end_of(self, phase, &comm->to);
    run->comm_rank[c] = file;
    run->comm_from[c] = comm->from.id;
    run->comm_to[c] = comm->to.id;
    run->comm_from_type[c] = comm->from.type;
    run->comm_to_type[c] = comm->to.type;
    run->comm_type[c] = comm->type;
    run->comm_bytes[c] = comm->bytes;
    run->comm_messages[c] = comm->messages;
}

static int add_phase(merger_t *self, int64_t i, int64_t source)
{
    for (int32_t f = 0; f < self->n_files; f++) {
        const plb_vt_scan_t *file = self->files[f];
        const plb_vt_phase_t *phase = &file->phases[source];
        for (int64_t k = phase->task_begin; k < phase->task_end; k++) {
            const int ret = plb_vt_is_initial(phase, &file->tasks[k])
                                ? PLB_OK
                                : add_task(self, i, f, &file->tasks[k]);
            if (ret != PLB_OK) {
                return ret;
            }
        }
    }
    for (int32_t f = 0; f < self->n_files; f++) { /* now that all tasks of the phase are known */
        const plb_vt_scan_t *file = self->files[f];
        const plb_vt_phase_t *phase = &file->phases[source];
        for (int64_t k = phase->comm_begin; k < phase->comm_end; k++) {
            PLB_PASS(plb_interrupted(32));
            add_comm(self, i, f, &file->comms[k]);
        }
    }
    self->run->task_ptr[i + 1] = self->run->n_tasks;
    self->run->comm_ptr[i + 1] = self->run->n_comms;
    return PLB_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int new_arrays(merger_t *self, int64_t entities, int64_t tasks, int64_t comms)
{
    plb_vt_run_t *run = self->run;
    plb_err_t *err = self->err;
    const int64_t bounds = run->n_bounds;
    PLB_PASS_NEW(self->seen, entities);
    PLB_PASS_NEW(self->holder, entities);
#define X(name, type, length) PLB_PASS_NEW(run->name, length);
    PLB_VT_RUN(X)
#undef X
    for (int k = 0; k < PLB_VT_N_USER; k++) {
        if (self->has_user[k]) {
            PLB_PASS_NEW(run->user[k], tasks);
        }
    }
    run->task_ptr[0] = run->comm_ptr[0] = 0;
    return PLB_OK;
}

static void find_user(merger_t *self, const plb_vt_scan_t *file)
{
    for (int64_t i = 0; i < file->n_user; i++) {
        for (int k = 0; k < PLB_VT_N_USER; k++) {
            if (!isnan(file->user[i][k])) {
                self->has_user[k] = true;
            }
        }
    }
}

static int size_up(merger_t *self, const int64_t *source)
{
    int64_t entities = 0, tasks = 0, comms = 0;
    for (int32_t f = 0; f < self->n_files; f++) {
        const plb_vt_scan_t *file = self->files[f];
        entities += file->n_tasks; /* an upper bound */
        find_user(self, file);
        for (int64_t i = 0; i + 1 < self->run->n_bounds; i++) {
            const plb_vt_phase_t *phase = &file->phases[source[i]];
            tasks += phase->task_end - phase->task_begin;
            comms += phase->comm_end - phase->comm_begin;
        }
    }
    PLB_FAIL_IF(entities > INT32_MAX, self->err, PLB_ERR_VALUE, "%lld tasks: expected at most %d",
                (long long)entities, INT32_MAX);
    return new_arrays(self, entities, tasks, comms);
}

int plb_vt_merge(plb_vt_run_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                 const int64_t *source, int64_t n_phases, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_vt_run_t){.n_bounds = n_phases + 1};
    merger_t m = {.run = self, .files = files, .n_files = n_files, .err = err};
    for (int32_t f = 0; f < n_files; f++) {
        PLB_TRY(check_rank(files[f], f, err));
        PLB_TRY(check_phases(files[f], files[0], err));
        PLB_TRY(check_source(files[f], source, n_phases, err));
        PLB_TRY(check_nodes(files[f], n_files, err));
    }
    ret = size_up(&m, source);
    for (int64_t i = 0; ret == PLB_OK && i < n_phases; i++) {
        ret = add_phase(&m, i, source[i]);
    }
out:
    plb_keys_free(&m.names.ids);
    plb_keys_free(&m.names.names);
    PLB_FREE(m.seen, m.holder);
    if (ret != PLB_OK) {
        plb_vt_run_free(self);
    }
    return ret;
}

void plb_vt_run_free(plb_vt_run_t *self)
{
#define X(name, type, length) plb_free(self->name);
    PLB_VT_RUN(X)
#undef X
    for (int k = 0; k < PLB_VT_N_USER; k++) {
        plb_free(self->user[k]);
    }
    *self = (plb_vt_run_t){0};
}

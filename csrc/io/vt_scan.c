#include "io/vt_scan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"

/* scan: what was read; other fields: what is being read. */
typedef struct plb_vt_reader {
    plb_vt_scan_t *scan;
    plb_vt_phase_t phase;
    plb_vt_task_t task;
    plb_vt_comm_t comm;
    plb_vt_entity_t *entity;
    double *user;
} reader_t;

static uint64_t beginning(plb_json_t *j)
{
    plb_json_peek(j);
    return plb_json_offset(j);
}

static int object(plb_json_t *j, const plb_shape_t *shape, reader_t *r, plb_span_t *text)
{
    text->begin = beginning(j);
    const int ret = plb_json_object(j, shape, r);
    text->end = plb_json_offset(j);
    return ret;
}

static int span_of_value(plb_json_t *j, plb_span_t *out)
{
    out->begin = beginning(j);
    const int ret = plb_json_skip(j);
    out->end = plb_json_offset(j);
    return ret;
}

static int type_code(plb_json_t *j, const char *const *names, int n, uint8_t *out)
{
    const char *text;
    size_t size;
    const int ret = plb_json_string(j, &text, &size);
    int i = 0;
    while (ret == PLB_OK && i < n - 1 &&
           (strlen(names[i]) != size || memcmp(names[i], text, size) != 0)) {
        i++;
    }
    *out = (uint8_t)i;
    return ret;
}

/* ---- entities ------------------------------------------------------------------------------- */

enum { E_TYPE, E_ID, E_HOME, E_MIGRATABLE, E_COLLECTION, E_INDEX, E_OBJGROUP, E_SEQ_ID };

static int entity_field(plb_json_t *j, int key, void *into)
{
#define X(name, text) text,
    static const char *const types[] = {PLB_VT_ENTITY_TYPES(X)};
#undef X
    plb_vt_entity_t *e = ((reader_t *)into)->entity;
    int64_t value = 0, id;
    int ret = PLB_OK;
    switch (key) {
    case E_TYPE:
        return type_code(j, types, sizeof types / sizeof *types, &e->name.type);
    case E_ID:
        e->name.kind = PLB_VT_ID;
        return plb_json_id(j, "entity id", &e->name.id);
    case E_SEQ_ID: /* `id` has priority */
        ret = plb_json_id(j, "entity seq_id", &id);
        if (e->name.kind == PLB_VT_NAMELESS) {
            e->name.kind = PLB_VT_SEQ_ID;
            e->name.id = id;
        }
        return ret;
    case E_HOME:
        ret = plb_json_int(j, "entity home", INT32_MIN, INT32_MAX, &value);
        e->home = (int32_t)value;
        return ret;
    case E_MIGRATABLE:
        return plb_json_bool(j, "entity migratable", &e->migratable);
    case E_COLLECTION:
        return plb_json_id(j, "entity collection_id", &e->collection);
    case E_OBJGROUP:
        return plb_json_id(j, "entity objgroup_id", &e->objgroup);
    default:
        return span_of_value(j, &e->index);
    }
}

#define ENTITY_KEYS(required)                                                                     \
    PLB_KEY("type", true), PLB_KEY("id", false), PLB_KEY("home", required),                       \
        PLB_KEY("migratable", required), PLB_KEY("collection_id", false),                         \
        PLB_KEY("index", false), PLB_KEY("objgroup_id", false), PLB_KEY("seq_id", false)

static int entity(plb_json_t *j, reader_t *r, bool of_task, plb_vt_entity_t *out)
{
    static const plb_key_t task_keys[] = {ENTITY_KEYS(true)}, comm_keys[] = {ENTITY_KEYS(false)};
    static const plb_shape_t of_a_task = {"entity of a task", task_keys, 8, entity_field};
    static const plb_shape_t of_a_comm = {"entity of a communication", comm_keys, 8, entity_field};
    *out = (plb_vt_entity_t){.name.kind = PLB_VT_NAMELESS, .collection = -1, .objgroup = -1};
    r->entity = out;
    plb_json_peek(j);
    const char *begin = j->at;
    const int ret = plb_json_object(j, of_task ? &of_a_task : &of_a_comm, r);
    if (ret == PLB_OK && of_task && out->name.kind == PLB_VT_NAMELESS) {
        return plb_json_fail(j, begin, "entity of a task without 'id' or 'seq_id'");
    }
    return ret;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

/* user_defined may hold anything; only numbers under known keys are read. */
static int user_field(plb_json_t *j, int key, void *into)
{
    static const char *const names[] = {
#define X(name) #name,
        PLB_VT_USER(X)
#undef X
    };
    const char c = plb_json_peek(j);
    if (c != '-' && !(c >= '0' && c <= '9')) {
        return plb_json_skip(j);
    }
    const bool size = key != PLB_VT_shared_id && key != PLB_VT_home_rank;
    return plb_json_double(j, names[key], size ? 0.0 : -1e30, &((reader_t *)into)->user[key]);
}

static int user_defined(plb_json_t *j, reader_t *r)
{
    static const plb_key_t keys[] = {
#define X(name) PLB_KEY(#name, false),
        PLB_VT_USER(X)
#undef X
    };
    static const plb_shape_t shape = {"user_defined", keys, PLB_VT_N_USER, user_field};
    if (plb_json_peek(j) != '{') {
        return plb_json_skip(j);
    }
    plb_vt_scan_t *scan = r->scan;
    plb_err_t *const err = j->err;
    PLB_PASS_GROW(scan->user, scan->user_room, scan->n_user + 1);
    r->task.user = scan->n_user++;
    r->user = scan->user[r->task.user];
    for (int i = 0; i < PLB_VT_N_USER; i++) {
        r->user[i] = NAN;
    }
    return plb_json_object(j, &shape, r);
}

enum { T_ENTITY, T_NODE, T_TIME, T_USER };

static int task_field(plb_json_t *j, int key, void *into)
{
    reader_t *r = into;
    int64_t value = 0;
    int ret;
    switch (key) {
    case T_ENTITY:
        return entity(j, r, true, &r->task.entity);
    case T_NODE:
        r->task.node_text.begin = beginning(j);
        ret = plb_json_int(j, "task node", 0, INT32_MAX, &value);
        r->task.node_text.end = plb_json_offset(j);
        r->task.node = (int32_t)value;
        return ret;
    case T_TIME:
        return plb_json_double(j, "task time", 0.0, &r->task.time);
    default:
        return user_defined(j, r);
    }
}

static int task(plb_json_t *j, void *into)
{
    static const plb_key_t keys[] = {PLB_KEY("entity", true), PLB_KEY("node", true),
                                     PLB_KEY("time", true), PLB_KEY("user_defined", false)};
    static const plb_shape_t shape = {"task", keys, 4, task_field};
    reader_t *r = into;
    plb_vt_scan_t *scan = r->scan;
    plb_err_t *const err = j->err;
    int ret = PLB_OK;
    PLB_TRY(plb_interrupted(256));
    PLB_GROW(scan->tasks, scan->tasks_room, scan->n_tasks + 1);
    r->task = (plb_vt_task_t){.user = -1};
    ret = object(j, &shape, r, &r->task.text);
    scan->tasks[scan->n_tasks++] = r->task;
out:
    return ret;
}

/* ---- communications ------------------------------------------------------------------------- */

enum { C_TYPE, C_FROM, C_TO, C_BYTES, C_MESSAGES };

static int comm_field(plb_json_t *j, int key, void *into)
{
#define X(name, text) text,
    static const char *const types[] = {PLB_VT_COMM_TYPES(X)};
#undef X
    reader_t *r = into;
    plb_vt_entity_t end;
    int ret;
    switch (key) {
    case C_TYPE:
        return type_code(j, types, sizeof types / sizeof *types, &r->comm.type);
    case C_FROM:
    case C_TO:
        ret = entity(j, r, false, &end);
        *(key == C_FROM ? &r->comm.from : &r->comm.to) = end.name;
        return ret;
    case C_BYTES:
        return plb_json_double(j, "communication bytes", 0.0, &r->comm.bytes);
    default:
        return plb_json_double(j, "communication messages", 0.0, &r->comm.messages);
    }
}

static int communication(plb_json_t *j, void *into)
{
    static const plb_key_t keys[] = {PLB_KEY("type", true), PLB_KEY("from", true),
                                     PLB_KEY("to", true), PLB_KEY("bytes", true),
                                     PLB_KEY("messages", true)};
    static const plb_shape_t shape = {"communication", keys, 5, comm_field};
    reader_t *r = into;
    plb_vt_scan_t *scan = r->scan;
    plb_err_t *const err = j->err;
    int ret = PLB_OK;
    PLB_TRY(plb_interrupted(256));
    PLB_GROW(scan->comms, scan->comms_room, scan->n_comms + 1);
    r->comm = (plb_vt_comm_t){0};
    ret = object(j, &shape, r, &r->comm.text);
    scan->comms[scan->n_comms++] = r->comm;
out:
    return ret;
}

/* ---- phases and the whole file -------------------------------------------------------------- */

enum { P_ID, P_TASKS, P_COMMS };

static int phase_field(plb_json_t *j, int key, void *into)
{
    reader_t *r = into;
    int ret;
    if (key == P_ID) {
        return plb_json_int(j, "phase id", 0, INT64_MAX, &r->phase.id);
    }
    plb_span_t *text = key == P_TASKS ? &r->phase.tasks_text : &r->phase.comms_text;
    text->begin = beginning(j);
    if (key == P_TASKS) {
        ret = plb_json_array(j, "tasks", task, r);
    } else {
        ret = plb_json_array(j, "communications", communication, r);
    }
    text->end = plb_json_offset(j);
    return ret;
}

static int phase(plb_json_t *j, void *into)
{
    static const plb_key_t keys[] = {PLB_KEY("id", true), PLB_KEY("tasks", false),
                                     PLB_KEY("communications", false)};
    static const plb_shape_t shape = {"phase", keys, 3, phase_field};
    reader_t *r = into;
    plb_vt_scan_t *scan = r->scan;
    plb_err_t *const err = j->err;
    int ret = PLB_OK;
    PLB_GROW(scan->phases, scan->phases_room, scan->n_phases + 1);
    r->phase = (plb_vt_phase_t){.task_begin = scan->n_tasks, .comm_begin = scan->n_comms};
    ret = object(j, &shape, r, &r->phase.text);
    r->phase.task_end = scan->n_tasks;
    r->phase.comm_end = scan->n_comms;
    if (ret == PLB_OK && scan->n_phases > 0 &&
        r->phase.id <= scan->phases[scan->n_phases - 1].id) {
        return plb_json_fail(j, j->text + r->phase.text.begin,
                             "phase %lld after phase %lld: expected increasing ids",
                             (long long)r->phase.id,
                             (long long)scan->phases[scan->n_phases - 1].id);
    }
    scan->phases[scan->n_phases++] = r->phase;
out:
    return ret;
}

static int file_type(plb_json_t *j)
{
    const char *text;
    size_t size;
    const int ret = plb_json_string(j, &text, &size);
    if (ret == PLB_OK && !(size == 10 && memcmp(text, "LBDatafile", 10) == 0)) {
        return plb_json_fail(j, text, "type is '%.*s': expected 'LBDatafile'",
                             (int)(size > 40 ? 40 : size), text);
    }
    return ret;
}

static int metadata_field(plb_json_t *j, int key, void *into)
{
    return key == 0
               ? file_type(j)
               : plb_json_int(j, "metadata rank", 0, INT32_MAX, &((reader_t *)into)->scan->rank);
}

static int file_field(plb_json_t *j, int key, void *into)
{
    static const plb_key_t keys[] = {PLB_KEY("type", false), PLB_KEY("rank", false)};
    static const plb_shape_t metadata = {"metadata", keys, 2, metadata_field};
    reader_t *r = into;
    if (key == 0) {
        return file_type(j);
    }
    if (key == 1) {
        return object(j, &metadata, r, &r->scan->metadata);
    }
    plb_span_t *text = &r->scan->phases_text;
    text->begin = beginning(j);
    const int ret = plb_json_array(j, "phases", phase, r);
    text->end = plb_json_offset(j);
    return ret;
}

int plb_vt_scan(plb_vt_scan_t *self, const char *text, size_t size, const char *name,
                plb_err_t *err)
{
    static const plb_key_t keys[] = {PLB_KEY("type", false), PLB_KEY("metadata", false),
                                     PLB_KEY("phases", true)};
    static const plb_shape_t shape = {"LBDatafile", keys, 3, file_field};
    *self = (plb_vt_scan_t){.text = text, .size = size, .rank = -1};
    const size_t length = strlen(name), room = sizeof self->name - 1;
    snprintf(self->name, sizeof self->name, "%s", length > room ? name + length - room : name);
    plb_json_t j;
    plb_json_init(&j, text, size, self->name, err);
    reader_t reader = {.scan = self};
    int ret = plb_json_object(&j, &shape, &reader);
    PLB_THEN(plb_json_finish(&j));
    if (ret != PLB_OK) {
        plb_vt_scan_free(self);
    }
    return ret;
}

void plb_vt_scan_free(plb_vt_scan_t *self)
{
    PLB_FREE(self->phases, self->tasks, self->comms, self->user);
    *self = (plb_vt_scan_t){0};
}

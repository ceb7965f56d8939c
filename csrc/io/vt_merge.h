/* Joins the scans (vt_scan.h) of all ranks into one run. */
#pragma once

#include "io/vt_scan.h"

/* The arrays of a run: X(array, type, length of the array).  Entities are numbered in order of
 * their first task; -1: no entity. */
#define PLB_VT_RUN(X)                                                                             \
    X(entity_key, int64_t, entities) /* id or seq_id */                                           \
    X(entity_migratable, bool, entities)                                                          \
    X(entity_home, int32_t, entities)                                                             \
    X(entity_collection, int64_t, entities) /* -1: none */                                        \
    X(task_ptr, int64_t, bounds)            /* [n_phases + 1] where each phase begins */          \
    X(task_entity, int32_t, tasks)                                                                \
    X(task_rank, int32_t, tasks)                                                                  \
    X(task_load, double, tasks)                                                                   \
    X(comm_ptr, int64_t, bounds)                                                                  \
    X(comm_src, int32_t, comms) /* sender: an entity with a task in the same phase; else -1 */    \
    X(comm_dst, int32_t, comms)                                                                   \
    X(comm_rank, int32_t, comms) /* rank whose file has the communication */                      \
    X(comm_from, int64_t, comms) /* ids of sender and receiver, as recorded */                    \
    X(comm_to, int64_t, comms)                                                                    \
    X(comm_from_type, uint8_t, comms)                                                             \
    X(comm_to_type, uint8_t, comms)                                                               \
    X(comm_type, uint8_t, comms)                                                                  \
    X(comm_bytes, double, comms)                                                                  \
    X(comm_messages, double, comms)

/* A run; it owns its arrays.  A caller that takes over an array sets its pointer here to NULL. */
typedef struct plb_vt_run {
    int64_t n_bounds, n_entities, n_tasks, n_comms;
#define X(name, type, length) type *name;
    PLB_VT_RUN(X)
#undef X
    double *user[PLB_VT_N_USER]; /* [k][n_tasks] number k of PLB_VT_USER; NULL: no task has it */
} plb_vt_run_t;

/** Join the ranks: files[r] is rank r's scan.  Phase i of the run is phase source[i] of the files.
 * Tasks and communications of a phase are in the order of the ranks, then of the file.  Tasks for
 * which plb_vt_is_initial is true are not part of the run, but remain in the text. */
int plb_vt_merge(plb_vt_run_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                 const int64_t *source, int64_t n_phases, plb_err_t *err);
void plb_vt_run_free(plb_vt_run_t *self);

/** Whether `task` is the task of zero time that vt appends to phase 0 of each rank; its id is 0,
 * which no object has (LBDataHolder::addInitialTask in vt). */
bool plb_vt_is_initial(const plb_vt_phase_t *phase, const plb_vt_task_t *task);

/* Writes the files of a run for another placement. */
#pragma once

#include "io/vt_merge.h"

/* A task or communication that moves from one file to another. */
typedef struct plb_vt_move {
    int32_t to, from; /* new and old file, by rank */
    int64_t phase;    /* index of the phase in the files */
    int64_t index;    /* position in the tasks or comms of the scan `from` */
    bool comm;
} plb_vt_move_t;

/* A plan to write the run for another placement.  A task goes into the file of its new rank, and
 * its `node` is replaced.  A communication goes with its sender if the sender's task was in the
 * same file, or else with its receiver.  For a broadcast the receiver has priority, as in vt. */
typedef struct plb_vt_plan {
    const plb_vt_scan_t *const *files; /* borrowed */
    int32_t n_files;
    int64_t n_kept;   /* number of phases that are written */
    int64_t *kept;    /* [n_kept] indices of the phases that are written, ascending */
    int32_t **node;   /* [n_files][tasks of the file] new rank of each task */
    int32_t **target; /* [n_files][comms of the file] new file of each communication */
    plb_vt_move_t *moves;
    int64_t n_moves, room;
} plb_vt_plan_t;

/** Plan the files of a run for another placement.  files, source: the arguments of plb_vt_merge,
 * which has made the run.  run: only its n_entities, task_entity, comm_src and comm_dst are used.
 * rank: new rank of each task.  PLB_ERR_VALUE: a phase that is a copy of another phase,
 * and so has no text of its own, has a different placement. */
int plb_vt_plan_init(plb_vt_plan_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                     const int64_t *source, int64_t n_phases, const plb_vt_run_t *run,
                     const int32_t *rank, plb_err_t *err);
void plb_vt_plan_free(plb_vt_plan_t *self);

/** Write the text of rank r's file: *size bytes, which the caller frees with plb_free.  Unchanged
 * parts are copied. */
int plb_vt_write(const plb_vt_plan_t *self, int32_t r, char **text, size_t *size, plb_err_t *err);

/* Writes the files of a run under another placement. */
#ifndef PLB_IO_VT_WRITE_H
#define PLB_IO_VT_WRITE_H

#include "io/vt_merge.h"

/* A task or communication that moves from one file to another. */
typedef struct plb_vt_move {
    int32_t to, from; /* ranks whose files these are */
    int64_t phase;    /* of the files */
    int64_t index;    /* into tasks or comms of the scan `from` */
    bool comm;
} plb_vt_move_t;

/* How the run is written under another placement: a task goes into the file of its new rank, with
 * `node` replaced; a communication follows the end it was recorded with (vt records a message
 * where it is sent, a broadcast where it arrives).  Nothing here owns the scans. */
typedef struct plb_vt_plan {
    const plb_vt_scan_t *const *files;
    int32_t n_files;
    int64_t n_kept;   /* number of phases of the files that are written */
    int64_t *kept;    /* [n_kept] these phases, ascending */
    int32_t **node;   /* [n_files][tasks of the file] new rank of each task */
    int32_t **target; /* [n_files][comms of the file] file that each communication goes to */
    plb_vt_move_t *moves;
    int64_t n_moves, room;
} plb_vt_plan_t;

/** Plan the files of a run under another placement.  files, source: the arguments of
 * plb_vt_merge, which has made the run.  run: only its task_entity, comm_src, comm_dst,
 * n_entities and lengths are used.  rank: new rank of each task of the run.  A phase that is a
 * copy of another has no text of its own: PLB_ERR_VALUE if its placement differs from that
 * phase's. */
int plb_vt_plan_init(plb_vt_plan_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                     const int64_t *source, int64_t n_phases, const plb_vt_run_t *run,
                     const int32_t *rank, plb_err_t *err);
void plb_vt_plan_free(plb_vt_plan_t *self);

/** Write the text of rank r's file: *size bytes, which the caller frees with plb_free.
 * Unchanged parts are copied: without any change the text is identical. */
int plb_vt_write(const plb_vt_plan_t *self, int32_t r, char **text, size_t *size, plb_err_t *err);

#endif

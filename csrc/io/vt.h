/* VT's LBDatafile: the record that a run of vt leaves, one JSON text for each rank.
 *
 * A scan is the index of one rank's text: numbers of each task and communication, and where in
 * the text each of them stands, so that a copy of the run keeps what the index does not know
 * (unknown keys, spellings of numbers, subphases, attributes, lb_iterations).  The text belongs to
 * the caller and must outlive the scan.  Merging the scans of all ranks gives the trace.
 */
#ifndef PLB_IO_VT_H
#define PLB_IO_VT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/json.h"

/* X(C name, text in the file).  The last entry stands for every other text. */
#define PLB_VT_ENTITY_TYPES(X)                                                                    \
    X(OBJECT, "object")                                                                           \
    X(NODE, "node")                                                                               \
    X(SHARED, "shared_id")                                                                        \
    X(OTHER, "other")

#define PLB_VT_COMM_TYPES(X)                                                                      \
    X(SEND_RECV, "SendRecv")                                                                      \
    X(BROADCAST, "Broadcast")                                                                     \
    X(NODE_TO_COLLECTION, "NodeToCollection")                                                     \
    X(NODE_TO_COLLECTION_BCAST, "NodeToCollectionBcast")                                          \
    X(COLLECTION_TO_NODE, "CollectionToNode")                                                     \
    X(COLLECTION_TO_NODE_BCAST, "CollectionToNodeBcast")                                          \
    X(READ_ONLY_SHARED, "ReadOnlyShared")                                                         \
    X(WRITE_SHARED, "WriteShared")                                                                \
    X(COMM_OTHER, "other")

/* Numbers of a task's user_defined that LBAF and vt know. */
#define PLB_VT_USER(X)                                                                            \
    X(shared_id)                                                                                  \
    X(shared_bytes)                                                                               \
    X(task_working_bytes)                                                                         \
    X(task_footprint_bytes)                                                                       \
    X(task_serialized_bytes)                                                                      \
    X(rank_working_bytes)                                                                         \
    X(home_rank)

enum {
#define X(name, text) PLB_VT_##name,
    PLB_VT_ENTITY_TYPES(X)
};
enum {
    PLB_VT_COMM_TYPES(X)
#undef X
};
enum {
#define X(name) PLB_VT_##name,
    PLB_VT_USER(X)
#undef X
        PLB_VT_N_USER
};

/* What an entity is known by: communications name it by type and id only. */
typedef struct plb_vt_name {
    int64_t id;
    uint8_t type;
    uint8_t kind; /* 0: "id", 1: "seq_id", PLB_VT_NAMELESS: neither */
} plb_vt_name_t;

enum { PLB_VT_ID, PLB_VT_SEQ_ID, PLB_VT_NAMELESS };

typedef struct plb_vt_entity {
    plb_vt_name_t name;
    bool migratable;
    int32_t home;
    int64_t collection, objgroup; /* -1: none */
    plb_span_t index;             /* the array's text; empty: none */
} plb_vt_entity_t;

typedef struct plb_vt_task {
    plb_vt_entity_t entity;
    int32_t node;
    double time;
    int64_t user; /* row of scan.user, or -1 */
    plb_span_t text, node_text;
} plb_vt_task_t;

typedef struct plb_vt_comm {
    plb_vt_name_t from, to;
    double bytes, messages;
    plb_span_t text;
    uint8_t type;
} plb_vt_comm_t;

typedef struct plb_vt_phase {
    int64_t id;
    int64_t task_begin, task_end, comm_begin, comm_end; /* into the scan's tasks and comms */
    plb_span_t text, tasks_text, comms_text; /* of the whole phase and its arrays; empty: none */
} plb_vt_phase_t;

typedef struct plb_vt_scan {
    const char *text; /* not owned */
    size_t size;
    char name[192]; /* of the file, or the end of it, for messages */
    int64_t rank;   /* metadata.rank, or -1 */
    plb_span_t metadata, phases_text;
    int64_t n_phases, n_tasks, n_comms, n_user;
    int64_t phases_room, tasks_room, comms_room, user_room;
    plb_vt_phase_t *phases;
    plb_vt_task_t *tasks;
    plb_vt_comm_t *comms;
    double (*user)[PLB_VT_N_USER]; /* NaN where not recorded */
} plb_vt_scan_t;

/** Index one rank's text.  PLB_ERR_FORMAT says file, byte, line and what was expected. */
int plb_vt_scan(plb_vt_scan_t *self, const char *text, size_t size, const char *name,
                plb_err_t *err);
void plb_vt_scan_free(plb_vt_scan_t *self);

/* The ranks joined: X(array, type, what its length is).  Entities are numbered in order of their
 * first task; -1 stands for none. */
#define PLB_VT_RUN(X)                                                                             \
    X(entity_key, int64_t, entities) /* id or seq_id */                                           \
    X(entity_migratable, bool, entities)                                                          \
    X(entity_home, int32_t, entities)                                                             \
    X(entity_collection, int64_t, entities)                                                       \
    X(task_ptr, int64_t, bounds) /* of the phases: n_phases + 1 */                                \
    X(task_entity, int32_t, tasks)                                                                \
    X(task_rank, int32_t, tasks)                                                                  \
    X(task_load, double, tasks)                                                                   \
    X(comm_ptr, int64_t, bounds)                                                                  \
    X(comm_src, int32_t, comms) /* entity that is a task of that phase, or -1 */                  \
    X(comm_dst, int32_t, comms)                                                                   \
    X(comm_rank, int32_t, comms) /* whose file records it */                                      \
    X(comm_from, int64_t, comms) /* ids as recorded */                                            \
    X(comm_to, int64_t, comms)                                                                    \
    X(comm_from_type, uint8_t, comms)                                                             \
    X(comm_to_type, uint8_t, comms)                                                               \
    X(comm_type, uint8_t, comms)                                                                  \
    X(comm_bytes, double, comms)                                                                  \
    X(comm_messages, double, comms)

/* Arrays are owned; one that the caller takes over he sets to NULL. */
typedef struct plb_vt_run {
    int64_t n_bounds, n_entities, n_tasks, n_comms;
#define X(name, type, length) type *name;
    PLB_VT_RUN(X)
#undef X
    double *user[PLB_VT_N_USER]; /* [n_tasks], or NULL where no task has it */
} plb_vt_run_t;

/** Join the ranks: files[r] is rank r's scan.  Phase i of the run is phase source[i] of the files.
 *  Tasks and communications of a phase stand in order of ranks, then of the file.
 *
 *  vt appends a task of zero time to phase 0 of each rank, under the id 0 that no object has
 *  (LBDataHolder::addInitialTask); these are no tasks of the run and stay in the text only. */
int plb_vt_merge(plb_vt_run_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                 const int64_t *source, int64_t n_phases, plb_err_t *err);
void plb_vt_run_free(plb_vt_run_t *self);

/* The tasks (or communications) that one file gets from others, in order of the files. */
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
    int64_t n_kept;   /* phases of the files that are written, in order: the others are left out */
    int64_t *kept;    /* [n_kept] */
    int32_t **node;   /* [n_files][tasks of the file] new rank of each task */
    int32_t **target; /* [n_files][comms of the file] file that each communication goes to */
    plb_vt_move_t *moves;
    int64_t n_moves, room;
} plb_vt_plan_t;

/** `rank` is the new rank of each task of the run that plb_vt_merge made of the same arguments;
 *  `run` its task_entity, comm_src and comm_dst, n_entities and numbers.  A phase that is a copy
 *  of another has no text of its own: PLB_ERR_VALUE where its placement differs. */
int plb_vt_plan_init(plb_vt_plan_t *self, const plb_vt_scan_t *const *files, int32_t n_files,
                     const int64_t *source, int64_t n_phases, const plb_vt_run_t *run,
                     const int32_t *rank, plb_err_t *err);
void plb_vt_plan_free(plb_vt_plan_t *self);

/** The text of rank r's file, *size bytes for plb_free.  What does not change is copied as it is:
 *  without any change the text is the same to the byte. */
int plb_vt_write(const plb_vt_plan_t *self, int32_t r, char **text, size_t *size, plb_err_t *err);

/** Whether this is the task of zero time that vt appends to phase 0. */
bool plb_vt_is_initial(const plb_vt_phase_t *phase, const plb_vt_task_t *task);

#endif

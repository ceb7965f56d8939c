/* Reads LBDatafile: the record that a run of the runtime vt writes, one JSON text for each rank.
 *
 * A scan is the index of one rank's text: the numbers of each task and communication, and their
 * positions in the text.  So a copy of the run can keep what the index does not contain (unknown
 * keys, digits of numbers, subphases, attributes, lb_iterations). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/json.h"

/* X(C name, text in the file).  The last entry stands for other texts. */
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

/* Numbers in a task's user_defined that vt and its analysis tool LBAF know. */
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

/* What identifies an entity; of the two entities of a communication, only this is kept. */
typedef struct plb_vt_name {
    int64_t id;
    uint8_t type;
    uint8_t kind; /* which key gave the id: PLB_VT_ID: "id"; PLB_VT_SEQ_ID: "seq_id";
                     PLB_VT_NAMELESS: the entity has no id */
} plb_vt_name_t;

enum { PLB_VT_ID, PLB_VT_SEQ_ID, PLB_VT_NAMELESS };

typedef struct plb_vt_entity {
    plb_vt_name_t name;
    bool migratable;
    int32_t home;
    int64_t collection, objgroup; /* -1: none */
    plb_span_t index;             /* text of the array "index"; empty: none */
} plb_vt_entity_t;

typedef struct plb_vt_task {
    plb_vt_entity_t entity;
    int32_t node;
    double time;
    int64_t user; /* row in scan.user; -1: none */
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
    int64_t task_begin, task_end, comm_begin, comm_end; /* indices in scan: begin ... end - 1 */
    plb_span_t text, tasks_text, comms_text; /* text of the phase and its arrays; empty: none */
} plb_vt_phase_t;

typedef struct plb_vt_scan {
    const char *text; /* borrowed; must live as long as the scan */
    size_t size;
    char name[192]; /* the file's name, or the end of it; for error messages */
    int64_t rank;   /* metadata.rank; -1: none */
    plb_span_t metadata, phases_text;
    int64_t n_phases, n_tasks, n_comms, n_user;
    int64_t phases_room, tasks_room, comms_room, user_room;
    plb_vt_phase_t *phases;
    plb_vt_task_t *tasks;
    plb_vt_comm_t *comms;
    double (*user)[PLB_VT_N_USER]; /* from user_defined; NAN: not recorded */
} plb_vt_scan_t;

/** Make the index of one rank's text.  PLB_ERR_FORMAT: see json.h. */
int plb_vt_scan(plb_vt_scan_t *self, const char *text, size_t size, const char *name,
                plb_err_t *err);
void plb_vt_scan_free(plb_vt_scan_t *self);

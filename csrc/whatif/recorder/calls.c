/* Logs what the calls of MPI do: communicators, requests, messages, collectives. */
#include "whatif/recorder/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- handles ------------------------------------------------------------------------------- */

static void *map_take(plb_map_t *self, uint64_t key)
{
    void *const out = plb_map_get(self, key);
    if (out != NULL) {
        plb_map_put(self, key, NULL);
    }
    return out;
}

static plb_map_t groups; /* maps a communicator to its group */
static plb_map_t made;   /* maps a hash of members and parent to the number of such groups */
static int32_t n_groups;

/* Return the members' ranks in MPI_COMM_WORLD.  *all becomes false if a member has none. */
static int32_t *world_ranks(MPI_Group group, int32_t *n, bool *all)
{
    MPI_Group world;
    int size = 0;
    PMPI_Group_size(group, &size);
    int *own = plb_must_have(malloc(sizeof *own * (size_t)(size + 1)));
    int32_t *out = plb_must_have(malloc(sizeof *out * (size_t)(size + 1)));
    for (int i = 0; i < size; i++) {
        own[i] = i;
    }
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, size, own, world, out);
    PMPI_Group_free(&world);
    for (int i = 0; i < size; i++) {
        if (out[i] == MPI_UNDEFINED) {
            plb_lacks("a process that was started by MPI_Comm_spawn or connected later");
            out[i] = -1;
            *all = false;
        }
    }
    free(own);
    *n = size;
    return out;
}

/* Make an id from the members, the parent, and the number of earlier groups with the same members
 * and parent.  All members make the same id: they create these groups in the same order. */
static uint64_t name_of(const plb_group_t *self, uint64_t parent)
{
    uint64_t sum = plb_mix64(parent + 1);
    /* a sum, because the two groups of an intercommunicator have no order */
    for (int32_t i = 0; i < self->size; i++) {
        sum += plb_mix64(1000003u * (uint64_t)(self->n_remote ? 0 : i) + (uint64_t)self->world[i]);
    }
    for (int32_t i = 0; i < self->n_remote; i++) {
        sum += plb_mix64((uint64_t)self->remote[i]);
    }
    const uintptr_t times = (uintptr_t)plb_map_get(&made, sum) + 1;
    plb_map_put(&made, sum, (void *)times);
    return plb_mix64(sum + times) >> 1;
}

static void tell(const plb_group_t *self)
{
    struct {
        int64_t number, id, size;
    } head = {self->number, (int64_t)self->id, self->meets ? self->size : 0};
    const uint32_t bytes = (uint32_t)(sizeof head + (size_t)head.size * sizeof *self->world);
    char *text = plb_must_have(malloc(bytes));
    memcpy(text, &head, sizeof head);
    memcpy(text + sizeof head, self->world, (size_t)head.size * sizeof *self->world);
    plb_frame('C', text, bytes);
    free(text);
}

static plb_group_t *define(MPI_Comm comm, uint64_t parent)
{
    plb_group_t *self = plb_must_have(calloc(1, sizeof *self));
    MPI_Group group;
    int inter = 0;
    self->number = n_groups++;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_rank(comm, &self->rank);
    PMPI_Comm_group(comm, &group);
    self->meets = !inter;
    self->world = world_ranks(group, &self->size, &self->meets);
    PMPI_Group_free(&group);
    if (inter) {
        PMPI_Comm_remote_group(comm, &group);
        self->remote = world_ranks(group, &self->n_remote, &self->meets);
        PMPI_Group_free(&group);
    }
    self->id = comm == MPI_COMM_WORLD ? 0 : name_of(self, parent);
    tell(self);
    plb_map_put(&groups, PLB_HANDLE(comm), self);
    return self;
}

plb_group_t *plb_group(MPI_Comm comm)
{
    plb_group_t *self = plb_map_get(&groups, PLB_HANDLE(comm));
    return self == NULL && comm != MPI_COMM_NULL ? define(comm, 1) : self;
}

void plb_record_start(int provided)
{
    bool timed_only;
    if (plb_record_open(provided, &timed_only)) {
        if (!timed_only) {
            plb_group(MPI_COMM_WORLD); /* the first communicator */
        }
        plb_record_begin(timed_only);
    }
}

void plb_note_made(plb_makers_t by, MPI_Comm parent, MPI_Comm fresh)
{
    const plb_group_t *group = plb_group(parent);
    /* the collective of all members that makes the communicator */
    if (by != PLB_BY_MEMBERS && group != NULL && group->n_remote == 0) {
        plb_note_collective(NULL, PLB_ALLREDUCE, 0, 8, parent);
    }
    if (fresh != MPI_COMM_NULL) {
        define(fresh, by == PLB_BY_TWO_GROUPS || group == NULL ? 1 : group->id);
        if (by == PLB_BY_MEMBERS) {
            plb_note_collective(NULL, PLB_ALLREDUCE, 0, 8, fresh);
        }
    }
}

/* The group stays in memory, because requests that are still open may refer to it. */
void plb_group_gone(MPI_Comm comm)
{
    map_take(&groups, PLB_HANDLE(comm));
}

static plb_group_t *copy_of(const plb_group_t *group)
{
    plb_group_t *self = plb_must_have(malloc(sizeof *self));
    *self = *group;
    self->number = n_groups++;
    self->own = NULL;
    self->id = name_of(self, plb_mix64(group->id + 2));
    tell(self);
    return self;
}

void plb_made_copy(MPI_Comm comm, MPI_Comm fresh)
{
    plb_map_put(&groups, PLB_HANDLE(fresh), copy_of(plb_group(comm)));
}

/* Return the rank in MPI_COMM_WORLD of member `rank` of the remote group or, if there is none, of
 * the group; -1: unknown. */
static int32_t world_rank(const plb_group_t *group, int rank)
{
    const int32_t n = group->n_remote ? group->n_remote : group->size;
    return rank < 0 || rank >= n ? -1 : (group->n_remote ? group->remote : group->world)[rank];
}

/* ---- requests ------------------------------------------------------------------------------- */

typedef struct request {
    plb_op_t op; /* the operation that begins the request; op.request: the request's number */
    const plb_group_t *group;
    bool persistent, active;
    bool cancelled, unmatched; /* MPI_Cancel was called; it cancelled the request at once */
    struct request *next;      /* next one with the same handle */
} request_t;

static plb_map_t requests;
static int32_t *returned; /* request numbers that can be used again */
static int32_t n_returned, room_returned, n_numbers;

static int32_t new_number(void)
{
    return n_returned > 0 ? returned[--n_returned] : n_numbers++;
}

static void return_number(int32_t number)
{
    if (n_returned == room_returned) {
        room_returned = 2 * room_returned + 64;
        returned = plb_must_have(realloc(returned, (size_t)room_returned * sizeof *returned));
    }
    returned[n_returned++] = number;
}

/* Record a new request.  `op` is logged now or, if the request is persistent, at each start. */
static void request_made(MPI_Request request, plb_op_t op, const plb_group_t *group,
                         bool persistent)
{
    if (request == MPI_REQUEST_NULL) {
        return;
    }
    request_t *self = plb_must_have(malloc(sizeof *self));
    op.request = new_number();
    *self = (request_t){.op = op, .group = group, .persistent = persistent};
    /* Open MPI gives all sends that complete immediately the same handle, so requests with the
     * same handle form a chain. */
    self->next = plb_map_get(&requests, PLB_HANDLE(request));
    plb_map_put(&requests, PLB_HANDLE(request), self);
    if (!persistent) {
        self->active = true;
        plb_note(op);
    }
}

static request_t *find(MPI_Request request)
{
    return request == MPI_REQUEST_NULL ? NULL : plb_map_get(&requests, PLB_HANDLE(request));
}

static void forget(request_t *self, uint64_t handle)
{
    if (self->next != NULL) {
        plb_map_put(&requests, handle, self->next);
    } else {
        map_take(&requests, handle);
    }
    free(self);
}

void plb_request_started(MPI_Request request)
{
    request_t *self = find(request);
    if (self == NULL) {
        plb_lacks("a persistent collective or a partitioned message");
    } else if (self->persistent && self->op.kind != PLB_OP_END) {
        self->active = true;
        plb_note(self->op);
    }
}

/* The request's number is not used again: its operation is possibly not complete. */
void plb_request_freed(MPI_Request request)
{
    request_t *self = find(request);
    if (self != NULL) {
        if (self->active && self->unmatched) {
            plb_note((plb_op_t){.kind = PLB_OP_WAIT,
                                .flags = PLB_OP_CANCELLED,
                                .request = self->op.request,
                                .peer = -1});
        }
        forget(self, PLB_HANDLE(request));
    }
}

void plb_request_cancelled(MPI_Request request)
{
    request_t *self = find(request);
    if (self != NULL) {
        int complete = 0, cancelled = 0;
        MPI_Status status;
        PMPI_Request_get_status(request, &complete, &status);
        if (complete) {
            PMPI_Test_cancelled(&status, &cancelled);
        }
        self->cancelled = true;
        self->unmatched = cancelled;
    }
}

static void done(uint64_t handle, const MPI_Status *status)
{
    request_t *self = plb_map_get(&requests, handle);
    if (self == NULL || !self->active) {
        return;
    }
    plb_op_t op = {.kind = PLB_OP_WAIT, .request = self->op.request, .peer = -1};
    if (self->cancelled) {
        int cancelled = 0;
        PMPI_Test_cancelled(status, &cancelled);
        op.flags = cancelled ? PLB_OP_CANCELLED : 0;
    }
    if (self->op.kind == PLB_OP_IRECV && (self->op.flags & (PLB_OP_ANY_SOURCE | PLB_OP_ANY_TAG)) &&
        !op.flags) {
        op.peer = world_rank(self->group, status->MPI_SOURCE);
        op.tag = status->MPI_TAG;
    }
    plb_note(op);
    self->active = self->cancelled = self->unmatched = false;
    if (!self->persistent) {
        return_number(self->op.request);
        forget(self, handle);
    }
}

void plb_requests_all(int flag, int n, const uint64_t *was, const MPI_Status *status)
{
    for (int i = 0; flag && i < n; i++) {
        done(was[i], &status[i]);
    }
    if (!flag) {
        plb_polled();
    }
}

void plb_requests_some(int n, const int *index, int base, const uint64_t *was,
                       const MPI_Status *status)
{
    for (int i = 0; i < n; i++) {
        done(was[index[i] - base], &status[i]);
    }
    if (n <= 0) {
        plb_polled();
    }
}

/* Log the beginning of an operation, and return its new request number. */
static int32_t note_begun(plb_op_t op)
{
    op.request = new_number();
    plb_note(op);
    return op.request;
}

/* Log the completion of an operation.  received: the operation that has the source and tag of the
 * received message; NULL: for a send, or for a receive without wildcards. */
static void note_complete(int32_t number, const plb_op_t *received)
{
    plb_note((plb_op_t){.kind = PLB_OP_WAIT,
                        .request = number,
                        .peer = received ? received->peer : -1,
                        .tag = received ? received->tag : 0});
    return_number(number);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Fill in a send.  Returns false if there is nothing to log, because the target is MPI_PROC_NULL
 * or not in MPI_COMM_WORLD. */
static bool send_of(plb_op_t *out, int kind, int flags, int64_t bytes, int dest, int tag,
                    MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    const int32_t peer = group ? world_rank(group, dest) : -1;
    *out = (plb_op_t){.kind = (uint8_t)kind,
                      .flags = (uint8_t)flags,
                      .bytes = bytes,
                      .peer = peer,
                      .tag = tag,
                      .comm = group ? group->number : 0};
    return peer >= 0;
}

/* Fill in a receive or probe; false: nothing to log.  status: NULL if not yet received. */
static bool receive_of(plb_op_t *out, int kind, int source, int tag, MPI_Comm comm,
                       const MPI_Status *status)
{
    const plb_group_t *group = plb_group(comm);
    const bool any = source == MPI_ANY_SOURCE, any_tag = tag == MPI_ANY_TAG;
    if (group == NULL || source == MPI_PROC_NULL) {
        return false;
    }
    const int from = any && status ? status->MPI_SOURCE : source;
    *out = (plb_op_t){
        .kind = (uint8_t)kind,
        .flags = (uint8_t)((any ? PLB_OP_ANY_SOURCE : 0) | (any_tag ? PLB_OP_ANY_TAG : 0)),
        .peer = any && !status ? -1 : world_rank(group, from),
        .tag = any_tag ? (status ? status->MPI_TAG : 0) : tag,
        .comm = group->number};
    return out->peer >= 0 || any;
}

/* Log an operation, unless `any` is false: now, or as the operation of a request. */
static void note_or_begin(bool any, plb_op_t op, const MPI_Request *request, bool persistent,
                          MPI_Comm comm)
{
    if (any && request == NULL) {
        plb_note(op);
    } else if (any) {
        request_made(*request, op, plb_group(comm), persistent);
    } else if (persistent) { /* a request for MPI_PROC_NULL, of which nothing is logged */
        request_made(*request, (plb_op_t){.kind = PLB_OP_END}, NULL, true);
    }
}

void plb_note_send(const MPI_Request *request, bool persistent, int flags, int64_t bytes, int dest,
                   int tag, MPI_Comm comm)
{
    plb_op_t op = {0};
    const int kind = request == NULL ? PLB_OP_SEND : PLB_OP_ISEND;
    const bool any = send_of(&op, kind, flags, bytes, dest, tag, comm);
    note_or_begin(any, op, request, persistent, comm);
}

void plb_note_receive(const MPI_Request *request, bool persistent, int kind, int source, int tag,
                      MPI_Comm comm, const MPI_Status *status)
{
    plb_op_t op = {0};
    const bool any = receive_of(&op, kind, source, tag, comm, status);
    note_or_begin(any, op, request, persistent, comm);
}

void plb_note_probe(int flag, int source, int tag, MPI_Comm comm, const MPI_Status *status)
{
    if (flag) {
        plb_note_receive(NULL, false, PLB_OP_PROBE, source, tag, comm, status);
    } else {
        plb_polled();
    }
}

/* Maps each message that a matched probe has found to the operation of its later receive. */
static plb_map_t taken;

void plb_note_mprobe(int flag, MPI_Message message, int source, int tag, MPI_Comm comm,
                     const MPI_Status *status)
{
    plb_note_probe(flag, source, tag, comm, status);
    if (flag && message != MPI_MESSAGE_NULL) {
        plb_op_t *op = plb_must_have(malloc(sizeof *op));
        if (receive_of(op, PLB_OP_RECV, status->MPI_SOURCE, status->MPI_TAG, comm, status)) {
            plb_map_put(&taken, PLB_HANDLE(message), op);
        } else {
            free(op);
        }
    }
}

void plb_note_taken(const MPI_Request *request, uint64_t message)
{
    plb_op_t *its = map_take(&taken, message);
    if (its != NULL) {
        plb_op_t op = *its;
        free(its);
        op.kind = request == NULL ? PLB_OP_RECV : PLB_OP_IRECV;
        note_or_begin(true, op, request, false, MPI_COMM_NULL);
    }
}

void plb_note_exchange(int64_t bytes, int dest, int sendtag, int source, int recvtag,
                       MPI_Comm comm, const MPI_Status *status)
{
    plb_op_t out, in;
    const bool sends = send_of(&out, PLB_OP_ISEND, 0, bytes, dest, sendtag, comm);
    const bool receives = receive_of(&in, PLB_OP_IRECV, source, recvtag, comm, status);
    const int32_t receive = receives ? note_begun(in) : -1;
    if (sends) {
        note_complete(note_begun(out), NULL);
    }
    if (receives) {
        note_complete(receive, &in);
    }
}

/* ---- collectives ---------------------------------------------------------------------------- */

void plb_note_collective(const MPI_Request *request, plb_collective_t what, int root,
                         int64_t bytes, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    if (group != NULL && group->n_remote > 0) {
        plb_lacks("a collective between the groups of an intercommunicator");
    }
    if (group != NULL && group->meets) {
        const plb_op_t op = {.kind = request == NULL ? PLB_OP_COLL : PLB_OP_ICOLL,
                             .what = (uint16_t)what,
                             .bytes = bytes,
                             .peer = root,
                             .tag = group->rank,
                             .comm = group->number};
        note_or_begin(true, op, request, false, comm);
    }
}

int plb_members(MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && group->size > 0 ? group->size : 1;
}

bool plb_is_root(int root, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group && group->n_remote == 0 && group->rank == root;
}

static int64_t count_of(plb_counts_t counts, int rank)
{
    if (counts.array == NULL) {
        return 0;
    }
    return counts.large ? (int64_t)((const MPI_Count *)counts.array)[rank]
                        : ((const int *)counts.array)[rank];
}

int64_t plb_sum(plb_counts_t counts, MPI_Comm comm)
{
    int64_t out = 0;
    const plb_group_t *group = plb_group(comm);
    for (int i = 0; group && group->n_remote == 0 && i < group->size; i++) {
        out += count_of(counts, i);
    }
    return out;
}

int64_t plb_mean(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm)
{
    return plb_bytes(plb_sum(counts, comm), type) / plb_members(comm);
}

int64_t plb_own(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    return group ? plb_bytes(count_of(counts, group->rank), type) : 0;
}

/* --- between neighbours --- */

enum { MOST_NEIGHBOURS = 1024 };

/* Get the sources and destinations in the order of the topology; false: `comm` has no topology, or
 * there are too many neighbours. */
static bool neighbours(MPI_Comm comm, int *n_in, int *in, int *n_out, int *out)
{
    int kind = MPI_UNDEFINED, weighted = 0, dims = 0, rank = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_DIST_GRAPH) {
        static int weights[2][MOST_NEIGHBOURS];
        PMPI_Dist_graph_neighbors_count(comm, n_in, n_out, &weighted);
        if (*n_in > MOST_NEIGHBOURS || *n_out > MOST_NEIGHBOURS) {
            return false;
        }
        PMPI_Dist_graph_neighbors(comm, *n_in, in, weights[0], *n_out, out, weights[1]);
        return true;
    }
    PMPI_Comm_rank(comm, &rank);
    if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, &dims);
        *n_in = 2 * dims;
    } else if (kind != MPI_GRAPH || PMPI_Graph_neighbors_count(comm, rank, n_in) != MPI_SUCCESS) {
        return false;
    }
    if (*n_in > MOST_NEIGHBOURS) {
        return false;
    }
    for (int d = 0; d < dims; d++) {
        PMPI_Cart_shift(comm, d, 1, &in[2 * d], &in[2 * d + 1]);
    }
    if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors(comm, rank, *n_in, in);
    }
    *n_out = *n_in;
    memcpy(out, in, (size_t)*n_in * sizeof *in);
    return true;
}

static int in[MOST_NEIGHBOURS], out[MOST_NEIGHBOURS];

bool plb_sends(MPI_Comm comm)
{
    int n_in = 0, n_out = 0;
    return neighbours(comm, &n_in, in, &n_out, out) && n_out > 0;
}

void plb_note_neighbours(MPI_Comm comm, int64_t bytes)
{
    static int32_t request[2 * MOST_NEIGHBOURS];
    int n_in = 0, n_out = 0, n = 0;
    plb_group_t *group = plb_group(comm);
    if (group == NULL || !neighbours(comm, &n_in, in, &n_out, out)) {
        plb_lacks("a neighbourhood collective with more than 1024 neighbours");
        return;
    }
    if (group->own == NULL) {
        group->own = copy_of(group);
    }
    group = group->own;
    for (int i = 0; i < n_in + n_out; i++) {
        const bool receives = i < n_in;
        const int32_t peer = world_rank(group, receives ? in[i] : out[i - n_in]);
        if (peer >= 0) {
            request[n++] = note_begun((plb_op_t){.kind = receives ? PLB_OP_IRECV : PLB_OP_ISEND,
                                                 .peer = peer,
                                                 .bytes = receives ? 0 : bytes,
                                                 .comm = group->number});
        }
    }
    for (int i = 0; i < n; i++) {
        note_complete(request[i], NULL);
    }
}

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ints.h"
#include "base/mem.h"
#include "base/point.h"
#include "partition/libraries/zoltan.h"

/* ---- zoltan query ------------------------------------------------------------------------ */

/* Zoltan's callbacks.  Their argument `data` is the plb_zoltan_t whose arrays they read. */

#define IDS                                                                                       \
    (void)n_gid;                                                                                  \
    (void)n_lid

static int count_objects(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_zoltan_t *)data)->n;
}

static void list_objects(void *data, int n_gid, int n_lid, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                         int n_weights, float *weight, int *ierr)
{
    IDS;
    const plb_zoltan_t *in = data;
    for (int32_t v = 0; v < in->n; v++) {
        gid[v] = (ZOLTAN_ID_TYPE)(in->first + v);
        lid[v] = (ZOLTAN_ID_TYPE)v;
    }
    for (int64_t i = 0; i < (int64_t)in->n * n_weights; i++) {
        weight[i] = (float)(in->scale > 0.0 ? rint(in->weight[i] * in->scale) : in->weight[i]);
    }
    *ierr = ZOLTAN_OK;
}

static void present_parts(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                          ZOLTAN_ID_PTR lid, int *part, int *ierr)
{
    IDS, (void)gid;
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        part[i] = in->old == NULL ? in->home : in->old[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static void sizes(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                  int *bytes, int *ierr)
{
    IDS, (void)gid;
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        bytes[i] = in->size == NULL ? 1 : in->size[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static int count_fixed(void *data, int *ierr)
{
    const plb_zoltan_t *in = data;
    int n = 0;
    for (int32_t v = 0; v < in->n; v++) {
        n += in->fixed[v] >= 0;
    }
    *ierr = ZOLTAN_OK;
    return n;
}

static void list_fixed(void *data, int n_fixed, int n_gid, ZOLTAN_ID_PTR gid, int *part, int *ierr)
{
    (void)n_fixed, (void)n_gid;
    const plb_zoltan_t *in = data;
    for (int32_t v = 0, i = 0; v < in->n; v++) {
        if (in->fixed[v] >= 0) {
            gid[i] = (ZOLTAN_ID_TYPE)(in->first + v);
            part[i++] = in->fixed[v];
        }
    }
    *ierr = ZOLTAN_OK;
}

/* ---- hypergraphs ---------------------------------------------------------------------------- */

static void hypergraph_size(void *data, int *n_nets, int *n_pins, int *format, int *ierr)
{
    const plb_zoltan_t *in = data;
    *n_nets = in->n_nets;
    *n_pins = (int)plb_int_at(in->net_start, in->n_nets);
    *format = ZOLTAN_COMPRESSED_EDGE;
    *ierr = ZOLTAN_OK;
}

static void hypergraph(void *data, int n_gid, int n_nets, int n_pins, int format,
                       ZOLTAN_ID_PTR net, int *start, ZOLTAN_ID_PTR pin, int *ierr)
{
    (void)n_gid, (void)format;
    const plb_zoltan_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        net[e] = (ZOLTAN_ID_TYPE)(in->first_net + e);
        start[e] = (int)plb_int_at(in->net_start, e);
    }
    for (int i = 0; i < n_pins; i++) {
        pin[i] = (ZOLTAN_ID_TYPE)plb_int_at(in->pin, i);
    }
    *ierr = ZOLTAN_OK;
}

static void count_net_weights(void *data, int *n_nets, int *ierr)
{
    *n_nets = ((const plb_zoltan_t *)data)->n_nets;
    *ierr = ZOLTAN_OK;
}

static void net_weights(void *data, int n_gid, int n_lid, int n_nets, int dim, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, float *weight, int *ierr)
{
    IDS, (void)dim;
    const plb_zoltan_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        gid[e] = (ZOLTAN_ID_TYPE)(in->first_net + e);
        lid[e] = (ZOLTAN_ID_TYPE)e;
        weight[e] = (float)in->net_weight[e];
    }
    *ierr = ZOLTAN_OK;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void count_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int *count, int *ierr)
{
    IDS, (void)gid;
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        count[i] = (int)(plb_int_at(in->start, lid[i] + 1) - plb_int_at(in->start, lid[i]));
    }
    *ierr = ZOLTAN_OK;
}

/* Return the rank that has the object.  guess: the rank to try first. */
static int owner(const plb_zoltan_t *in, int64_t object, int guess)
{
    if (in->dist[guess] <= object && object < in->dist[guess + 1]) {
        return guess;
    }
    int low = 0;
    while (in->dist[low + 1] <= object) {
        low++;
    }
    return low;
}

static void list_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                       ZOLTAN_ID_PTR lid, int *count, ZOLTAN_ID_PTR to, int *owners, int dim,
                       float *weight, int *ierr)
{
    IDS, (void)gid, (void)count;
    const plb_zoltan_t *in = data;
    int64_t at = 0;
    int guess = 0;
    for (int i = 0; i < n; i++) {
        const int64_t end = plb_int_at(in->start, lid[i] + 1);
        for (int64_t j = plb_int_at(in->start, lid[i]); j < end; j++, at++) {
            const int64_t object = plb_int_at(in->to, j);
            to[at] = (ZOLTAN_ID_TYPE)object;
            owners[at] = guess = owner(in, object, guess);
            if (dim > 0) {
                weight[at] = (float)in->edge_weight[j];
            }
        }
    }
    *ierr = ZOLTAN_OK;
}

/* ---- points --------------------------------------------------------------------------------- */

static int count_dims(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_zoltan_t *)data)->n_dims;
}

static void list_coords(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int dims, double *out, int *ierr)
{
    IDS, (void)gid;
    const plb_zoltan_t *in = data;
    /* copy consecutive ids together; usually all are consecutive */
    for (int i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && lid[i + run] == lid[i] + (ZOLTAN_ID_TYPE)run; run++) {
        }
        memcpy(out + (int64_t)i * dims, in->coords + (int64_t)lid[i] * dims,
               (size_t)run * (size_t)dims * sizeof *out);
    }
    *ierr = ZOLTAN_OK;
}

/* Also removes callbacks of an earlier call. */
static void set_queries(struct Zoltan_Struct *zz, const plb_zoltan_t *in)
{
    void *data = (void *)in;
    const bool fixed = in->fixed != NULL, weighs = in->net_weight != NULL;
    const bool nets = in->net_start.data != NULL, graph = in->start.data != NULL;
    Zoltan_Set_Num_Obj_Fn(zz, count_objects, data);
    Zoltan_Set_Obj_List_Fn(zz, list_objects, data);
    Zoltan_Set_Part_Multi_Fn(zz, present_parts, data);
    Zoltan_Set_Obj_Size_Multi_Fn(zz, sizes, data);
    Zoltan_Set_Num_Fixed_Obj_Fn(zz, fixed ? count_fixed : NULL, data);
    Zoltan_Set_Fixed_Obj_List_Fn(zz, fixed ? list_fixed : NULL, data);
    Zoltan_Set_HG_Size_CS_Fn(zz, nets ? hypergraph_size : NULL, data);
    Zoltan_Set_HG_CS_Fn(zz, nets ? hypergraph : NULL, data);
    Zoltan_Set_HG_Size_Edge_Wts_Fn(zz, weighs ? count_net_weights : NULL, data);
    Zoltan_Set_HG_Edge_Wts_Fn(zz, weighs ? net_weights : NULL, data);
    Zoltan_Set_Num_Edges_Multi_Fn(zz, graph ? count_edges : NULL, data);
    Zoltan_Set_Edge_List_Multi_Fn(zz, graph ? list_edges : NULL, data);
    Zoltan_Set_Num_Geom_Fn(zz, in->n_dims > 0 ? count_dims : NULL, data);
    Zoltan_Set_Geom_Multi_Fn(zz, in->n_dims > 0 ? list_coords : NULL, data);
}

/* ---- zoltan kept ------------------------------------------------------------------------- */

#define PLACES 8

/* In a call, all ranks of the communicator use the structure with the same index. */
typedef struct places {
    plb_zoltan_kept_t *at[PLACES];
} places_t;

static int keyval = MPI_KEYVAL_INVALID;

static void destroy(plb_zoltan_kept_t *self)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended) { /* Zoltan_Destroy frees a communicator: in Open MPI, without the other ranks */
        Zoltan_Destroy(&self->zz);
    }
    PLB_FREE(self->params, self);
}

/* MPI calls this when the communicator is freed; plb_zoltan_leave destroys busy structures. */
static int forget(MPI_Comm comm, int key, void *attribute, void *extra)
{
    (void)comm, (void)key, (void)extra;
    places_t *self = attribute;
    for (int i = 0; i < PLACES; i++) {
        if (self->at[i] == NULL) {
            continue;
        }
        self->at[i]->stays = false;
        if (!atomic_load(&self->at[i]->busy)) {
            destroy(self->at[i]);
        }
    }
    plb_free(self);
    return MPI_SUCCESS;
}

static places_t *places_of(MPI_Comm comm)
{
    places_t *self = NULL;
    int found = 0;
    if (keyval != MPI_KEYVAL_INVALID) {
        MPI_Comm_get_attr(comm, keyval, &self, &found);
    }
    return found ? self : NULL;
}

static places_t *make_places(MPI_Comm comm, plb_err_t *err)
{
    places_t *self = places_of(comm);
    if (self != NULL) {
        return self;
    }
    if ((keyval == MPI_KEYVAL_INVALID &&
         MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL) != MPI_SUCCESS) ||
        (self = plb_calloc(1, sizeof *self)) == NULL) {
        PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory");
        return NULL;
    }
    if (MPI_Comm_set_attr(comm, keyval, self) != MPI_SUCCESS) {
        plb_free(self);
        PLB_FAIL(err, PLB_ERR_MPI, "MPI_Comm_set_attr failed");
        return NULL;
    }
    return self;
}

int64_t plb_zoltan_spare(MPI_Comm comm)
{
    const places_t *self = places_of(comm);
    int64_t bits = 0;
    for (int i = 0; i < PLACES; i++) {
        const bool busy = self != NULL && self->at[i] != NULL && atomic_load(&self->at[i]->busy);
        bits |= (int64_t)!busy << i;
    }
    return bits;
}

static bool has_params(const plb_zoltan_kept_t *self, const char *params)
{
    return self != NULL && self->params != NULL && strcmp(self->params, params) == 0;
}

/* Return an index whose bit in `spare` is set: one whose structure has these parameters; else one
 * without a structure; else any.  Of several, the first.  -1: `spare` is 0. */
static int choose(const places_t *self, int64_t spare, const char *params)
{
    int best = -1, worth = 0;
    for (int i = 0; i < PLACES; i++) {
        const int now = has_params(self->at[i], params) ? 3 : 1 + (self->at[i] == NULL);
        if ((spare >> i & 1) != 0 && now > worth) {
            best = i;
            worth = now;
        }
    }
    return best;
}

/* Allocate what take needs, so that it cannot fail for lack of memory on one rank
 * while others wait.  *fresh: memory for a new structure, to be freed with plb_free.  Local. */
static int kept_prepare(MPI_Comm comm, plb_zoltan_kept_t **fresh, plb_err_t *err)
{
    PLB_PASS_NEW0(*fresh, 1);
    return make_places(comm, err) == NULL ? err->code : PLB_OK;
}

/* Take a structure with these parameters, or make a new one in *fresh, whose `params` are NULL;
 * then *fresh becomes NULL.  The caller must give the structure back by plb_zoltan_leave.  spare:
 * bit i is set if structure i is unused on every rank (plb_zoltan_spare); ignored on a single
 * rank. Collective; one call at a time. */
static int kept_take(MPI_Comm comm, int64_t spare, const char *params, plb_zoltan_kept_t **fresh,
                     plb_zoltan_kept_t **out, plb_err_t *err)
{
    places_t *places = places_of(comm);
    int size = 0;
    MPI_Comm_size(comm, &size);
    const int i = choose(places, size == 1 ? plb_zoltan_spare(comm) : spare, params);
    plb_zoltan_kept_t *old = i < 0 ? NULL : places->at[i];
    if (has_params(old, params)) {
        atomic_store(&old->busy, true);
        *out = old;
        return PLB_OK;
    }
    if (old != NULL) {
        places->at[i] = NULL;
        destroy(old);
    }
    (*fresh)->zz = Zoltan_Create(comm);
    PLB_FAIL_IF((*fresh)->zz == NULL, err, PLB_ERR_NOMEM, "Zoltan_Create failed");
    atomic_init(&(*fresh)->busy, true);
    *out = *fresh;
    *fresh = NULL;
    if (i >= 0) {
        places->at[i] = *out;
        (*out)->stays = true;
    }
    return PLB_OK;
}

void plb_zoltan_leave(plb_zoltan_kept_t *self)
{
    if (self->stays) {
        atomic_store(&self->busy, false);
    } else {
        destroy(self);
    }
}

#define SEED "SEED"

/* One call at a time: Zoltan has one random stream. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- parameters ----------------------------------------------------------------------------- */

static int set_text(struct Zoltan_Struct *zz, const char *name, const char *value, plb_err_t *err)
{
    PLB_FAIL_IF(Zoltan_Set_Param(zz, name, value) != ZOLTAN_OK, err, PLB_ERR_VALUE,
                "Zoltan refuses its parameter %s = '%s'", name, value);
    return PLB_OK;
}

static int set_number(struct Zoltan_Struct *zz, const char *name, int value, plb_err_t *err)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    return set_text(zz, name, text, err);
}

/* Set the parameters that follow from the arrays; then the caller's, which may override them. */
static int set_params(struct Zoltan_Struct *zz, const plb_zoltan_t *in, plb_err_t *err)
{
    const struct {
        const char *name;
        int value;
    } number[] = {
        {"DEBUG_LEVEL", 0}, /* set first, so that Zoltan does not print the other parameters */
        {"NUM_GID_ENTRIES", 1},
        {"NUM_LID_ENTRIES", 1},
        {"NUM_GLOBAL_PARTS", in->n_parts},
        {"OBJ_WEIGHT_DIM", in->n_weights},
        {"EDGE_WEIGHT_DIM", in->edge_weight != NULL || in->net_weight != NULL},
    };
    int ret = PLB_OK;
    for (size_t i = 0; ret == PLB_OK && i < sizeof number / sizeof *number; i++) {
        ret = set_number(zz, number[i].name, number[i].value, err);
    }
    /* list only the objects that move */
    ret =
        ret == PLB_OK ? set_text(zz, "RETURN_LISTS", in->imports ? "IMPORT" : "EXPORT", err) : ret;
    for (int i = 0; ret == PLB_OK && i < in->n_options; i++) {
        ret = set_text(zz, in->option[2 * i], in->option[2 * i + 1], err);
    }
    return ret;
}

/* Every rank sets the shares of all parts; if they differ for a part, Zoltan takes the largest. */
static int set_shares(struct Zoltan_Struct *zz, const plb_zoltan_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    int *id = NULL, *index = NULL;
    float *share = NULL;
    const int dim = in->n_weights > 1 ? in->n_weights : 1, n = in->n_parts * dim;
    Zoltan_LB_Set_Part_Sizes(zz, 1, -1, NULL, NULL, NULL);
    if (in->share == NULL) {
        return PLB_OK;
    }
    PLB_NEW_EACH(n, id, index, share);
    for (int i = 0; i < n; i++) {
        id[i] = i / dim;
        index[i] = i % dim;
        share[i] = (float)in->share[i / dim];
    }
    if (Zoltan_LB_Set_Part_Sizes(zz, 1, n, id, index, share) != ZOLTAN_OK) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan refuses the sizes of the parts");
    }
out:
    PLB_FREE(id, index, share);
    return ret;
}

/* Resets PT-Scotch's random stream, which otherwise continues from call to call.  This function is
 * absent if Zoltan is built without Scotch. */
extern void SCOTCH_randomReset(void) __attribute__((weak));

/* ---- the call ------------------------------------------------------------------------------- */

typedef struct lists {
    int n, *rank, *part;
    ZOLTAN_ID_PTR gid, lid;
} lists_t;

/* This rank's error; if it has none, an error that names the rank that has failed. */
static int failed_on(int rank, int ret, plb_err_t *err)
{
    return ret != PLB_OK ? ret : PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan failed on rank %d", rank);
}

/* Wait until all ranks agree.  If this rank has failed, the others may wait for it inside Zoltan,
 * where no message reaches them: after PYLB_ABORT_AFTER seconds (as in pylb/comm/program_end.py),
 * abort the job. */
static int wait_or_abort(MPI_Comm comm, MPI_Request *request, int rank, const char *why)
{
    const char *text = getenv("PYLB_ABORT_AFTER");
    const double limit = text == NULL || *text == '\0' ? 10.0 : plb_point_read(text, NULL);
    const double begin = MPI_Wtime();
    int done = 0, code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && !done) {
        if (MPI_Wtime() - begin > limit) {
            fprintf(stderr,
                    "pylb: rank %d: %s; the other ranks did not come within %g s "
                    "(PYLB_ABORT_AFTER); aborting all ranks\n",
                    rank, why, limit);
            MPI_Abort(comm, 1);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    return code;
}

/* All ranks fail if one has failed.  ret: the result of this rank. */
static int agree(MPI_Comm comm, int ret, plb_err_t *err)
{
    int rank, first = 0, mine;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    mine = ret == PLB_OK ? INT_MAX : rank;
    int code = MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm, &request);
    if (code == MPI_SUCCESS) {
        code = ret == PLB_OK ? MPI_Wait(&request, MPI_STATUS_IGNORE)
                             : wait_or_abort(comm, &request, rank, err->text);
    }
    if (code != MPI_SUCCESS) {
        return ret != PLB_OK ? ret : PLB_FAIL(err, PLB_ERR_MPI, "MPI_Iallreduce failed");
    }
    return first != INT_MAX ? failed_on(first, ret, err) : PLB_OK;
}

enum { COUNTS = 6 }; /* arrays of integers, one for each rank, in tell_owners */

/* Encode a message for each other rank r: for each part, -1 - part, then the indices, on rank r,
 * of the objects that go to this part.  place[r]: index in words[] of the next integer for rank r;
 * last[r]: the last part encoded for rank r.  words NULL: only count the integers. */
static void spell(const plb_zoltan_t *in, const lists_t *come, int *place, int *last,
                  int32_t *words)
{
    for (int i = 0; i < come->n; i++) {
        const int r = come->rank[i], part = come->part[i];
        if (r == in->rank) {
            continue;
        }
        if (last[r] != part) {
            if (words != NULL) {
                words[place[r]] = -1 - part;
            }
            last[r] = part;
            place[r]++;
        }
        if (words != NULL) {
            words[place[r]] = (int32_t)((int64_t)come->gid[i] - in->dist[r]);
        }
        place[r]++;
    }
}

/* Tell the owners the new parts of their objects, and set part[].  count[COUNTS * n_ranks]:
 * zeros. */
static int tell_owners(const plb_zoltan_t *in, const lists_t *come, int *count, int32_t *part,
                       plb_err_t *err)
{
    int ret = PLB_OK, n_ranks = 1;
    int32_t *said = NULL, *heard = NULL, to = 0;
    int64_t n;
    MPI_Comm_size(in->comm, &n_ranks);
    int *into = count + n_ranks, *place = into + n_ranks, *into_place = place + n_ranks;
    int *last = into_place + n_ranks, *next = last + n_ranks;
    memset(last, 0xff, (size_t)n_ranks * sizeof *last);
    for (int i = 0; i < come->n; i++) { /* own objects need no message */
        if (come->rank[i] == in->rank) {
            part[(int64_t)come->gid[i] - in->first] = come->part[i];
        }
    }
    if (n_ranks == 1) {
        return PLB_OK;
    }
    spell(in, come, count, last, NULL);
    PLB_FAIL_IF(MPI_Alltoall(count, 1, MPI_INT, into, 1, MPI_INT, in->comm) != MPI_SUCCESS, err,
                PLB_ERR_MPI, "MPI_Alltoall failed");
    n = plb_displacements(into, n_ranks, into_place);
    heard = plb_malloc((size_t)n, sizeof *heard);
    said = plb_malloc((size_t)plb_displacements(count, n_ranks, place), sizeof *said);
    ret = heard == NULL || said == NULL ? PLB_NO_MEMORY(heard, n) : PLB_OK;
    PLB_TRY(agree(in->comm, ret, err));
    memcpy(next, place, (size_t)n_ranks * sizeof *next);
    memset(last, 0xff, (size_t)n_ranks * sizeof *last);
    spell(in, come, next, last, said);
    if (MPI_Alltoallv(said, count, place, MPI_INT32_T, heard, into, into_place, MPI_INT32_T,
                      in->comm) != MPI_SUCCESS) {
        ret = PLB_FAIL(err, PLB_ERR_MPI, "MPI_Alltoallv failed");
        goto out;
    }
    for (int64_t i = 0; i < n; i++) {
        if (heard[i] < 0) {
            to = -1 - heard[i];
        } else {
            part[heard[i]] = to;
        }
    }
out:
    PLB_FREE(said, heard);
    return ret;
}

static int partition(struct Zoltan_Struct *zz, const plb_zoltan_t *in, int *count, int32_t *part,
                     plb_err_t *err)
{
    int changes, n_gid, n_lid, ret = PLB_OK;
    lists_t come = {0}, go = {0};
    if (SCOTCH_randomReset != NULL && in->start.data != NULL) {
        setenv("SCOTCH_PTHREAD_NUMBER", "1", 0); /* with more threads, PT-Scotch's results vary */
        SCOTCH_randomReset();
    }
    const int code =
        Zoltan_LB_Partition(zz, &changes, &n_gid, &n_lid, &come.n, &come.gid, &come.lid,
                            &come.rank, &come.part, &go.n, &go.gid, &go.lid, &go.rank, &go.part);
    if (code == ZOLTAN_MEMERR) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "Zoltan ran out of memory");
    } else if (code != ZOLTAN_OK && code != ZOLTAN_WARN) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan failed (code %d)", code);
    }
    for (int32_t v = 0; ret == PLB_OK && v < in->n; v++) {
        part[v] = in->old == NULL ? in->home : in->old[v];
    }
    ret = agree(in->comm, ret, err);
    if (in->imports) {
        PLB_THEN(tell_owners(in, &come, count, part, err));
    }
    for (int i = 0; ret == PLB_OK && !in->imports && i < go.n; i++) {
        part[go.lid[i]] = go.part[i];
    }
    Zoltan_LB_Free_Part(&come.gid, &come.lid, &come.rank, &come.part);
    Zoltan_LB_Free_Part(&go.gid, &go.lid, &go.rank, &go.part);
    return ret;
}

int plb_zoltan_has_mpi(plb_err_t *err)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    PLB_FAIL_IF(!begun || ended, err, PLB_ERR_STATE, "Zoltan needs MPI, which %s",
                ended ? "has been finalized" : "is not initialized");
    return PLB_OK;
}

/* All parameters except the seed as one text, which identifies a structure. */
static int spell_params(const plb_zoltan_t *in, char **text, plb_err_t *err)
{
    char numbers[64];
    size_t n = (size_t)snprintf(numbers, sizeof numbers, "%d %d %d %d", in->n_parts, in->n_weights,
                                in->edge_weight != NULL || in->net_weight != NULL, in->imports);
    size_t room = n + 1;
    for (int i = 0; i < 2 * in->n_options; i++) {
        room += 1 + strlen(in->option[i]);
    }
    PLB_PASS_NEW(*text, room);
    memcpy(*text, numbers, n);
    for (int i = 0; i < 2 * in->n_options; i++) {
        if (strcmp(in->option[i - i % 2], SEED) != 0) {
            const size_t more = strlen(in->option[i]);
            (*text)[n++] = ' ';
            memcpy(*text + n, in->option[i], more);
            n += more;
        }
    }
    (*text)[n] = '\0';
    return PLB_OK;
}

/* Set the seed, which restarts Zoltan's random stream. */
static int set_seed(struct Zoltan_Struct *zz, const plb_zoltan_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int i = 0; ret == PLB_OK && i < in->n_options; i++) {
        if (strcmp(in->option[2 * i], SEED) == 0) {
            ret = set_text(zz, SEED, in->option[2 * i + 1], err);
        }
    }
    return ret;
}

static int ask(plb_zoltan_kept_t *kept, const plb_zoltan_t *in, char **params, int *count,
               int32_t *part, plb_err_t *err)
{
    set_queries(kept->zz, in);
    int ret = kept->params == NULL ? set_params(kept->zz, in, err) : set_seed(kept->zz, in, err);
    PLB_THEN(set_shares(kept->zz, in, err));
    ret = agree(in->comm, ret, err); /* before some ranks wait in Zoltan for others */
    PLB_THEN(partition(kept->zz, in, count, part, err));
    if (ret != PLB_OK) { /* do not use the structure again */
        plb_free(kept->params);
        kept->params = NULL;
    } else if (kept->params == NULL) {
        kept->params = *params;
        *params = NULL;
    }
    return ret;
}

int plb_zoltan_refuse(MPI_Comm comm, plb_err_t *err)
{
    PLB_PASS(plb_zoltan_has_mpi(err));
    return agree(comm, PLB_FAIL(err, PLB_ERR_NOMEM, "this rank cannot call Zoltan"), err);
}

static int run(const plb_zoltan_t *in, int32_t *part, plb_zoltan_kept_t **keep, plb_err_t *err)
{
    float version;
    char *params = NULL;
    int n_ranks, *count = NULL;
    plb_zoltan_kept_t *kept = NULL, *fresh = NULL;
    PLB_FAIL_IF(Zoltan_Initialize(0, NULL, &version) != ZOLTAN_OK, err, PLB_ERR_LIBRARY,
                "Zoltan_Initialize failed");
    MPI_Comm_size(in->comm, &n_ranks);
    count = plb_calloc(COUNTS * (size_t)n_ranks, sizeof *count);
    int ret = count == NULL ? PLB_NO_MEMORY(count, COUNTS * n_ranks) : PLB_OK;
    PLB_THEN(spell_params(in, &params, err));
    PLB_THEN(kept_prepare(in->comm, &fresh, err));
    ret = agree(in->comm, ret, err); /* before some ranks make a structure, which waits for all */
    PLB_THEN(kept_take(in->comm, in->spare, params, &fresh, &kept, err));
    PLB_THEN(ask(kept, in, &params, count, part, err));
    if (ret == PLB_OK && keep != NULL) {
        *keep = kept;
    } else if (kept != NULL) {
        plb_zoltan_leave(kept);
    }
    PLB_FREE(params, count, fresh);
    return ret;
}

int plb_zoltan_run(const plb_zoltan_t *in, int32_t *part, plb_zoltan_kept_t **keep, plb_err_t *err)
{
    PLB_PASS(plb_zoltan_has_mpi(err));
    pthread_mutex_lock(&lock);
    const int ret = run(in, part, keep, err);
    pthread_mutex_unlock(&lock);
    return ret;
}

#include "partition/libraries/zoltan.h"

#include <string.h>

#include "base/mem.h"

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

int plb_zoltan_prepare(MPI_Comm comm, plb_zoltan_kept_t **fresh, plb_err_t *err)
{
    PLB_PASS_NEW0(*fresh, 1);
    return make_places(comm, err) == NULL ? err->code : PLB_OK;
}

int plb_zoltan_take(MPI_Comm comm, int64_t spare, const char *params, plb_zoltan_kept_t **fresh,
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

#include "whatif/recorder/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* ---- handles ------------------------------------------------------------------------------- */

void *plb_map_get(const plb_map_t *self, uint64_t key)
{
    const int32_t number = plb_keys_find(&self->keys, (int64_t)key);
    return number < 0 ? NULL : self->value[number];
}

static int put(plb_map_t *self, uint64_t key, void *value, plb_err_t *err)
{
    int32_t number;
    PLB_PASS(plb_keys_add(&self->keys, (int64_t)key, &number, err));
    PLB_PASS_GROW(self->value, self->room, self->keys.n);
    self->value[number] = value;
    return PLB_OK;
}

void *plb_must_have(void *block)
{
    if (block == NULL) {
        static const char why[] = "pylb record: out of memory: the program ends\n";
        (void)!write(STDERR_FILENO, why, sizeof why - 1);
        abort();
    }
    return block;
}

void plb_map_put(plb_map_t *self, uint64_t key, void *value)
{
    (void)plb_must_have(put(self, key, value, NULL) == PLB_OK ? self : NULL);
}

void *plb_map_take(plb_map_t *self, uint64_t key)
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

/* Return the members' ranks in MPI_COMM_WORLD.  *all: unchanged, or false if one has none. */
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

static plb_group_t *new_group(void)
{
    plb_group_t *self = plb_must_have(calloc(1, sizeof *self));
    self->number = n_groups++;
    return self;
}

static plb_group_t *define(MPI_Comm comm, uint64_t parent)
{
    plb_group_t *self = new_group();
    MPI_Group group;
    int inter = 0;
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
    static MPI_Comm last_comm;
    static plb_group_t *last;
    if (last != NULL && comm == last_comm && plb_map_get(&groups, PLB_HANDLE(comm)) == last) {
        return last;
    }
    plb_group_t *self = plb_map_get(&groups, PLB_HANDLE(comm));
    if (self == NULL && comm != MPI_COMM_NULL) {
        self = define(comm, 1);
    }
    last_comm = comm;
    last = self;
    return self;
}

static void define_made(MPI_Comm comm, const plb_group_t *parent)
{
    if (comm != MPI_COMM_NULL) {
        plb_map_take(&groups, PLB_HANDLE(comm)); /* MPI reuses handles */
        define(comm, parent ? parent->id : 1);
    }
}

/* Log the collective of all members that makes a communicator, if it can be simulated. */
static void meet(const plb_group_t *group)
{
    if (group != NULL && group->meets) {
        plb_note((plb_op_t){.kind = PLB_OP_COLL,
                            .what = PLB_ALLREDUCE,
                            .bytes = 8,
                            .tag = group->rank,
                            .comm = group->number});
    }
}

void plb_note_made(MPI_Comm parent, MPI_Comm fresh)
{
    plb_group_t *group = plb_group(parent);
    meet(group);
    define_made(fresh, group);
}

/* The id must not depend on the parent, which is a different one in each of the two groups. */
void plb_made_between(MPI_Comm parent, MPI_Comm fresh)
{
    meet(plb_group(parent));
    define_made(fresh, NULL);
}

void plb_made_among(MPI_Comm parent, MPI_Comm fresh)
{
    define_made(fresh, plb_group(parent));
    if (fresh != MPI_COMM_NULL) {
        meet(plb_group(fresh));
    }
}

/* The group stays in memory, because requests that are still open may refer to it. */
void plb_group_gone(MPI_Comm comm)
{
    plb_map_take(&groups, PLB_HANDLE(comm));
}

static plb_group_t *copy_of(const plb_group_t *group)
{
    plb_group_t *self = new_group();
    const int32_t number = self->number;
    *self = *group;
    self->number = number;
    self->own = NULL;
    self->id = name_of(self, plb_mix64(group->id + 2));
    tell(self);
    return self;
}

void plb_made_copy(MPI_Comm comm, MPI_Comm fresh)
{
    plb_map_put(&groups, PLB_HANDLE(fresh), copy_of(plb_group(comm)));
}

plb_group_t *plb_group_own(plb_group_t *group)
{
    if (group->own == NULL) {
        group->own = copy_of(group);
    }
    return group->own;
}

int32_t plb_world_rank(const plb_group_t *group, int rank)
{
    const int32_t n = group->n_remote ? group->n_remote : group->size;
    return rank < 0 || rank >= n ? -1 : (group->n_remote ? group->remote : group->world)[rank];
}

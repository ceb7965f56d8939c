/* Communicators: what this rank calls them, who is in them, and a name that is the same on all
 * their members without asking them. */
#include <stdlib.h>
#include <string.h>

#include "record.h"

static plb_table_t groups; /* by communicator */
static plb_table_t made;   /* how many groups of the same members there were, by their name */
static int32_t n_groups;

/* --- hash table: linear probing, kept half empty --- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static uint32_t place_of(const plb_table_t *self, uint64_t key)
{
    uint32_t at = (uint32_t)mix(key) & (self->room - 1);
    while (self->value[at] != NULL && self->key[at] != key) {
        at = (at + 1) & (self->room - 1);
    }
    return at;
}

void *plb_table_get(const plb_table_t *self, uint64_t key)
{
    return self->room == 0 ? NULL : self->value[place_of(self, key)];
}

static void grow(plb_table_t *self)
{
    const plb_table_t old = *self;
    self->room = old.room ? 2 * old.room : 64;
    self->key = malloc(self->room * sizeof *self->key);
    self->value = calloc(self->room, sizeof *self->value);
    if (self->key == NULL || self->value == NULL) {
        abort(); /* as the program itself would for want of so little */
    }
    for (uint32_t i = 0; i < old.room; i++) {
        if (old.value[i] != NULL) {
            const uint32_t at = place_of(self, old.key[i]);
            self->key[at] = old.key[i];
            self->value[at] = old.value[i];
        }
    }
    free(old.key);
    free(old.value);
}

void plb_table_put(plb_table_t *self, uint64_t key, void *value)
{
    if (2 * self->n >= self->room) {
        grow(self);
    }
    const uint32_t at = place_of(self, key);
    self->n += self->value[at] == NULL;
    self->key[at] = key;
    self->value[at] = value;
}

void *plb_table_take(plb_table_t *self, uint64_t key)
{
    if (self->room == 0) {
        return NULL;
    }
    uint32_t hole = place_of(self, key);
    void *const out = self->value[hole];
    if (out == NULL) {
        return NULL;
    }
    self->n--;
    /* Those behind move up, as far as they are not where they belong. */
    const uint32_t mask = self->room - 1;
    for (uint32_t i = (hole + 1) & mask; self->value[i] != NULL; i = (i + 1) & mask) {
        const uint32_t home = (uint32_t)mix(self->key[i]) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            self->key[hole] = self->key[i];
            self->value[hole] = self->value[i];
            hole = i;
        }
    }
    self->value[hole] = NULL;
    return out;
}

/* --- groups --- */

static int32_t *world_ranks(MPI_Group group, int32_t *n)
{
    MPI_Group world;
    int size = 0;
    PMPI_Group_size(group, &size);
    int *own = malloc(sizeof *own * (size_t)(size + 1));
    int32_t *out = malloc(sizeof *out * (size_t)(size + 1));
    if (own == NULL || out == NULL) {
        abort();
    }
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
        }
    }
    free(own);
    *n = size;
    return out;
}

/* Of the same members of the same parent the first, second, ...: they are made in the same order
 * everywhere. */
static uint64_t name_of(const plb_group_t *self, uint64_t parent)
{
    uint64_t sum = mix(parent + 1);
    for (int32_t i = 0; i < self->size; i++) { /* two groups of one intercommunicator: any order */
        sum += mix(1000003u * (uint64_t)(self->n_remote ? 0 : i) + (uint64_t)self->world[i]);
    }
    for (int32_t i = 0; i < self->n_remote; i++) {
        sum += mix((uint64_t)self->remote[i]);
    }
    const uintptr_t times = (uintptr_t)plb_table_get(&made, sum) + 1;
    plb_table_put(&made, sum, (void *)times);
    return mix(sum + times) >> 1;
}

static void tell(const plb_group_t *self)
{
    struct {
        int64_t number, id, size;
    } head = {self->number, (int64_t)self->id, self->n_remote ? 0 : self->size};
    const uint32_t bytes = (uint32_t)(sizeof head + (size_t)head.size * sizeof *self->world);
    char *text = malloc(bytes);
    if (text != NULL) {
        memcpy(text, &head, sizeof head);
        memcpy(text + sizeof head, self->world, (size_t)head.size * sizeof *self->world);
        plb_frame('C', text, bytes);
        free(text);
    }
}

static plb_group_t *new_group(void)
{
    plb_group_t *self = calloc(1, sizeof *self);
    if (self == NULL) {
        abort();
    }
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
    self->world = world_ranks(group, &self->size);
    PMPI_Group_free(&group);
    if (inter) {
        PMPI_Comm_remote_group(comm, &group);
        self->remote = world_ranks(group, &self->n_remote);
        PMPI_Group_free(&group);
    }
    self->id = comm == MPI_COMM_WORLD ? 0 : name_of(self, parent);
    tell(self);
    plb_table_put(&groups, PLB_HANDLE(comm), self);
    return self;
}

plb_group_t *plb_group(MPI_Comm comm)
{
    static MPI_Comm last_comm;
    static plb_group_t *last;
    if (last != NULL && comm == last_comm && plb_table_get(&groups, PLB_HANDLE(comm)) == last) {
        return last;
    }
    plb_group_t *self = plb_table_get(&groups, PLB_HANDLE(comm));
    if (self == NULL && comm != MPI_COMM_NULL) {
        self = define(comm, 1);
    }
    last_comm = comm;
    last = self;
    return self;
}

void plb_group_made(MPI_Comm comm, const plb_group_t *parent)
{
    if (comm != MPI_COMM_NULL) {
        plb_table_take(&groups, PLB_HANDLE(comm)); /* a handle that is used again */
        define(comm, parent ? parent->id : 1);
    }
}

/* What operations have said of it stays true, so it is not freed. */
void plb_group_gone(MPI_Comm comm)
{
    plb_table_take(&groups, PLB_HANDLE(comm));
}

plb_group_t *plb_group_own(plb_group_t *group)
{
    if (group->own == NULL) {
        plb_group_t *self = new_group();
        const int32_t number = self->number;
        *self = *group;
        self->number = number;
        self->own = NULL;
        self->id = name_of(self, mix(group->id + 2));
        tell(self);
        group->own = self;
    }
    return group->own;
}

int32_t plb_world_rank(const plb_group_t *group, int rank)
{
    const int32_t n = group->n_remote ? group->n_remote : group->size;
    return rank < 0 || rank >= n ? -1 : (group->n_remote ? group->remote : group->world)[rank];
}

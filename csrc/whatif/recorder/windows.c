#include "windows.h"

#include <stdlib.h>

#include "groups.h"
#include "log.h"

typedef struct window {
    plb_group_t *group; /* a group that only this window uses */
    int64_t *pending; /* [size] bytes of pending accesses to each target, at least 1 per access */
    MPI_Group opened, posted;
} window_t;

static plb_map_t windows;

/* tags of the messages that stand for post, start, complete and wait */
enum { POSTED = 1, COMPLETE = 2 };

static window_t *window_of(MPI_Win win)
{
    return plb_map_get(&windows, PLB_HANDLE(win));
}

static void meet(const plb_group_t *group)
{
    plb_note_meeting(group, PLB_BARRIER, 0);
}

void plb_window_made(MPI_Comm comm, MPI_Win win)
{
    plb_group_t *parent = plb_group(comm);
    window_t *self = plb_must_have(calloc(1, sizeof *self));
    if (parent == NULL) {
        abort();
    }
    parent->own = NULL; /* so that plb_group_own makes a new group, for this window only */
    self->group = plb_group_own(parent);
    parent->own = NULL;
    self->pending = plb_must_have(calloc((size_t)self->group->size, sizeof *self->pending));
    self->opened = self->posted = MPI_GROUP_NULL;
    plb_map_put(&windows, PLB_HANDLE(win), self);
    meet(self->group);
}

void plb_window_gone(MPI_Win win)
{
    window_t *self = plb_map_take(&windows, PLB_HANDLE(win));
    if (self != NULL) {
        meet(self->group);
        free(self->pending);
        free(self);
    }
}

void plb_accessed(MPI_Win win, int target, int64_t bytes)
{
    window_t *self = window_of(win);
    if (self != NULL && target >= 0 && target < self->group->size) {
        self->pending[target] += bytes > 0 ? bytes : 1; /* an access without data counts, too */
    }
}

static int64_t take_pending(window_t *self, int target)
{
    const int64_t bytes = self->pending[target];
    self->pending[target] = 0;
    return bytes;
}

static void complete_one(window_t *self, int target)
{
    const int64_t bytes = take_pending(self, target);
    const int32_t peer = plb_world_rank(self->group, target);
    if (bytes > 0 && peer >= 0) {
        plb_note((plb_op_t){
            .kind = PLB_OP_ACCESS, .peer = peer, .bytes = bytes, .comm = self->group->number});
    }
}

static void complete_all(window_t *self)
{
    for (int target = 0; target < self->group->size; target++) {
        complete_one(self, target);
    }
}

void plb_fenced(MPI_Win win)
{
    window_t *self = window_of(win);
    if (self != NULL) {
        complete_all(self);
        meet(self->group);
    }
}

void plb_flushed(MPI_Win win, int target)
{
    window_t *self = window_of(win);
    if (self != NULL && target < 0) {
        complete_all(self);
    } else if (self != NULL && target < self->group->size) {
        complete_one(self, target);
    }
}

void plb_note_lock(MPI_Win win, int kind, int target, bool shared)
{
    window_t *self = window_of(win);
    const int32_t peer = self == NULL ? -1 : plb_world_rank(self->group, target);
    if (peer >= 0) {
        plb_note((plb_op_t){.kind = (uint8_t)kind,
                            .flags = shared ? PLB_OP_SHARED : 0,
                            .peer = peer,
                            .tag = (int32_t)(self->group->id & INT32_MAX),
                            .bytes = kind == PLB_OP_UNLOCK ? take_pending(self, target) : 0,
                            .comm = self->group->number});
    }
}

/* --- post, start, complete, wait: messages within the window's group --- */

static void with_each(window_t *self, MPI_Group group, int kind, int tag)
{
    int n = 0;
    MPI_Group world;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, &n);
    for (int i = 0; i < n; i++) {
        int peer = -1, local = -1;
        PMPI_Group_translate_ranks(group, 1, &i, world, &peer);
        for (int r = 0; r < self->group->size; r++) {
            local = self->group->world[r] == peer ? r : local;
        }
        if (peer >= 0 && local >= 0) {
            const bool brings = kind == PLB_OP_SEND && tag == COMPLETE;
            plb_note((plb_op_t){.kind = (uint8_t)kind,
                                .flags = kind == PLB_OP_SEND ? PLB_OP_BUFFERED : 0,
                                .peer = peer,
                                .tag = tag,
                                .bytes = brings ? take_pending(self, local) : 0,
                                .comm = self->group->number});
        }
    }
    PMPI_Group_free(&world);
}

/* Copy a group, because the program may free it before the epoch ends. */
static MPI_Group copy(MPI_Group group)
{
    MPI_Group out;
    PMPI_Group_union(group, MPI_GROUP_EMPTY, &out);
    return out;
}

void plb_epoch_begins(MPI_Win win, MPI_Group group, bool posts)
{
    window_t *self = window_of(win);
    if (self != NULL) {
        *(posts ? &self->posted : &self->opened) = copy(group);
        with_each(self, group, posts ? PLB_OP_SEND : PLB_OP_RECV, POSTED);
    }
}

void plb_epoch_ends(MPI_Win win, int flag, bool posted)
{
    window_t *self = window_of(win);
    MPI_Group *group = self == NULL ? NULL : posted ? &self->posted : &self->opened;
    if (!flag) {
        plb_polled();
    } else if (group != NULL && *group != MPI_GROUP_NULL) {
        with_each(self, *group, posted ? PLB_OP_RECV : PLB_OP_SEND, COMPLETE);
        PMPI_Group_free(group);
        *group = MPI_GROUP_NULL;
    }
}

/* Unordered linked lists of the objects of each rank.  Moving an object takes constant time. */
#pragma once

#include <string.h>

#include "base/mem.h"

typedef struct plb_members {
    int32_t *head;        /* [p] first object of each rank; -1: none */
    int32_t *next, *prev; /* [n] next and previous object on the same rank; -1: none */
} plb_members_t;

/** Begin with empty lists.  Free `self` also after a failure. */
static inline int plb_members_init(plb_members_t *self, int32_t p, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_NEW(self->head, p);
    PLB_NEW_EACH(n, self->next, self->prev);
    memset(self->head, 0xff, (size_t)p * sizeof *self->head);
out:
    return ret;
}

static inline void plb_members_free(plb_members_t *self)
{
    PLB_FREE(self->head, self->next, self->prev);
}

/** Put object i at the head of the list of rank r. */
static inline void plb_members_enter(plb_members_t *self, int32_t i, int32_t r)
{
    self->prev[i] = -1;
    self->next[i] = self->head[r];
    if (self->head[r] >= 0) {
        self->prev[self->head[r]] = i;
    }
    self->head[r] = i;
}

static inline void plb_members_leave(plb_members_t *self, int32_t i, int32_t r)
{
    if (self->prev[i] >= 0) {
        self->next[self->prev[i]] = self->next[i];
    } else {
        self->head[r] = self->next[i];
    }
    if (self->next[i] >= 0) {
        self->prev[self->next[i]] = self->prev[i];
    }
}

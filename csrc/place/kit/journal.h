/* A journal of migrations, so that those that have gained little can be undone. */
#ifndef PLB_PLACE_KIT_JOURNAL_H
#define PLB_PLACE_KIT_JOURNAL_H

#include "base/mem.h"

typedef struct plb_migration {
    int32_t object, from; /* the object (its number is the caller's), and the rank that it left */
} plb_migration_t;

/* All zeros: empty.  The owner frees `entry`. */
typedef struct plb_journal {
    plb_migration_t *entry; /* [n] in the order of the migrations */
    int64_t n, room;
} plb_journal_t;

static inline int plb_journal_add(plb_journal_t *self, int32_t object, int32_t from,
                                  plb_err_t *err)
{
    PLB_PASS_GROW(self->entry, self->room, self->n + 1);
    self->entry[self->n++] = (plb_migration_t){object, from};
    return PLB_OK;
}

/** Remove the last migration, which must exist, and return it. */
static inline plb_migration_t plb_journal_pop(plb_journal_t *self)
{
    return self->entry[--self->n];
}

#endif

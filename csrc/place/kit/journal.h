/* A journal of migrations, so that migrations that have gained little can be undone. */
#pragma once

#include "base/mem.h"

typedef struct plb_migration {
    int32_t object, from; /* the object, numbered by the caller, and the rank that it left */
} plb_migration_t;

/* A journal that is set to {0} is empty.  The owner frees `entry`. */
typedef struct plb_journal {
    plb_migration_t *entry; /* [n] in the order of the migrations */
    int64_t n, room;
    double before; /* the value to reduce (e.g. the maximum) before the first entry */
} plb_journal_t;

/* A reduction of the maximum by less than this fraction is not worth its migrations. */
static const double PLB_JOURNAL_NEAR = 2e-3;

static inline int plb_journal_add(plb_journal_t *self, int32_t object, int32_t from,
                                  plb_err_t *err)
{
    PLB_PASS_GROW(self->entry, self->room, self->n + 1);
    self->entry[self->n++] = (plb_migration_t){object, from};
    return PLB_OK;
}

/** If `now`, the present value (e.g. maximum), is at most `fraction` times `before`, keep the
 * migrations: empty the journal, so that they can no longer be undone. */
static inline void plb_journal_keep(plb_journal_t *self, double now, double fraction)
{
    if (now <= fraction * self->before) {
        self->before = now;
        self->n = 0;
    }
}

/** Remove the most recent migration, which must exist, and return it. */
static inline plb_migration_t plb_journal_pop(plb_journal_t *self)
{
    return self->entry[--self->n];
}

#include "lib/internal.h"

#include <stdatomic.h>

#include "base/base.h"

static _Thread_local plb_err_t last;

/* all handles ever opened: a memory checker then does not report closed handles as leaks */
static _Atomic(plb_handle_t *) handles;

plb_err_t *plb_lib_error(void)
{
    return &last;
}

const char *pylb_error(void)
{
    return last.text;
}

const char *pylb_error_name(int code)
{
    switch (code) {
    case PLB_OK:
        return "no error";
#define X(name, code, class, help)                                                                \
    case PLB_ERR_##name:                                                                          \
        return help;
        PLB_ERRORS(X)
#undef X
    default:
        return "an unknown code";
    }
}

const char *pylb_version(void)
{
    return PYLB_VERSION;
}

int plb_handle_open(plb_handle_kind_t kind, void *content, plb_handle_t **out, plb_err_t *err)
{
    plb_handle_t *self = NULL;
    PLB_PASS_NEW(self, 1);
    *self = (plb_handle_t){kind, content, atomic_load(&handles)};
    while (!atomic_compare_exchange_weak(&handles, &self->next, self)) {
    }
    *out = self;
    return PLB_OK;
}

void *plb_handle_content(const plb_handle_t *self, plb_handle_kind_t kind, plb_err_t *err)
{
    const char *name = kind == PLB_HANDLE_ADVISOR ? "advisor" : "trigger";
    if (self == NULL || self->kind != kind) {
        (void)PLB_FAIL(err, PLB_ERR_VALUE, "the handle is %s: expected an open %s",
                       self == NULL ? "NULL" : "of another kind", name);
        return NULL;
    }
    if (self->content == NULL) {
        (void)PLB_FAIL(err, PLB_ERR_STATE, "this %s is closed", name);
    }
    return self->content;
}

/* The error of the calling thread, and handles, which remember that they were closed. */
#pragma once

#include "base/err.h"
#include "lib/pylb.h"

/* Marks functions of libpylb that libpylb_mpi uses. */
#define PLB_SHARED __attribute__((visibility("default")))

/** The error of this thread, into which each function of pylb.h writes its message. */
PLB_SHARED plb_err_t *plb_lib_error(void);

typedef enum plb_handle_kind { PLB_HANDLE_ADVISOR = 1, PLB_HANDLE_TRIGGER } plb_handle_kind_t;

/* The struct to which a handle points.  It stays in memory when the handle is closed, so that a
 * call with a closed handle gives an error. */
typedef struct plb_handle {
    plb_handle_kind_t kind;
    void *content; /* NULL: closed */
    struct plb_handle *next;
} plb_handle_t;

int plb_handle_open(plb_handle_kind_t kind, void *content, plb_handle_t **out, plb_err_t *err);

/** Return the content of a handle; NULL and an error if it is NULL, closed or of another kind. */
void *plb_handle_content(const plb_handle_t *self, plb_handle_kind_t kind, plb_err_t *err);

void plb_handle_close(plb_handle_t *self);

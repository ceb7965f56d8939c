/* C structs as Python dicts and tuples, and back, from tables of their fields.
 *
 * A table is a static array that ends with {0}, usually made by the X-macro that also makes the
 * struct:
 *
 *     #define X(name, unit, help) PLB_PY_FIELD(plb_metrics_t, name),
 *     static const plb_py_field_t fields[] = {PLB_METRICS(X){0}};
 *     #undef X
 */
#pragma once

#include <stddef.h>

#include "bind/views.h"

typedef struct plb_py_field {
    const char *name; /* Python sees what follows the last dot */
    int kind;         /* of PLB_PY_KIND */
    size_t offset;
} plb_py_field_t;

#define PLB_PY_FIELD(type, member)                                                                \
    {                                                                                             \
#member, PLB_PY_KIND(&((type *)NULL)->member), offsetof(type, member)                     \
    }

PyObject *plb_py_dict(const plb_py_field_t *fields, const void *from);
PyObject *plb_py_tuple(const plb_py_field_t *fields, const void *from);

/** Put `value` (stolen; NULL: an exception is pending) into a dict under `name`. */
int plb_py_put(PyObject *dict, const char *name, PyObject *value);

/** Fill a struct from a tuple of values. */
int plb_py_fill(plb_py_call_t *c, const plb_py_field_t *fields, PyObject *values, void *to);

/** Return n structs of `size` bytes each as a list of tuples. */
PyObject *plb_py_rows(const plb_py_field_t *fields, const void *from, int64_t n, size_t size);

/** Return a list as a tuple, and release the list.  NULL gives NULL. */
PyObject *plb_py_as_tuple(PyObject *list);

/** Append `value` (stolen) to *list.  On failure, or if `value` is NULL, release the list and set
 * *list to NULL. */
void plb_py_append(PyObject **list, PyObject *value);

PyObject *plb_py_names(const char *const *names, size_t n);

/** Return a new tuple with (name, default, minimum, maximum, unit, help) of each parameter. */
PyObject *plb_py_params(const plb_param_t *params, int n);

PyObject *plb_py_metrics(const plb_metrics_t *metrics);

/** Return a learner's speeds, (p,); None: the ranks seem equally fast, or nothing is known yet. */
PyObject *plb_py_speeds(const plb_learner_t *learner);

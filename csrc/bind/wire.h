/* Messages between objects as bytes.  Small plain arrays, numbers and what is pickled already are
 * copied, which takes a tenth of the time of pickle; other data are left to pickle. */
#ifndef PLB_BIND_WIRE_H
#define PLB_BIND_WIRE_H

#include "bind/views.h"

typedef struct plb_letter {
    int64_t target, source;
    PyObject *data; /* owned */
} plb_letter_t;

/** Pack the letters letter[index[n]]: bytes, and in `others` (a list) the data that are not
 *  packed.  Arrays of more than `most` bytes are not; objects of type `frozen` (a kind of bytes)
 *  are.  NULL with an exception. */
PyObject *plb_wire_pack(const plb_letter_t *letter, const int32_t *index, int64_t n, npy_intp most,
                        PyTypeObject *frozen, PyObject *others);

/** Call take(arg, letter) for each letter of the wire, in order; `take` gets the reference.  -1
 *  with an exception, also where the wire or the list `others` ends too early. */
int plb_wire_unpack(const char *wire, int64_t n_bytes, PyObject *others, PyTypeObject *frozen,
                    int (*take)(void *arg, plb_letter_t letter), void *arg);

#endif

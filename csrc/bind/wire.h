/* Messages between objects as bytes.  Small plain arrays, numbers and data that are already
 * pickled are copied, in a tenth of the time of pickle.  Other data are left to pickle. */
#ifndef PLB_BIND_WIRE_H
#define PLB_BIND_WIRE_H

#include "bind/views.h"

typedef struct plb_letter {
    int64_t target, source;
    PyObject *data; /* owned */
} plb_letter_t;

/** Pack the letters letter[index[n]] into bytes.  Data that are not packed are appended to the
 * list `others`: arrays of more than `most` bytes, and objects of other types; but objects of type
 *  `frozen` (a subclass of bytes) are packed.  NULL with an exception. */
PyObject *plb_wire_pack(const plb_letter_t *letter, const int32_t *index, int64_t n, npy_intp most,
                        PyTypeObject *frozen, PyObject *others);

/** Call take(arg, letter) for each letter of the wire, in order; `take` gets the reference.  -1
 *  with an exception, also if the wire or the list `others` ends too early. */
int plb_wire_unpack(const char *wire, int64_t n_bytes, PyObject *others, PyTypeObject *frozen,
                    int (*take)(void *arg, plb_letter_t letter), void *arg);

#endif

/* Messages between objects as bytes.  Small plain arrays, numbers and data that are already
 * pickled are copied, in a tenth of the time that pickle takes.  Other data are left to pickle.
 * A letter is a message to one object.  A multicast consists of several letters in a row, one for
 * each receiver, all with the same data, which are in the bytes (the wire) only once. */
#pragma once

#include "bind/views.h"

typedef struct plb_letter {
    int64_t target, source;
    PyObject *data; /* owned */
    int64_t cast;   /* 0: a message to one object.  Else a part of a multicast: > 0: each receiver
                     * gets a copy; < 0: the receivers share the data.  The absolute value is the
                     * number of the multicast on the sender, and 1 on the receiver. */
} plb_letter_t;

/** Whether the data cannot be changed: numbers, texts, bytes, None. */
bool plb_is_constant(PyObject *data);

/** Whether the data are a NumPy array without Python objects. */
bool plb_is_numbers(PyObject *data);

/** Protect data from later changes by their owner: return a copy of an array of numbers, a
 * constant itself, or freeze(data) for other data. */
PyObject *plb_own_copy(PyObject *data, PyObject *freeze);

/** Estimate the bytes of the data, for the communication graph: 8 if they are unknown; for a str,
 * the number of characters. */
int64_t plb_bytes_of(PyObject *data);

/** Whether letter b, which follows a, belongs to the same multicast. */
static inline bool plb_same_cast(const plb_letter_t *a, const plb_letter_t *b)
{
    return b->cast != 0 && a->cast == b->cast && a->source == b->source && a->data == b->data;
}

/** Pack the letters letter[index[n]] into bytes.  *messages: their number; a multicast counts as
 * one.  Packed are floats, int64, None, objects of type `frozen` (a subclass of bytes), contiguous
 * arrays of numbers of up to `most` bytes; other data are appended to the list `others`. */
PyObject *plb_wire_pack(const plb_letter_t *letter, const int32_t *index, int64_t n, npy_intp most,
                        PyTypeObject *frozen, PyObject *others, int64_t *messages);

/** Call take(arg, letter) for each letter of the wire, in order; `take` gets the reference to the
 * data.  Fails also if the wire or the list `others` ends too early. */
int plb_wire_unpack(const char *wire, int64_t n_bytes, PyObject *others, PyTypeObject *frozen,
                    int (*take)(void *arg, plb_letter_t letter), void *arg);

/* The keys of the objects of one rank, with their hash table (base/hash.h), as a Python object. */
#include "bind/rooms.h"

typedef struct keys {
    PLB_PY_HEAD plb_keys_t core;
    PyArrayObject *array; /* the array with the keys, owned */
} keys_t;

static int keys_init(keys_t *self, plb_py_call_t *c)
{
    PyObject *keys;
    PLB_PASS(PLB_READ(c, PLB_ONE(&keys)));
    PLB_PASS(plb_py_refuse(!PyArray_Check(keys), PyExc_TypeError, "keys: expected an array"));
    const int64_t n = PyArray_SIZE((PyArrayObject *)keys);
    const int64_t *key = plb_py_in_place(keys, "keys", NPY_INT64, n);
    PLB_PASS(key == NULL);
    self->array = (PyArrayObject *)Py_NewRef(keys);
    return PLB_PY_UNLOCKED(c, plb_keys_over(&self->core, key, n, &c->err));
}

static void keys_fini(keys_t *self)
{
    plb_keys_free(&self->core);
    Py_XDECREF(self->array);
}

PLB_PY_DEF(keys, find, "!key", "Return the index of a key, or -1.")
{
    const long long wanted = PyLong_AsLongLong(c->arg);
    PLB_PASS(PyErr_Occurred() != NULL);
    return plb_py_answer(c, PyLong_FromLong(plb_keys_find(&self->core, wanted)));
}

static void find_each(const plb_keys_t *self, const int64_t *key, int64_t n, int32_t *place)
{
    for (int64_t i = 0; i < n; i++) {
        place[i] = plb_keys_find(self, key[i]);
    }
}

PLB_PY_DEF(keys, places, "keys", "Return the index of each key, or -1.")
{
    const int64_t *key;
    int64_t n = -1;
    int32_t *place;
    PLB_PASS(PLB_READ(c, PLB_MANY(&key, &n)));
    PLB_PASS((place = plb_py_new(c, NPY_INT32, n)) == NULL);
    PLB_PASS(PLB_PY_UNLOCKED(c, (find_each(&self->core, key, n, place), PLB_OK)));
    return plb_py_answer(c, plb_py_out(c, place));
}

static Py_ssize_t keys_length(PyObject *object)
{
    return (Py_ssize_t)((keys_t *)object)->core.n;
}

static const plb_py_def_t *const keys_methods[] = {&keys_find, &keys_places, NULL};

PLB_PY_TYPE(keys, "pylb._core.Keys", "keys",
            "Distinct keys, each of which has an index 0 ... n-1.  keys: a contiguous array of\n"
            "int64 that must not change.",
            {Py_sq_length, keys_length}, )

const plb_keys_t *plb_py_keys(PyObject *object)
{
    if (Py_TYPE(object)->tp_dealloc != keys_dealloc) {
        PyErr_SetString(PyExc_TypeError, "keys: expected pylb._core.Keys");
        return NULL;
    }
    return &((keys_t *)object)->core;
}

const plb_py_room_t plb_py_run_keys = {NULL, {&keys_spec}, NULL};

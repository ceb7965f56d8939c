/* The keys of the objects of one rank, with their hash table (base/hash.h), as a Python object. */
#include "bind/rooms.h"

typedef struct keys {
    PLB_PY_HEAD plb_keys_t core;
    PyArrayObject *array; /* the array with the keys, owned */
} keys_t;

static int keys_init(keys_t *self, plb_py_call_t *c)
{
    PyObject *keys;
    PLB_PY_PASS(plb_py_parse(c, &keys));
    PLB_PY_REFUSE_IF(!PyArray_Check(keys), PyExc_TypeError, "keys: expected an array");
    const int64_t n = PyArray_SIZE((PyArrayObject *)keys);
    const int64_t *key = plb_py_in_place(keys, "keys", NPY_INT64, n);
    PLB_PY_PASS(key == NULL);
    self->array = (PyArrayObject *)Py_NewRef(keys);
    return plb_py_check(c, PLB_PY_UNLOCKED(c, plb_keys_over(&self->core, key, n, &c->err)));
}

static void keys_fini(keys_t *self)
{
    plb_keys_free(&self->core);
    Py_XDECREF(self->array);
}

PLB_PY_METHOD1(keys, find, key, "Return the index of a key, or -1.")
{
    const long long wanted = PyLong_AsLongLong(key);
    PLB_PY_TRY(PyErr_Occurred());
    return PyLong_FromLong(plb_keys_find(&self->core, wanted));
}

static void find_each(const plb_keys_t *self, const int64_t *key, int64_t n, int32_t *place)
{
    for (int64_t i = 0; i < n; i++) {
        place[i] = plb_keys_find(self, key[i]);
    }
}

PLB_PY_METHOD(keys, places, "keys:i8", "Return the index of each key, or -1.")
{
    const int64_t *key;
    int64_t n = -1;
    int32_t *place;
    PLB_PY_TRY(plb_py_parse(c, &key, &n));
    PLB_PY_GET(place = plb_py_new(c, NPY_INT32, n));
    PLB_PY_ASIDE(c, find_each(&self->core, key, n, place));
    return plb_py_out(c, place);
}

static Py_ssize_t keys_length(PyObject *object)
{
    return (Py_ssize_t)((keys_t *)object)->core.n;
}

static PyMethodDef keys_methods[] = PLB_PY_METHODS(keys, find, places);

PLB_PY_TYPE(keys, "pylb._core.Keys", "keys:O",
            "Distinct keys, each of which has an index 0 ... n-1.  keys: a contiguous array of\n"
            "int64 that must not change.",
            {Py_sq_length, keys_length}, )

const plb_keys_t *plb_py_keys(PyObject *object)
{
    if (!PLB_PY_IS(keys, object)) {
        PyErr_SetString(PyExc_TypeError, "keys: expected pylb._core.Keys");
        return NULL;
    }
    return &((keys_t *)object)->core;
}

const plb_py_room_t plb_py_run_keys = {NULL, {&keys_spec}, NULL};

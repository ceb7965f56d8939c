/* Room machine: performance models, parts. */
#include "bind/views.h"

/* Models from three arrays; 0, or -1 with an exception. */
static int models_of(plb_py_held_t *held, PyObject *start, PyObject *rows, PyObject *speed,
                     plb_fpm_t *out)
{
    PyArrayObject *a = plb_py_hold(held, start, NPY_INT64, 1);
    PyArrayObject *b = a ? plb_py_hold(held, rows, NPY_FLOAT64, 1) : NULL;
    PyArrayObject *c = b ? plb_py_hold(held, speed, NPY_FLOAT64, 1) : NULL;
    if (c == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "start, rows, speed: expected arrays");
        }
        return -1;
    }
    const npy_intp p = PyArray_SIZE(a) - 1, points = PyArray_SIZE(b);
    *out = (plb_fpm_t){(int32_t)p, PyArray_DATA(a), PyArray_DATA(b), PyArray_DATA(c)};
    int ok = p >= 1 && p < INT32_MAX && PyArray_SIZE(c) == points && out->start[0] == 0 &&
             out->start[p] == points;
    for (npy_intp i = 0; ok && i < p; i++) {
        ok = out->start[i] <= out->start[i + 1];
    }
    if (!ok) {
        PyErr_SetString(PyExc_ValueError,
                        "start, rows, speed: expected start[p+1] that rises from "
                        "0 to the number of points, p >= 1");
    }
    return ok ? 0 : -1;
}

/* View of p entries, or NULL with an exception. */
static const void *column(plb_py_held_t *held, PyObject *object, int type, int32_t p,
                          const char *name)
{
    PyArrayObject *a = plb_py_hold(held, object, type, 1);
    if (a != NULL && PyArray_SIZE(a) == p) {
        return PyArray_DATA(a);
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%s: expected an array of %d, one for each rank", name,
                     (int)p);
    }
    return NULL;
}

PyDoc_STRVAR(fpm_check_doc,
             "fpm_check(start, rows, speed, /)\n--\n\nRaise for the first model that is none.");
static PyObject *fpm_check(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *rows, *speed;
    plb_py_held_t held = {0};
    plb_fpm_t models;
    plb_err_t err;
    if (PyArg_ParseTuple(args, "OOO", &start, &rows, &speed) &&
        models_of(&held, start, rows, speed, &models) == 0) {
        const int ret = plb_fpm_check(&models, &err);
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
        }
    }
    plb_py_release(&held);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(fpm_times_doc, "fpm_times(start, rows, speed, parts, /)\n--\n\n"
                            "Seconds that parts[p] rows take, by the models.");
static PyObject *fpm_times(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *rows, *speed, *parts, *out = NULL;
    plb_py_held_t held = {0};
    plb_fpm_t models;
    plb_err_t err;
    if (PyArg_ParseTuple(args, "OOOO", &start, &rows, &speed, &parts) &&
        models_of(&held, start, rows, speed, &models) == 0) {
        const double *d = column(&held, parts, NPY_FLOAT64, models.p, "parts");
        const int ret = d != NULL ? plb_fpm_check(&models, &err) : PLB_OK;
        npy_intp p = models.p;
        if (ret != PLB_OK) {
            plb_py_raise(ret, &err);
        } else if (d != NULL && (out = PyArray_SimpleNew(1, &p, NPY_FLOAT64)) != NULL) {
            plb_fpm_times(&models, d, PyArray_DATA((PyArrayObject *)out));
        }
    }
    plb_py_release(&held);
    return out;
}

static PyObject *updated(const plb_fpm_t *models, const int64_t *parts, const double *seconds)
{
    const size_t most = (size_t)(models->start[models->p] + models->p);
    int64_t *start = plb_malloc((size_t)models->p + 1, sizeof *start);
    double *rows = plb_malloc(most, sizeof *rows), *speed = plb_malloc(most, sizeof *speed);
    if (start == NULL || rows == NULL || speed == NULL) {
        plb_free(start);
        plb_free(rows);
        plb_free(speed);
        return PyErr_NoMemory();
    }
    plb_fpm_update(models, parts, seconds, start, rows, speed);
    const npy_intp n = (npy_intp)start[models->p];
    PyObject *a = plb_py_take(start, models->p + 1, NPY_INT64);
    PyObject *b = plb_py_take(rows, n, NPY_FLOAT64), *c = plb_py_take(speed, n, NPY_FLOAT64);
    PyObject *out = a && b && c ? PyTuple_Pack(3, a, b, c) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(c);
    return out;
}

PyDoc_STRVAR(fpm_update_doc,
             "fpm_update(start, rows, speed, parts, seconds, /)\n--\n\n"
             "(start, rows, speed) after each rank's parts[p] rows took seconds[p].");
static PyObject *fpm_update(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *rows, *speed, *parts, *seconds, *out = NULL;
    plb_py_held_t held = {0};
    plb_fpm_t models;
    if (PyArg_ParseTuple(args, "OOOOO", &start, &rows, &speed, &parts, &seconds) &&
        models_of(&held, start, rows, speed, &models) == 0) {
        const int64_t *d = column(&held, parts, NPY_INT64, models.p, "parts");
        const double *t = d ? column(&held, seconds, NPY_FLOAT64, models.p, "seconds") : NULL;
        if (t != NULL) {
            out = updated(&models, d, t);
        }
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(fpm_split_doc,
             "fpm_split(start, rows, speed, n, /)\n--\n\n"
             "Integer parts[p] of n rows that end at the same time, and when the exact ones do.");
static PyObject *fpm_split(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *rows, *speed, *out = NULL;
    long long n;
    plb_py_held_t held = {0};
    plb_fpm_t models;
    plb_err_t err;
    if (PyArg_ParseTuple(args, "OOOL", &start, &rows, &speed, &n) &&
        models_of(&held, start, rows, speed, &models) == 0) {
        npy_intp p = models.p;
        PyObject *parts = PyArray_SimpleNew(1, &p, NPY_INT64);
        int64_t *d = parts ? PyArray_DATA((PyArrayObject *)parts) : NULL;
        double seconds = 0.0;
        int ret = PLB_OK;
        if (d != NULL) {
            Py_BEGIN_ALLOW_THREADS;
            ret = plb_fpm_check(&models, &err);
            ret = ret == PLB_OK ? plb_fpm_split(&models, n, d, &seconds, &err) : ret;
            Py_END_ALLOW_THREADS;
            out = ret == PLB_OK ? Py_BuildValue("Od", parts, seconds) : plb_py_raise(ret, &err);
        }
        Py_XDECREF(parts);
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(apportion_doc, "apportion(share, n, /)\n--\n\n"
                            "Integers proportional to share[p] that add up to n: the largest\n"
                            "remainder, of equal ones the lowest index.");
static PyObject *apportion(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *share, *out = NULL;
    long long n;
    plb_py_held_t held = {0};
    plb_err_t err;
    PyArrayObject *a = NULL;
    if (PyArg_ParseTuple(args, "OL", &share, &n)) {
        a = plb_py_hold(&held, share, NPY_FLOAT64, 1);
    }
    if (a != NULL && PyArray_SIZE(a) > 0 && n >= 0 && n <= PLB_FPM_MOST_ROWS) {
        npy_intp p = PyArray_SIZE(a);
        out = PyArray_SimpleNew(1, &p, NPY_INT64);
        const int ret = out == NULL ? PLB_OK
                                    : plb_apportion(PyArray_DATA(a), (int32_t)p, n,
                                                    PyArray_DATA((PyArrayObject *)out), &err);
        if (ret != PLB_OK) {
            Py_CLEAR(out);
            plb_py_raise(ret, &err);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "share, n: expected an array and a number 0 ... %lld",
                     PLB_FPM_MOST_ROWS);
    }
    plb_py_release(&held);
    return out;
}

/* share[p] and column[p], or NULL with an exception. */
static const double *shares_of(plb_py_held_t *held, PyObject *share, PyObject *columns,
                               const int32_t **column_of, int32_t *p)
{
    PyArrayObject *a = plb_py_hold(held, share, NPY_FLOAT64, 1);
    if (a == NULL || PyArray_SIZE(a) < 1 || PyArray_SIZE(a) > INT32_MAX - 1) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "share: expected an array, one for each rank");
        }
        return NULL;
    }
    *p = (int32_t)PyArray_SIZE(a);
    if (columns != NULL) {
        *column_of = column(held, columns, NPY_INT32, *p, "column");
        if (*column_of == NULL) {
            return NULL;
        }
    }
    return PyArray_DATA(a);
}

PyDoc_STRVAR(
    rectangles_columns_doc,
    "rectangles_columns(share, rows, cols, column=None, /)\n--\n\n"
    "(column[p], perimeter): columns whose half perimeters are the least, or those given.");
static PyObject *rectangles_columns(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *share, *given = Py_None, *out = NULL;
    double rows, cols, perimeter = 0.0;
    const int32_t *old = NULL;
    int32_t p;
    plb_py_held_t held = {0};
    plb_err_t err;
    if (PyArg_ParseTuple(args, "Odd|O", &share, &rows, &cols, &given)) {
        const double *s = shares_of(&held, share, given == Py_None ? NULL : given, &old, &p);
        npy_intp n = p;
        out = s ? PyArray_SimpleNew(1, &n, NPY_INT32) : NULL;
        if (out != NULL) {
            int32_t *c = PyArray_DATA((PyArrayObject *)out);
            if (old != NULL) {
                memcpy(c, old, (size_t)p * sizeof *c);
            }
            const int ret = old ? plb_rectangles_perimeter(s, c, p, rows, cols, &perimeter, &err)
                                : plb_rectangles_columns(s, p, rows, cols, c, &perimeter, &err);
            PyObject *columns = out;
            out =
                ret == PLB_OK ? Py_BuildValue("Od", columns, perimeter) : plb_py_raise(ret, &err);
            Py_DECREF(columns);
        }
    }
    plb_py_release(&held);
    return out;
}

PyDoc_STRVAR(rectangles_place_doc, "rectangles_place(share, column, rows, cols, /)\n--\n\n"
                                   "Box[p, 4]: first row and end, first column and end.");
static PyObject *rectangles_place(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *share, *columns, *out = NULL;
    long long rows, cols;
    const int32_t *c = NULL;
    int32_t p;
    plb_py_held_t held = {0};
    plb_err_t err;
    if (PyArg_ParseTuple(args, "OOLL", &share, &columns, &rows, &cols)) {
        const double *s = shares_of(&held, share, columns, &c, &p);
        npy_intp shape[2] = {p, 4};
        out = s ? PyArray_SimpleNew(2, shape, NPY_INT64) : NULL;
        if (out != NULL) {
            const int ret = plb_rectangles_place(s, c, p, rows, cols,
                                                 PyArray_DATA((PyArrayObject *)out), &err);
            if (ret != PLB_OK) {
                Py_CLEAR(out);
                plb_py_raise(ret, &err);
            }
        }
    }
    plb_py_release(&held);
    return out;
}

/* (speed, error, sigma, explained, moved) of checked views. */
static PyObject *fitted(const int64_t *start, npy_intp n, const int32_t *rank,
                        const double *seconds, const double *weight, npy_intp p)
{
    PyObject *speed = PyArray_SimpleNew(1, &p, NPY_FLOAT64);
    PyObject *error = PyArray_SimpleNew(1, &p, NPY_FLOAT64), *out = NULL;
    plb_speeds_t fit;
    plb_err_t err;
    if (speed != NULL && error != NULL) {
        double *s = PyArray_DATA((PyArrayObject *)speed);
        double *e = PyArray_DATA((PyArrayObject *)error);
        int ret;
        Py_BEGIN_ALLOW_THREADS;
        ret = plb_speeds_fit(n, start, rank, seconds, weight, (int32_t)p, s, e, &fit, &err);
        Py_END_ALLOW_THREADS;
        out = ret == PLB_OK ? Py_BuildValue("OOddL", speed, error, fit.sigma, fit.explained,
                                            (long long)fit.moved)
                            : plb_py_raise(ret, &err);
    }
    Py_XDECREF(speed);
    Py_XDECREF(error);
    return out;
}

PyDoc_STRVAR(speeds_fit_doc,
             "speeds_fit(start, rank, seconds, weight, n_ranks, /)\n--\n\n"
             "(speed, error, sigma, explained, moved): of object o the observations start[o] to\n"
             "start[o+1] on rank, in seconds; weight may be None.");
static PyObject *speeds_fit(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *start, *rank, *seconds, *weight, *out = NULL;
    int p;
    plb_py_held_t held = {0};
    if (PyArg_ParseTuple(args, "OOOOi", &start, &rank, &seconds, &weight, &p)) {
        PyArrayObject *a = plb_py_hold(&held, start, NPY_INT64, 1);
        PyArrayObject *b = a ? plb_py_hold(&held, rank, NPY_INT32, 1) : NULL;
        const npy_intp n = a ? PyArray_SIZE(a) - 1 : -1, m = b ? PyArray_SIZE(b) : 0;
        const int64_t *at = a ? PyArray_DATA(a) : NULL;
        const double *t = b ? column(&held, seconds, NPY_FLOAT64, (int32_t)m, "seconds") : NULL;
        const double *w = NULL;
        if (t != NULL && weight != Py_None) {
            w = column(&held, weight, NPY_FLOAT64, (int32_t)m, "weight");
        }
        int ok = n >= 0 && p >= 1 && at != NULL && at[0] == 0 && at[n] == m;
        for (npy_intp o = 0; ok && o < n; o++) {
            ok = at[o] <= at[o + 1];
        }
        if (!PyErr_Occurred() && !ok) {
            PyErr_SetString(PyExc_ValueError, "start: expected to rise from 0 to the number of "
                                              "observations; n_ranks: 1 or more");
        }
        if (!PyErr_Occurred()) {
            out = fitted(at, n, PyArray_DATA(b), t, w, p);
        }
    }
    plb_py_release(&held);
    return out;
}

static PyMethodDef methods[] = {
    {"fpm_check", fpm_check, METH_VARARGS, fpm_check_doc},
    {"fpm_times", fpm_times, METH_VARARGS, fpm_times_doc},
    {"fpm_update", fpm_update, METH_VARARGS, fpm_update_doc},
    {"fpm_split", fpm_split, METH_VARARGS, fpm_split_doc},
    {"speeds_fit", speeds_fit, METH_VARARGS, speeds_fit_doc},
    {"apportion", apportion, METH_VARARGS, apportion_doc},
    {"rectangles_columns", rectangles_columns, METH_VARARGS, rectangles_columns_doc},
    {"rectangles_place", rectangles_place, METH_VARARGS, rectangles_place_doc},
    {0},
};

int plb_py_add_machine(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}

/* Python binding of csrc/replay/protocol.h: the simulation of the consensus protocol. */
#include "bind/convert.h"
#include "bind/rooms.h"

#include "replay/protocol.h"

#define X(name, type, value, unit, help) PLB_PY_FIELD(plb_protocol_t, name),
static const plb_py_field_t params[] = {PLB_PROTOCOL_PARAMS(X){0}};
#undef X
#define X(name, type, unit, help) PLB_PY_FIELD(plb_protocol_result_t, name),
static const plb_py_field_t results[] = {PLB_PROTOCOL_RESULTS(X){0}};
#undef X

PLB_PY_FN0(protocol_params, "Return (name, default, unit, help) of every parameter, in order.")
{
#define X(name, type, value, unit, help) {#name, unit, help},
    static const plb_py_help_row_t rows[] = {PLB_PROTOCOL_PARAMS(X)};
#undef X
    plb_protocol_t defaults;
    plb_protocol_defaults(&defaults);
    PyObject *out = PyList_New(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plb_py_append(&out,
                      Py_BuildValue("sNss", rows[i].name, plb_py_value(&params[i], &defaults),
                                    rows[i].unit, rows[i].help));
    }
    return out;
}

PLB_PY_FN1(protocol, values,
           "Simulate the protocol.  values: in the order of protocol_params().  Returns results\n"
           "by name, and (asked, tentative, final, root, known, balanced) of each decision.")
{
    static const plb_py_field_t decision[] =
        PLB_PY_FIELDS(plb_protocol_decision_t, asked, tentative, final, root, known, balanced);
    plb_protocol_t in;
    plb_protocol_result_t out;
    plb_protocol_defaults(&in);
    PLB_PY_TRY(plb_py_fill(c, params, values, &in));
    PyObject *answer = PLB_PY_UNLOCKED(c, plb_protocol_run(&in, &out, &c->err))
                           ? plb_py_fail(c)
                           : Py_BuildValue("NN", plb_py_dict(results, &out),
                                           plb_py_rows(decision, out.decision, out.n_decisions,
                                                       sizeof *out.decision));
    plb_protocol_result_free(&out);
    return answer;
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, protocol_params, protocol);

const plb_py_room_t plb_py_replay_protocol = {methods, {NULL}, NULL};

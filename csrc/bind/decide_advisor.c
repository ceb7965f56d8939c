/* Python binding of decide/advisor.h and decide/steps.h. */
#include "bind/convert.h"
#include "bind/rooms.h"
#include "decide/advisor.h"
#include "decide/steps.h"

typedef struct advisor {
    PLB_PY_HEAD plb_advisor_t core;
    PyObject *decider; /* owned: `core` borrows it */
} advisor_t;

static int advisor_init(advisor_t *self, plb_py_call_t *c)
{
    PyObject *decider;
    bool places;
    double share = 1.0;
    PLB_PY_PASS(plb_py_parse(c, &decider, &places, &share));
    plb_decider_t *core = plb_py_decider(decider);
    PLB_PY_PASS(core == NULL);
    self->decider = Py_NewRef(decider);
    plb_advisor_init(&self->core, core, places);
    self->core.share = share;
    return 0;
}

static void advisor_fini(advisor_t *self)
{
    Py_XDECREF(self->decider);
}

/* Read a record from a tuple of plb_py_stats, which has rounded the exact sums. */
static int record_of(plb_py_call_t *c, PyObject *tuple, plb_stats_t *out)
{
    double load, idle;
    bool mixed;
    plb_stats_init(out);
    PLB_PY_PASS(plb_py_items(
        c, tuple,
        "kind:l iteration:l arguments:l n_ranks:l n_objects:l n_changed:l n_ended:l "
        "n_rebalanced:l load_sum:d idle_sum:d load_max:d load_min:d load_max_rank:l "
        "utilization_min:d messages:l message_bytes:l messages_open:l time_max:d cost_max:d "
        "failed_rank:l mixed:p",
        &out->kind, &out->iteration, &out->arguments, &out->n_ranks, &out->n_objects,
        &out->n_changed, &out->n_ended, &out->n_rebalanced, &load, &idle, &out->load_max,
        &out->load_min, &out->load_max_rank, &out->utilization_min, &out->messages,
        &out->message_bytes, &out->messages_open, &out->time_max, &out->cost_max,
        &out->failed_rank, &mixed));
    plb_exact_add(&out->load_sum, load);
    plb_exact_add(&out->idle_sum, idle);
    return 0;
}

PLB_PY_METHOD(advisor, observe, "record:O now:l may_preview:p seconds:d",
              "Observe a step.  record: its merged statistics; now: number of the step that has\n"
              "just ended (with a lag, later); seconds: its length on this rank.  Returns\n"
              "NOTHING, PREVIEW or BALANCE of ASKS.")
{
    PyObject *tuple;
    int64_t now;
    bool may_preview;
    double seconds;
    plb_stats_t all;
    plb_iteration_t it;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PY_TRY(plb_py_parse(c, &tuple, &now, &may_preview, &seconds));
    PLB_PY_TRY(record_of(c, tuple, &all));
    const plb_advisor_outcome_t outcome = {all.cost_max, all.n_rebalanced};
    plb_advisor_iteration(&all, &it);
    plb_wait_check_observe(&self->core.waiting, &all, seconds);
    return PLB_PY_OR(
        c, plb_advisor_observe(&self->core, &it, &outcome, now, may_preview, &ask, &c->err),
        PyLong_FromLong(ask));
}

PLB_PY_METHOD(advisor, previewed, "gain:d now:l",
              "Set the result of `Decider.preview`, on all ranks.  Returns NOTHING or BALANCE.")
{
    double gain;
    int64_t now;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PY_TRY(plb_py_parse(c, &gain, &now));
    return PLB_PY_OR(c, plb_advisor_previewed(&self->core, gain, now, &ask, &c->err),
                     PyLong_FromLong(ask));
}

PLB_PY_METHOD(advisor, placed, "figures:f8@ speed:f8@? migrations:l bytes:l",
              "Set the plan of the LB step that is due; call it on all ranks.  figures, speed:\n"
              "as filled by `Decider.place`.  If there are no migrations, the LB step is over.")
{
    const double *figures, *speed;
    int64_t n = sizeof(plb_placing_t) / sizeof(double), p = self->core.decider->opt.n_ranks;
    int64_t migrations, bytes;
    plb_placing_t placing;
    PLB_PY_TRY(plb_py_parse(c, &figures, &n, &speed, &p, &migrations, &bytes));
    memcpy(&placing, figures, sizeof placing);
    return PLB_PY_NONE(
        c, plb_advisor_placed(&self->core, &placing, speed, migrations, bytes, &c->err));
}

PLB_PY_METHOD0(advisor, abandon, "Cancel the LB step that is due, after a failure.")
{
    plb_advisor_abandon(&self->core);
    Py_RETURN_NONE;
}

PLB_PY_METHOD0(advisor, judge,
               "Write into the receipt of the most recent LB step how much it has saved so far.")
{
    return PLB_PY_NONE(c, plb_advisor_judge(&self->core, &c->err));
}

static PyMethodDef advisor_methods[] =
    PLB_PY_METHODS(advisor, observe, previewed, placed, abandon, judge);

#define ADVISOR(X)                                                                                \
    X(advisor, n_ignored, PyLong_FromLongLong(self->core.n_ignored),                              \
      "Number of advised LB steps that no rank carried out.")                                     \
    X(advisor, waits,                                                                             \
      self->core.waiting.noticed ? PyUnicode_FromString(plb_wait_check_words)                     \
                                 : Py_NewRef(Py_None),                                            \
      "What to tell the user if the loads contain waiting for other ranks; None: they do not.")
PLB_PY_PROPERTIES(advisor, ADVISOR)

PLB_PY_TYPE(advisor, "pylb._core.Advisor", "decider:O places:p share:d=1.0",
            "Drives a `Decider` for a program that moves its data itself; csrc/decide/advisor.h\n"
            "says how.  places: whether the decider plans where data go, or only when they move.",
            {Py_tp_getset, advisor_getset}, )

typedef struct steps {
    PLB_PY_HEAD plb_steps_t core;
    plb_reduction_t alone; /* reductions of a single rank, used if there is only one rank */
    PyObject *reduction;   /* the capsule with the reductions of all ranks, or None */
} steps_t;

const plb_reduction_t *plb_py_reduction(plb_py_call_t *c, PyObject *capsule,
                                        plb_reduction_t *alone, int depth)
{
    if (capsule != Py_None) {
        return PyCapsule_GetPointer(capsule, PLB_PY_REDUCTION);
    }
    PLB_PY_TRY(plb_py_check(c, plb_reduction_alone(alone, depth, &c->err)));
    return alone;
}

static int steps_init(steps_t *self, plb_py_call_t *c)
{
    PyObject *reduction;
    int32_t lag;
    PLB_PY_PASS(plb_py_parse(c, &reduction, &lag));
    self->reduction = Py_NewRef(reduction);
    const plb_reduction_t *net = plb_py_reduction(c, reduction, &self->alone, lag + 2);
    PLB_PY_PASS(net == NULL);
    return plb_py_check(c, plb_steps_init(&self->core, net, lag, &c->err));
}

static void steps_fini(steps_t *self)
{
    plb_reduction_alone_free(&self->alone);
    Py_XDECREF(self->reduction);
}

static int64_t nanoseconds(double seconds)
{
    return seconds < 0.0 ? -1 : (int64_t)(1e9 * seconds);
}

PLB_PY_METHOD1(steps, begin, sample,
               "Contribute this rank's sample (csrc/bind/rooms.h) to the next step.  Never waits.")
{
    plb_stats_t mine;
    PLB_PY_TRY(plb_py_sample(sample, self->core.net->rank, &mine));
    return PLB_PY_NONE(c, plb_steps_begin(&self->core, &mine, &c->err));
}

PLB_PY_METHOD1(steps, end, sample,
               "Leave: contribute a final sample.  Then take the records under way, by next().")
{
    plb_stats_t mine;
    PLB_PY_TRY(plb_py_sample(sample, self->core.net->rank, &mine));
    mine.n_ended = 1;
    return PLB_PY_NONE(c, plb_steps_begin(&self->core, &mine, &c->err));
}

typedef int (*take_fn)(plb_steps_t *, int64_t, plb_tick_fn, void *, bool *, plb_err_t *);

static PyObject *taken(steps_t *self, plb_py_call_t *c, take_fn take)
{
    bool have = false;
    double seconds;
    PLB_PY_TRY(plb_py_parse(c, &seconds));
    PLB_PY_RUN(c, take(&self->core, nanoseconds(seconds), plb_py_tick, &c->state, &have, &c->err));
    return have ? plb_py_stats(&self->core.all) : Py_NewRef(Py_None);
}

PLB_PY_METHOD(steps, take, "seconds:d",
              "Return the record that is due.  Return None if none is due, or if the record did\n"
              "not arrive within `seconds` (negative: no limit).")
{
    return taken(self, c, plb_steps_take);
}

PLB_PY_METHOD(
    steps, next, "seconds:d",
    "Return the oldest record under way, even if it is not due.  Return None if none is\n"
    "under way, or if the record did not arrive within `seconds` (negative: no limit).")
{
    return taken(self, c, plb_steps_next);
}

PLB_PY_METHOD(steps, leave, "sample:O seconds:d",
              "Contribute a final sample (None: contribute nothing), and wait until no\n"
              "record is under way, for at most `seconds` (negative: no limit).  Returns True if\n"
              "none is under way; False if the time is over: call leave() again, with None.")
{
    PyObject *sample;
    double seconds;
    plb_stats_t mine;
    bool done = false;
    PLB_PY_TRY(plb_py_parse(c, &sample, &seconds));
    plb_stats_t *last = sample == Py_None ? NULL : &mine;
    PLB_PY_TRY(last != NULL && plb_py_sample(sample, self->core.net->rank, last) != 0);
    mine.n_ended = 1;
    PLB_PY_RUN(c, plb_steps_leave(&self->core, last, nanoseconds(seconds), plb_py_tick, &c->state,
                                  &done, &c->err));
    return PyBool_FromLong(done);
}

static PyMethodDef steps_methods[] = PLB_PY_METHODS(steps, begin, end, take, next, leave);

#define STEPS(X)                                                                                  \
    X(steps, under_way, PyLong_FromLongLong(plb_steps_under_way(&self->core)),                    \
      "Number of records that were begun but not taken.")                                         \
    X(steps, broken, PyBool_FromLong(plb_steps_broken(&self->core)),                              \
      "Whether the steps have ended: ranks are in different steps, a rank has failed, or some "   \
      "ranks (not all) have left.")
PLB_PY_PROPERTIES(steps, STEPS)

PLB_PY_TYPE(steps, "pylb._core.Steps", "reduction:O lag:i",
            "The merged records of all ranks, each available `lag` steps later.  reduction: from\n"
            "pylb._mpi.Comm.reduction; None: there is only one rank.  See csrc/decide/steps.h.",
            {Py_tp_getset, steps_getset}, )

PLB_PY_FN(load_sum, "loads:f8", "Return the sum of loads[n], each 0 ... 1e30 seconds.")
{
    const double *loads;
    int64_t n = -1;
    double sum = 0.0;
    PLB_PY_TRY(plb_py_parse(c, &loads, &n));
    return PLB_PY_OR(c, plb_advisor_load(loads, n, &sum, &c->err), PyFloat_FromDouble(sum));
}

static PyMethodDef methods[] = PLB_PY_METHODS(fn, load_sum);

const plb_py_room_t plb_py_decide_advisor = {methods, {&advisor_spec, &steps_spec}, NULL};

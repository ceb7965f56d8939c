/* Python binding of decide/advisor.h and decide/advisor.h. */
#include "bind/convert.h"
#include "bind/rooms.h"
#include "decide/advisor.h"

typedef struct advisor {
    PLB_PY_HEAD plb_advisor_t core;
    PyObject *decider; /* owned: `core` borrows it */
} advisor_t;

static int advisor_init(advisor_t *self, plb_py_call_t *c)
{
    PyObject *decider;
    bool places, untold = false;
    double share = 1.0;
    PLB_PASS(PLB_READ(c, PLB_ONE(&decider), PLB_ONE(&places), PLB_ONE(&share), PLB_ONE(&untold)));
    plb_decider_t *core = plb_py_decider(decider);
    PLB_PASS(core == NULL);
    self->decider = Py_NewRef(decider);
    plb_advisor_init(&self->core, core, places);
    self->core.share = share;
    self->core.untold = untold;
    return 0;
}

static void advisor_fini(advisor_t *self)
{
    Py_XDECREF(self->decider);
}

PLB_PY_DEF(advisor, observe, "record now may_preview seconds",
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
    PLB_PASS(
        PLB_READ(c, PLB_ONE(&tuple), PLB_ONE(&now), PLB_ONE(&may_preview), PLB_ONE(&seconds)));
    PLB_PASS(plb_py_record(c, tuple, &all));
    const plb_advisor_outcome_t outcome = {all.cost_max, all.n_rebalanced};
    plb_advisor_iteration(&all, &it);
    plb_wait_check_observe(&self->core.waiting, &all, seconds);
    PLB_PASS(plb_advisor_observe(&self->core, &it, &outcome, now, may_preview, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

PLB_PY_DEF(advisor, previewed, "gain now",
           "Set the result of `Decider.preview`, on all ranks.  Returns NOTHING or BALANCE.")
{
    double gain;
    int64_t now;
    plb_ask_t ask = PLB_ASK_NOTHING;
    PLB_PASS(PLB_READ(c, PLB_ONE(&gain), PLB_ONE(&now)));
    PLB_PASS(plb_advisor_previewed(&self->core, gain, now, &ask, &c->err));
    return plb_py_answer(c, PyLong_FromLong(ask));
}

PLB_PY_DEF(advisor, placed, "figures:@ speed:@? migrations bytes",
           "Set the plan of the LB step that is due; call it on all ranks.  figures, speed:\n"
           "as filled by `Decider.place`.  If there are no migrations, the LB step is over.")
{
    const double *figures, *speed;
    int64_t n = sizeof(plb_placing_t) / sizeof(double), p = self->core.decider->opt.n_ranks;
    int64_t migrations, bytes;
    plb_placing_t placing;
    PLB_PASS(PLB_READ(c, PLB_MANY(&figures, &n), PLB_MANY(&speed, &p), PLB_ONE(&migrations),
                      PLB_ONE(&bytes)));
    memcpy(&placing, figures, sizeof placing);
    return plb_advisor_placed(&self->core, &placing, speed, migrations, bytes, &c->err);
}

PLB_PY_DEF(advisor, abandon, "", "Cancel the LB step that is due, after a failure.")
{
    plb_advisor_abandon(&self->core);
    return PLB_OK;
}

PLB_PY_DEF(advisor, judge, "",
           "Write into the receipt of the most recent LB step how much it has saved so far.")
{
    return plb_advisor_judge(&self->core, &c->err);
}

static const plb_py_def_t *const advisor_methods[] = {
    &advisor_observe, &advisor_previewed, &advisor_placed, &advisor_abandon, &advisor_judge, NULL};

#define ADVISOR(X)                                                                                \
    X(advisor, n_ignored, PyLong_FromLongLong(self->core.n_ignored),                              \
      "Number of advised LB steps that no rank carried out.")                                     \
    X(advisor, waits,                                                                             \
      self->core.waiting.noticed ? PyUnicode_FromString(plb_wait_check_words)                     \
                                 : Py_NewRef(Py_None),                                            \
      "What to tell the user if the loads contain waiting for other ranks; None: they do not.")
PLB_PY_PROPERTIES(advisor, ADVISOR)

PLB_PY_TYPE(
    advisor, "pylb._core.Advisor", "decider places share=1.0 untold=False",
    "Drives a `Decider` for a program that moves its data itself; csrc/decide/advisor.h\n"
    "says how.  places: whether the decider plans where data go, or only when they move; untold:\n"
    "whether the program may move them without a report.",
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
        return PyCapsule_GetPointer(capsule, plb_py_reduction_name);
    }
    return plb_reduction_alone(alone, depth, &c->err) == PLB_OK ? alone : NULL;
}

static int steps_init(steps_t *self, plb_py_call_t *c)
{
    PyObject *reduction;
    int32_t lag;
    PLB_PASS(PLB_READ(c, PLB_ONE(&reduction), PLB_ONE(&lag)));
    self->reduction = Py_NewRef(reduction);
    const plb_reduction_t *net = plb_py_reduction(c, reduction, &self->alone, lag + 2);
    PLB_PASS(net == NULL);
    return plb_steps_init(&self->core, net, lag, &c->err);
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

PLB_PY_DEF(steps, begin, "!sample",
           "Contribute this rank's sample (csrc/bind/rooms.h) to the next step.  Never waits.")
{
    plb_stats_t mine;
    PLB_PASS(plb_py_sample(c->arg, self->core.net->rank, &mine));
    return plb_steps_begin(&self->core, &mine, &c->err);
}

PLB_PY_DEF(steps, end, "!sample",
           "Leave: contribute a final sample.  Then take the records under way, by next().")
{
    plb_stats_t mine;
    PLB_PASS(plb_py_sample(c->arg, self->core.net->rank, &mine));
    mine.n_ended = 1;
    return plb_steps_begin(&self->core, &mine, &c->err);
}

typedef int (*take_fn)(plb_steps_t *, int64_t, plb_tick_fn, void *, bool *, plb_err_t *);

static int taken(steps_t *self, plb_py_call_t *c, take_fn take)
{
    bool have = false;
    double seconds;
    PLB_PASS(PLB_READ(c, PLB_ONE(&seconds)));
    PLB_PASS(PLB_PY_UNLOCKED(
        c, take(&self->core, nanoseconds(seconds), plb_py_tick, &c->state, &have, &c->err)));
    return have ? plb_py_answer(c, plb_py_stats(&self->core.all)) : PLB_OK;
}

PLB_PY_DEF(steps, take, "seconds",
           "Return the record that is due.  Return None if none is due, or if the record did\n"
           "not arrive within `seconds` (negative: no limit).")
{
    return taken(self, c, plb_steps_take);
}

PLB_PY_DEF(steps, next, "seconds",
           "Return the oldest record under way, even if it is not due.  Return None if none is\n"
           "under way, or if the record did not arrive within `seconds` (negative: no limit).")
{
    return taken(self, c, plb_steps_next);
}

PLB_PY_DEF(steps, leave, "sample seconds",
           "Contribute a final sample (None: contribute nothing), and wait until no\n"
           "record is under way, for at most `seconds` (negative: no limit).  Returns True if\n"
           "none is under way; False if the time is over: call leave() again, with None.")
{
    PyObject *sample;
    double seconds;
    plb_stats_t mine;
    bool done = false;
    PLB_PASS(PLB_READ(c, PLB_ONE(&sample), PLB_ONE(&seconds)));
    plb_stats_t *last = sample == Py_None ? NULL : &mine;
    PLB_PASS(last != NULL && plb_py_sample(sample, self->core.net->rank, last) != 0);
    mine.n_ended = 1;
    PLB_PASS(PLB_PY_UNLOCKED(c, plb_steps_leave(&self->core, last, nanoseconds(seconds),
                                                plb_py_tick, &c->state, &done, &c->err)));
    return plb_py_answer(c, PyBool_FromLong(done));
}

static const plb_py_def_t *const steps_methods[] = {&steps_begin, &steps_end,   &steps_take,
                                                    &steps_next,  &steps_leave, NULL};

#define STEPS(X)                                                                                  \
    X(steps, under_way, PyLong_FromLongLong(plb_steps_under_way(&self->core)),                    \
      "Number of records that were begun but not taken.")                                         \
    X(steps, broken, PyBool_FromLong(plb_steps_broken(&self->core)),                              \
      "Whether the steps have ended: ranks are in different steps, a rank has failed, or some "   \
      "ranks (not all) have left.")
PLB_PY_PROPERTIES(steps, STEPS)

PLB_PY_TYPE(steps, "pylb._core.Steps", "reduction lag",
            "The merged records of all ranks, each available `lag` steps later.  reduction: from\n"
            "pylb._mpi.Comm.reduction; None: there is only one rank.  See csrc/decide/advisor.h.",
            {Py_tp_getset, steps_getset}, )

PLB_PY_DEF(fn, load_sum, "loads", "Return the sum of loads[n], each 0 ... 1e30 seconds.")
{
    const double *loads;
    int64_t n = -1;
    double sum = 0.0;
    PLB_PASS(PLB_READ(c, PLB_MANY(&loads, &n)));
    PLB_PASS(plb_advisor_load(loads, n, &sum, &c->err));
    return plb_py_answer(c, PyFloat_FromDouble(sum));
}

static const plb_py_def_t *const methods[] = {&fn_load_sum, NULL};

const plb_py_room_t plb_py_decide_advisor = {methods, {&advisor_spec, &steps_spec}, NULL};

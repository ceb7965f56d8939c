/* Has the last LB step achieved what it predicted?  The first LB step cannot if ranks
 * differ in speed.
 *
 * Says when to look why iterations take longer than the last LB step predicted.  The reason may
 * be that ranks have different speeds, or that one has just changed its speed; a strategy
 * cannot see this from seconds alone.  A look costs about as much as an LB step without
 * migrations, so it takes place only after eight times that time has been lost.  While the
 * prediction stays wrong, the distance between looks doubles each time: if the reason is a
 * different one (noise, work that changes all the time), the cost of looks grows only with the
 * logarithm of the run.  A look comes at once when the imbalance is worse than at the last one.
 *
 * A state machine without input or output, like a trigger.
 */
#ifndef PLB_DECIDE_PROMISE_H
#define PLB_DECIDE_PROMISE_H

#include <stdbool.h>

typedef struct plb_promise {
    double predicted; /* max/mean; INFINITY before the first LB step */
    double price;     /* seconds of a look */
    double since;     /* iterations since the last LB step or look */
    double lost;      /* seconds since then that iterations took beyond the prediction */
    double last;      /* max/mean of the iteration before */
    double looks;
    double level; /* max/mean at the last look */
} plb_promise_t;

void plb_promise_init(plb_promise_t *self);

/** Observe an iteration (load of the slowest rank, mean load); return whether a look is due. */
bool plb_promise_observe(plb_promise_t *self, double max, double mean);

/** Whether the last look found an imbalance far above the promise: the loads have changed
 * abruptly, or the LB step had wrong loads. */
bool plb_promise_is_void(const plb_promise_t *self);

/** Begin again, after an LB step that predicts max/mean `predicted`; a look costs `price` seconds.
 */
void plb_promise_balanced(plb_promise_t *self, double predicted, double price);

#endif

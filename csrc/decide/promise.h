/* Has the last LB step achieved what it predicted (its "promise")?
 *
 * If iterations take longer than the last LB step predicted, a "preview" (plb_decider_preview)
 * checks whether a new placement would save time.  It would, for example, if ranks have different
 * speeds, or if a rank has just changed its speed: the strategy could not see this from the loads
 * alone.  This file says when a preview is due.
 *
 * A preview costs about as much as an LB step without migrations (`price`).  So it is due when the
 * time lost since the last LB step or preview is eight times this price.  While the prediction
 * stays wrong, there is also a pause between two previews, which doubles from preview to preview.
 * So if no new placement helps (noise, or work that changes all the time), the cost of previews
 * grows only with the logarithm of the run's length.  If the imbalance becomes worse than at the
 * last preview, the next preview needs no pause, and the doubling starts again.
 *
 * Example: an LB step predicts max/mean 1.05, but iterations have a mean of 1 s and a maximum of
 * 1.3 s.  Each loses 0.25 s.  If a preview costs 0.1 s, it is due after 4 iterations. */
#pragma once

#include <stdbool.h>

typedef struct plb_promise {
    double predicted;  /* max/mean; INFINITY before the first LB step */
    double price;      /* seconds of a preview */
    double since;      /* iterations since the last LB step or preview */
    double lost;       /* seconds by which these iterations were longer than predicted */
    double last;       /* max/mean of the previous iteration */
    double n_previews; /* previews since the doubling of the pause last started */
    double level;      /* max/mean at the last preview */
} plb_promise_t;

void plb_promise_init(plb_promise_t *self);

/** Observe an iteration's largest and mean load, in seconds; return whether a preview is due. */
bool plb_promise_observe(plb_promise_t *self, double max, double mean);

/** Whether the imbalance at the last preview was far above the predicted one: the loads have
 * changed abruptly, or the LB step was based on wrong loads. */
bool plb_promise_is_void(const plb_promise_t *self);

/** Record an LB step that predicts max/mean `predicted`.  price: seconds of a preview. */
void plb_promise_balanced(plb_promise_t *self, double predicted, double price);

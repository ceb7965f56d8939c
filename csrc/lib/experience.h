/* The experience file: what the runs of programs have learned, for their next runs.
 *
 * JSON, a line for each run, which its end appends: so runs that end at once disturb nobody.  The
 * last line of a program counts; it has what earlier runs have learned, too. */
#pragma once

#include "base/base.h"
#include "decide/trigger.h"

/* What the runs of a program have learned so far. */
typedef struct plb_past {
    double runs; /* number of runs whose numbers these are; 0: none is known */
    plb_experience_t learned;
} plb_past_t;

/** Read what a program has learned; its name is without \ and ".  `said` gets the reason if it is
 * not known.  PLB_ERR_FORMAT: the file is of another kind, or cannot be read or made. */
int plb_experience_read(const char *path, const char *program, plb_past_t *out, plb_err_t *said,
                        plb_err_t *err);

/** At the end of a run, append what it has learned, if its trigger has observed more than *done
 * iterations; *done becomes their number.  runs: how many earlier runs it has begun with;
 * is_whole: it has not ended early.  `said` gets what the user should know, or remains. */
void plb_experience_write(const char *path, const char *program, double runs,
                          const plb_trigger_t *trigger, bool is_whole, int64_t *done,
                          plb_err_t *said);

/* The cores that ranks share. */
#include <math.h>
#include <string.h>

#include "base/cores.h"
#include "feed.h"
#include "plb.h"

enum { RANKS = 6 };

/* Return a number above 0, mostly an ordinary one, within the domain of speeds and times. */
static double positive(feed_t *feed)
{
    const double x =
        feed_byte(feed) < 224 ? 0.25 + feed_byte(feed) / 8.0 : fabs(feed_double(feed));
    return x >= 1e-30 && x <= 1e30 ? x : 1.0;
}

static void must_answer(int ret, const plb_err_t *err, int64_t fail_at)
{
    MUST(ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE ||
         (ret == PLB_ERR_NOMEM && fail_at >= 0));
    MUST(ret == PLB_OK || err->text[0] != '\0');
}

/* ---- cores ---------------------------------------------------------------------------------- */

static void find_crowd(feed_t *feed, int64_t fail_at)
{
    plb_err_t err = {0, ""};
    static plb_cores_t all[RANKS];
    plb_crowd_t crowd = {0};
    const int32_t p = 1 + (int32_t)feed_below(feed, RANKS);
    plb_cores_here(&all[0]);
    for (int32_t r = feed_bool(feed); r < p; r++) {
        memset(&all[r], 0, sizeof all[r]);
        all[r].host = feed_below(feed, 3);
        all[r].mask[feed_below(feed, 2)] = feed_byte(feed);
        all[r].group = feed_below(feed, 3);
        all[r].quota = all[r].group ? positive(feed) : 0.0;
    }
    plb_mem_fail_at(fail_at);
    const int ret = plb_cores_crowd(all, p, &crowd, &err);
    plb_mem_fail_at(-1);
    must_answer(ret, &err, fail_at);
    MUST(ret != PLB_OK || (crowd.n_ranks >= 0 && crowd.n_ranks <= p && crowd.n_cores >= 0.0));
    MUST(ret != PLB_OK || (crowd.words[0] != '\0') == (crowd.n_ranks > crowd.n_cores));
    for (int32_t r = 0; r < p; r++) {
        MUST(!plb_cores_capped(all, p, r) || all[r].group != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    find_crowd(&feed, feed_byte(&feed) < 32 ? feed_byte(&feed) % 16 : -1);
    return 0;
}

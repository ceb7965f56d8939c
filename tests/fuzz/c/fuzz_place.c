/* The strategies: every strategy on any snapshot.  No object is lost, fixed objects stay, memory
 * limits are kept, a refinement makes nothing worse by its own measure, and the same call gives
 * the same placement.  A library may answer wrongly, or fail.  A failing allocation is an error,
 * and nothing leaks. */
#include "anything.h"
#include "library.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    plb_err_t err;
    anything_t any;
    library_install();
    const plb_strategy_t *strategy = anything_strategy(&feed);
    const uint8_t fault = feed_byte(&feed);
    library_answer =
        strategy->library == NULL || fault < 224 ? LIBRARY_RIGHT : (library_answer_t)(fault % 2);
    anything_init(&any, &feed, 120, 40, 240);
    if (plb_snapshot_check(&any.snapshot, &err) == PLB_OK) {
        anything_place(strategy, &any.snapshot, &feed, fault < 32 ? fault : -1);
    }
    anything_free(&any);
    return 0;
}

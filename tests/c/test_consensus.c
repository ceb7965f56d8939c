/* Tests each rule of csrc/decide/consensus.h on its own; interleave.c tests them together. */
#include "decide/consensus.c" /* for its static functions */
#include "test.h"

static plb_actions_t out;
static plb_err_t err;

static const plb_ruling_t nothing = {.kind = PLB_RULING_NOTHING};

#define OK(call) assert_int_equal((call), PLB_OK)

static void assert_fails(int ret, int code, const char *text)
{
    assert_int_equal(ret, code);
    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    }
}

static plb_answer_t ask(plb_consensus_t *rank, int64_t slot)
{
    plb_answer_t answer;
    OK(consensus_ask(rank, slot, &answer, &err));
    return answer;
}

/* Run an object until it waits at AtSync(`iteration`). */
static void run_to(plb_consensus_t *rank, int64_t slot, int64_t iteration)
{
    while (rank->reach[slot] < 2 * iteration) {
        assert_int_equal(ask(rank, slot), PLB_ANSWER_GO);
        OK(consensus_reached(rank, slot, &out, &err));
    }
}

static void see(plb_consensus_t *rank, int64_t iteration)
{
    OK(consensus_stats(rank, iteration, &nothing, &out, &err));
}

static void hear(plb_consensus_t *rank, plb_ruling_kind_t kind, int64_t round, int64_t at)
{
    OK(consensus_follow(rank, &(plb_ruling_t){kind, round, at}, &out, &err));
}

static plb_consensus_t rank_with(int n_objects, int32_t lag)
{
    plb_consensus_t rank;
    OK(consensus_init(&rank, lag, 100, &err));
    for (int64_t i = 0, slot; i < n_objects; i++) {
        OK(consensus_add(&rank, &slot, &out, &err));
        assert_int_equal(slot, i);
        assert_true(out.last < out.first && out.maximum < 0 && !out.balance && !out.done);
    }
    return rank;
}

/* Return the root's final iteration, if the tentative one is 5 and `reach` is the greatest
 * reach. */
static int64_t final_of_5(int64_t reach)
{
    plb_consensus_root_t root;
    plb_ruling_t ruling;
    plb_consensus_root_init(&root, 2, 0);
    OK(plb_consensus_root_stats(&root, 1, 0, 5, &ruling, &err));
    assert_int_equal(ruling.kind, PLB_RULING_TENTATIVE);
    assert_int_equal(ruling.iteration, 5);
    assert_false(consensus_root_ready(&root));
    OK(consensus_root_maximum(&root, ruling.round, reach, &ruling, &err));
    assert_int_equal(ruling.kind, PLB_RULING_FINAL);
    assert_true(consensus_root_ready(&root));
    return ruling.iteration;
}

TEST(test_the_final_iteration_is_the_tentative_one_or_a_later_one)
{
    assert_int_equal(final_of_5(2 * 2), 5);     /* all objects are before iteration 5 */
    assert_int_equal(final_of_5(2 * 5 - 1), 5); /* an object runs it */
    assert_int_equal(final_of_5(2 * 5), 5);     /* an object waits at its end */
    assert_int_equal(final_of_5(2 * 6 - 1), 6); /* an object has passed it */
    assert_int_equal(final_of_5(2 * 8), 8);
}

TEST(test_pause_at_the_limit)
{
    plb_consensus_t rank = rank_with(2, 0);
    run_to(&rank, 0, 3);
    run_to(&rank, 1, 1);
    hear(&rank, PLB_RULING_TENTATIVE, 1, 2);
    assert_int_equal(out.maximum, 2 * 3);
    assert_int_equal(rank.round, 1);
    /* the object is at the rank's own maximum, 3 */
    assert_int_equal(ask(&rank, 0), PLB_ANSWER_PAUSE);
    run_to(&rank, 1, 3); /* beyond the tentative iteration */
    assert_int_equal(ask(&rank, 1), PLB_ANSWER_PAUSE);
    hear(&rank, PLB_RULING_FINAL, 1, 4); /* an object on another rank was at 4 */
    run_to(&rank, 0, 4);
    assert_int_equal(ask(&rank, 0), PLB_ANSWER_BALANCE);
    run_to(&rank, 1, 4);
    for (int64_t i = 1; i < 4; i++) {
        see(&rank, i);
        assert_false(out.balance);
    }
    OK(consensus_stats(&rank, 4, &(plb_ruling_t){PLB_RULING_BALANCE, 1, 4}, &out, &err));
    assert_true(out.balance);
    assert_int_equal(ask(&rank, 1), PLB_ANSWER_BALANCE);
    OK(consensus_balanced(&rank, &out, &err));
    run_to(&rank, 0, 9);
    consensus_free(&rank);
}

TEST(test_final_below_a_begun_iteration_is_refused)
{
    plb_consensus_t rank = rank_with(1, 0);
    run_to(&rank, 0, 3);
    assert_fails(consensus_follow(&rank, &(plb_ruling_t){PLB_RULING_FINAL, 0, 2}, &out, &err),
                 PLB_ERR_STATE, "iteration 3 has begun, but the final iteration is 2");
    assert_fails(consensus_follow(&rank, &(plb_ruling_t){PLB_RULING_BALANCE, 0, 3}, &out, &err),
                 PLB_ERR_STATE, "an LB step at iteration 3, but this rank does not wait");
    plb_consensus_t empty = rank_with(0, 0);
    assert_fails(consensus_follow(&empty, &(plb_ruling_t){PLB_RULING_BALANCE, 0, 3}, &out, &err),
                 PLB_ERR_STATE, "an LB step at iteration 3");
    consensus_free(&empty);
    assert_fails(consensus_follow(&rank, &(plb_ruling_t){PLB_RULING_TENTATIVE, 2, 9}, &out, &err),
                 PLB_ERR_STATE, "round 2 opens while round 0 is closed");
    consensus_free(&rank);
}

TEST(test_extension_needs_no_round_reduction_does)
{
    plb_consensus_root_t root;
    plb_ruling_t d;
    plb_consensus_root_init(&root, 2, 0);
    OK(plb_consensus_root_stats(&root, 1, 0, 5, &d, &err));
    OK(consensus_root_maximum(&root, 1, 4, &d, &err));
    OK(plb_consensus_root_stats(&root, 2, 0, 5, &d, &err));
    assert_int_equal(d.kind, PLB_RULING_NOTHING);
    OK(plb_consensus_root_stats(&root, 3, 0, 8, &d, &err));
    assert_int_equal(d.kind, PLB_RULING_FINAL);
    assert_int_equal(d.iteration, 8);
    OK(plb_consensus_root_stats(&root, 4, 0, 3, &d, &err)); /* 3 is too early, so T is 5 */
    assert_int_equal(d.kind, PLB_RULING_TENTATIVE);
    assert_int_equal(d.iteration, 5);
    OK(consensus_root_maximum(&root, 2, 2 * 6, &d, &err));
    assert_int_equal(d.iteration, 6);
    OK(plb_consensus_root_stats(&root, 5, 0, PLB_NEVER, &d, &err));
    assert_int_equal(d.kind, PLB_RULING_FINAL);
    assert_int_equal(d.iteration, PLB_NEVER);
    OK(plb_consensus_root_stats(&root, 6, 0, PLB_NEVER, &d, &err));
    assert_int_equal(d.kind, PLB_RULING_NOTHING);
}

TEST(test_bounded_lag)
{
    plb_consensus_t rank = rank_with(1, 2);
    run_to(&rank, 0, 3); /* at AtSync(1) and AtSync(2) the object need not wait */
    assert_int_equal(ask(&rank, 0), PLB_ANSWER_PAUSE);
    see(&rank, 1);
    run_to(&rank, 0, 4);
    assert_int_equal(ask(&rank, 0), PLB_ANSWER_PAUSE);
    consensus_free(&rank);

    plb_consensus_root_t root;
    plb_ruling_t d;
    plb_consensus_root_init(&root, 2, 2);
    OK(plb_consensus_root_stats(&root, 1, 0, 2, &d, &err)); /* T is 1 + D = 3, and final at once */
    assert_int_equal(d.kind, PLB_RULING_FINAL);
    assert_int_equal(d.iteration, 3);
    OK(plb_consensus_root_stats(&root, 2, 0, 9, &d, &err));
    assert_int_equal(d.iteration, 9);
    /* the final iteration F becomes smaller, and no round is needed for that */
    OK(plb_consensus_root_stats(&root, 3, 0, 5, &d, &err));
    assert_int_equal(d.kind, PLB_RULING_FINAL);
    assert_int_equal(d.iteration, 5);
    OK(plb_consensus_root_stats(&root, 4, 0, PLB_WISH_NONE, &d, &err));
    /* too late for a wish: the LB step of iteration 5 is due */
    OK(plb_consensus_root_stats(&root, 5, 0, 7, &d, &err));
    assert_int_equal(d.kind, PLB_RULING_BALANCE);
    assert_int_equal(d.iteration, 5);
}

TEST(test_objects_end_with_their_rank)
{
    plb_consensus_t rank = rank_with(1, 0);
    rank.end = 2;
    run_to(&rank, 0, 2);
    assert_int_equal(ask(&rank, 0), PLB_ANSWER_END);
    assert_true(consensus_ended(&rank, 2));
    assert_false(consensus_ended(&rank, 1));
    consensus_free(&rank);
}

TEST(test_slots_are_used_again)
{
    plb_consensus_t rank = rank_with(1000, 0);
    assert_int_equal(rank.n_objects, 1000);
    int64_t slot;
    OK(consensus_remove(&rank, 17, &out, &err));
    OK(consensus_remove(&rank, 500, &out, &err));
    OK(consensus_add(&rank, &slot, &out, &err));
    assert_int_equal(slot, 500);
    OK(consensus_add(&rank, &slot, &out, &err));
    assert_int_equal(slot, 17);
    OK(consensus_add(&rank, &slot, &out, &err));
    assert_int_equal(slot, 1000);
    consensus_free(&rank);
    consensus_free(&rank);
}

TEST(test_out_of_memory_changes_nothing)
{
    plb_consensus_t rank = rank_with(4, 0);
    int64_t slot;
    plb_mem_fail_at(0);
    assert_fails(consensus_add(&rank, &slot, &out, &err), PLB_ERR_NOMEM, "8 objects");
    plb_mem_fail_at(-1);
    assert_int_equal(rank.n_objects, 4);
    OK(consensus_add(&rank, &slot, &out, &err));
    assert_int_equal(slot, 4);
    consensus_free(&rank);
}

TEST(test_wrong_use)
{
    plb_consensus_t rank, bad;
    plb_consensus_root_t root;
    plb_answer_t answer;
    plb_ruling_t d;
    assert_fails(consensus_init(&bad, -1, 5, &err), PLB_ERR_VALUE, "lag -1");
    consensus_free(&bad);
    rank = rank_with(1, 1);
    assert_fails(consensus_reached(&rank, 1, &out, &err), PLB_ERR_KEY, "slot 1");
    assert_fails(consensus_remove(&rank, -1, &out, &err), PLB_ERR_KEY, "slot -1");
    assert_fails(consensus_ask(&rank, 3, &answer, &err), PLB_ERR_KEY, "slot 3");
    assert_fails(consensus_reached(&rank, 0, &out, &err), PLB_ERR_STATE, "waits at AtSync(0)");
    assert_int_equal(ask(&rank, 0), PLB_ANSWER_GO);
    assert_fails(consensus_ask(&rank, 0, &answer, &err), PLB_ERR_STATE, "runs iteration 1");
    OK(consensus_reached(&rank, 0, &out, &err));
    run_to(&rank, 0, 2);
    assert_fails(consensus_stats(&rank, 2, &nothing, &out, &err), PLB_ERR_STATE,
                 "statistics of iteration 2: the last ones are of 0");
    assert_fails(consensus_balanced(&rank, &out, &err), PLB_ERR_STATE, "no LB step was asked for");
    consensus_free(&rank);

    plb_consensus_root_init(&root, 2, 0);
    assert_fails(plb_consensus_root_stats(&root, 2, 0, 5, &d, &err), PLB_ERR_STATE,
                 "statistics of iteration 2 came after those of 0");
    assert_fails(plb_consensus_root_stats(&root, 1, 0, 0, &d, &err), PLB_ERR_VALUE, "wish is 0");
    assert_fails(consensus_root_maximum(&root, 0, 2, &d, &err), PLB_ERR_STATE,
                 "round 0 is closed");
    OK(plb_consensus_root_stats(&root, 1, 0, 5, &d, &err));
    assert_fails(plb_consensus_root_stats(&root, 2, 0, 5, &d, &err), PLB_ERR_STATE,
                 "round 1 is open");
    assert_fails(consensus_root_maximum(&root, 2, 2, &d, &err), PLB_ERR_STATE,
                 "maximum of round 2");
}

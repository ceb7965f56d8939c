#include "library.h"

#include "plb.h"

library_answer_t library_answer = LIBRARY_RIGHT;

static int run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    PLB_FAIL_IF(library_answer == LIBRARY_FAILS, err, PLB_ERR_LIBRARY, "the library has failed");
    for (int32_t v = 0; v < in->n_vertices; v++) {
        part[v] =
            in->fixed != NULL && in->fixed[v] >= 0 ? in->fixed[v] : (v + in->seed) % in->n_parts;
    }
    if (library_answer == LIBRARY_WRONG && in->n_vertices > 0) {
        part[in->n_vertices / 2] = in->n_parts;
    }
    return PLB_OK;
}

void library_install(void)
{
    enum { ALL = 63 };
    static const plb_partitioner_t libraries[] = {
        {.name = "fuzzed", .takes = PLB_TAKES_GRAPH | PLB_TAKES_FIXED, .run = run},
        {.name = "METIS", .takes = PLB_TAKES_GRAPH | PLB_TAKES_WEIGHTS, .run = run},
        {.name = "Scotch", .takes = PLB_TAKES_GRAPH | PLB_TAKES_FIXED | PLB_TAKES_OLD, .run = run},
        {.name = "Zoltan", .takes = ALL, .run = run},
        {.name = "mtkahypar", .takes = PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED, .run = run}};
    plb_err_t err;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        MUST(plb_partitioner_install(&libraries[i], &err) == PLB_OK);
    }
}

void library_fill_table(void)
{
    static const plb_partitioner_t more[] = {{.name = "a", .run = run},
                                             {.name = "b", .run = run},
                                             {.name = "c", .run = run},
                                             {.name = "d", .run = run}};
    plb_err_t err = {0, ""};
    int ret = PLB_OK;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        ret = plb_partitioner_install(&more[i], &err);
    }
    MUST(ret == PLB_ERR_STATE && err.text[0] != '\0');
    MUST(plb_partitioner_find("d") == NULL && plb_partitioner_find("fuzzed") != NULL);
    MUST(plb_partitioner_find("pylb") == &plb_builtin);
}

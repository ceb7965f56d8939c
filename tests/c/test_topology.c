/* Tests of csrc/model: parts on a torus and a tree under failing allocations. */
#include "plb.h"
#include "test.h"

enum { P = 12 };

/* A ring of parts; each part sends to the fifth part after it. */
static void fill(int64_t *start, int32_t *to, double *bytes, int32_t *group, int32_t *place)
{
    for (int a = 0; a < P; a++) {
        start[a] = a;
        to[a] = (a + 5) % P;
        bytes[a] = 1.0 + a % 3;
        group[a] = a % 4 == 0;
        place[a] = a;
    }
    start[P] = P;
}

TEST(mapping_survives_failed_allocations)
{
    const int64_t size[] = {3, 4};
    int64_t start[P + 1];
    int32_t to[P], group[P], place[P];
    double bytes[P], most;
    plb_topology_t machine;
    plb_err_t err;
    for (int kind = PLB_TREE; kind <= PLB_TORUS; kind++) {
        assert_int_equal(plb_topology_init(&machine, kind, size, 2, &err), PLB_OK);
        const plb_flows_t flows = {start, to, bytes};
        int ret = PLB_ERR_NOMEM;
        for (int64_t at = 0; ret != PLB_OK; at++) {
            fill(start, to, bytes, group, place);
            plb_mem_fail_at(at);
            ret = plb_topology_map(&machine, &flows, group, place, &err);
            plb_mem_fail_at(-1);
            assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
        }
        for (int a = 0; a < P; a++) {
            assert_int_equal(group[place[a]], group[a]);
        }
        plb_mem_fail_at(0);
        assert_int_equal(plb_topology_link(&machine, &flows, place, &most, &err), PLB_ERR_NOMEM);
        plb_mem_fail_at(-1);
        assert_int_equal(plb_topology_link(&machine, &flows, place, &most, &err), PLB_OK);
        assert_true(most > 0.0);
    }
}

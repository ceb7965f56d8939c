/* Explores every interleaving of a small system, breadth first, so the first violation found has a
 * shortest run.  Usage: interleave [name=value ...], see OPTIONS.
 *
 * The last line of the output is
 *   result=ok|violation|deadlock states=... steps=... depth=... seconds=...
 * After a violation or a deadlock, the steps that lead to it are printed before this line.  Exit
 * status: 0: ok; 1: violation or deadlock; 2: wrong usage or out of memory.
 *
 * No interleaving is left out as equivalent to another, because any step of a rank may change what
 * other ranks do. */
#include "consensus_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct settings {
    model_t m;
    int64_t most; /* largest number of states */
    int all;      /* continue after a violation or a deadlock, and count them */
} settings_t;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- every interleaving ---- */

typedef struct node {
    uint64_t key[STATE_WORDS];
    uint32_t parent;
    step_t step;
} node_t;

typedef struct visited {
    node_t *node;
    uint32_t *slot; /* open addressing: index of a node plus 1; 0: free */
    size_t n, room, n_slots;
} visited_t;

static uint64_t hash(const uint64_t key[STATE_WORDS])
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < STATE_WORDS; i++) {
        h = (h ^ key[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "interleave: out of memory\n");
        exit(2);
    }
    return p;
}

static void rehash(visited_t *v)
{
    v->n_slots = v->n_slots == 0 ? 1 << 16 : 2 * v->n_slots;
    free(v->slot);
    v->slot = must(calloc(v->n_slots, sizeof *v->slot));
    for (size_t i = 0; i < v->n; i++) {
        size_t at = hash(v->node[i].key) & (v->n_slots - 1);
        while (v->slot[at] != 0) {
            at = (at + 1) & (v->n_slots - 1);
        }
        v->slot[at] = (uint32_t)i + 1;
    }
}

static void visit(visited_t *v, const uint64_t key[STATE_WORDS], uint32_t parent, step_t step)
{
    if (2 * (v->n + 1) > v->n_slots) {
        rehash(v);
    }
    size_t at = hash(key) & (v->n_slots - 1);
    for (; v->slot[at] != 0; at = (at + 1) & (v->n_slots - 1)) {
        if (memcmp(v->node[v->slot[at] - 1].key, key, sizeof v->node[0].key) == 0) {
            return;
        }
    }
    if (v->n == v->room) {
        v->room = v->room == 0 ? 1 << 12 : 2 * v->room;
        v->node = must(realloc(v->node, v->room * sizeof *v->node));
    }
    node_t *node = &v->node[v->n++];
    memcpy(node->key, key, sizeof node->key);
    node->parent = parent;
    node->step = step;
    v->slot[at] = (uint32_t)v->n;
}

static void print_step(const system_t *s, int number, step_t step)
{
    static const char *const names[N_STEP_KINDS] = {
        [STEP_REACH] = "object %d reaches AtSync",
        [STEP_GO] = "object %d begins its next iteration",
        [STEP_START] = "rank %d begins an iteration, sends, enters its receives",
        [STEP_ENTER] = "rank %d enters the receives of its next object",
        [STEP_STATS] = "rank %d: sees the statistics of ",
        [STEP_MAXIMUM] = "rank %d: sees the maximum; final iteration ",
        [STEP_BALANCED] = "all ranks have balanced",
        [STEP_LEAVE] = "object %d leaves",
        [STEP_JOIN] = "object %d joins again",
        [STEP_FAIL] = "rank %d fails"};
    printf("%3d  ", number);
    printf(names[step.kind], step.who);
    if (step.kind == STEP_STATS || step.kind == STEP_MAXIMUM) {
        const plb_consensus_t *rank = &s->rank[step.who];
        printf("%lld", (long long)(step.kind == STEP_STATS ? rank->seen : rank->final));
    }
    putchar('\n');
}

/* Print the steps from the first state to node `last`, then `step` (NULL: none). */
static int tell(const model_t *m, const visited_t *v, uint32_t last, const step_t *step)
{
    uint32_t path[512];
    int n = 0;
    for (uint32_t i = last; i != 0; i = v->node[i].parent) {
        path[n++] = i;
    }
    system_t s;
    plb_err_t err;
    system_init(m, &s);
    for (int i = n - 1; i >= 0; i--) {
        system_take(m, &s, v->node[path[i]].step, &err);
        print_step(&s, n - i, v->node[path[i]].step);
    }
    if (step != NULL) {
        system_take(m, &s, *step, &err);
        print_step(&s, n + 1, *step);
    }
    system_print(m, &s, stdout);
    return n + (step != NULL);
}

static int report(const char *result, size_t states, uint64_t steps, int depth, double since)
{
    printf("result=%s states=%zu steps=%" PRIu64 " depth=%d seconds=%.2f\n", result, states, steps,
           depth, now() - since);
    return strcmp(result, "ok") == 0 ? 0 : 1;
}

typedef struct search {
    visited_t visited;
    const char *result;
    uint64_t n_steps, n_violations, n_deadlocks;
    int depth; /* number of steps to the first violation or deadlock; if there is none, number of
                  steps of the longest run */
} search_t;

/* Report an error at node `i`, or in `step` from node `i`; only the first error is printed. */
static void found(search_t *f, const model_t *m, uint32_t i, const step_t *step,
                  const plb_err_t *err)
{
    if (f->n_violations + f->n_deadlocks == 0) {
        f->result = step != NULL ? "violation" : "deadlock";
        f->depth = tell(m, &f->visited, i, step);
        printf("%s\n", err->text);
    }
    f->n_violations += step != NULL;
    f->n_deadlocks += step == NULL;
}

static void expand(search_t *f, const model_t *m, uint32_t i)
{
    system_t s, next;
    step_t steps[MAX_STEPS];
    uint64_t key[STATE_WORDS];
    plb_err_t err;
    system_unpack(m, &s, f->visited.node[i].key);
    const int n = system_steps(m, &s, steps);
    if (n == 0 && system_check_end(m, &s, &err) != PLB_OK) {
        found(f, m, i, NULL, &err);
    }
    for (int j = 0; j < n; j++) {
        system_copy(&next, &s);
        f->n_steps++;
        if (system_take(m, &next, steps[j], &err) != PLB_OK) {
            found(f, m, i, &steps[j], &err);
        } else {
            system_pack(m, &next, key);
            visit(&f->visited, key, i, steps[j]);
        }
    }
}

static int explore(const settings_t *set)
{
    const double since = now();
    search_t f = {.result = "ok"};
    visited_t *v = &f.visited;
    system_t s;
    uint64_t key[STATE_WORDS];
    system_init(&set->m, &s);
    system_pack(&set->m, &s, key);
    visit(v, key, 0, (step_t){0});
    for (uint32_t i = 0; i < v->n && (set->all || strcmp(f.result, "ok") == 0); i++) {
        if (v->n > (size_t)set->most) {
            fprintf(stderr, "interleave: more than %" PRId64 " states\n", set->most);
            exit(2);
        }
        expand(&f, &set->m, i);
    }
    for (uint32_t i = (uint32_t)v->n - 1; strcmp(f.result, "ok") == 0 && i != 0;
         i = v->node[i].parent) {
        f.depth++;
    }
    if (set->all) {
        printf("violations=%" PRIu64 " deadlocks=%" PRIu64 "\n", f.n_violations, f.n_deadlocks);
    }
    free(v->node);
    free(v->slot);
    return report(f.result, v->n, f.n_steps, f.depth, since);
}

/* ---- command line ---- */

/* X(name, where, default, least, most, help) */
#define OPTIONS(X)                                                                                \
    X("ranks", set->m.ranks, 2, 1, MAX_RANKS, "ranks")                                            \
    X("objects", set->m.objects, 1, 1, MAX_OBJECTS, "objects on each rank")                       \
    X("iterations", set->m.iterations, 5, 1, MAX_ITERATIONS, "iterations")                        \
    X("lag", set->m.lag, 0, 0, 100, "bounded lag D, 0: none")                                     \
    X("ring", set->m.ring, 0, 0, 1, "1: the objects form a ring; 0: a line")                      \
    X("blocked", set->m.blocked, 0, 0, 1, "ranks block in the application's receives")            \
    X("early", set->m.early, 0, 0, MAX_ITERATIONS, "rank 0 ends this many iterations early")      \
    X("changes", set->m.changes, 0, 0, 7,                                                         \
      "number of wishes of the trigger, for any iteration, at any time")                          \
    X("churn", set->m.churn, 0, 0, 7, "number of objects that leave or join again, at any time")  \
    X("fails", set->m.fails, 0, 0, 7, "number of ranks that fail, at any time")                   \
    X("migrate", set->m.migrate, 0, 0, 1, "objects change their rank at an LB step")              \
    X("all", set->all, 0, 0, 1, "continue after the first violation or deadlock")                 \
    X("ablate", model_ablated, 0, 0, 15,                                                          \
      "sum of rules to leave out: 1 pause, 2 hold, 4 comparison, 8 ended")                        \
    X("most", set->most, 100000000, 1, UINT32_MAX, "largest number of states of an exploration")

static int usage(const char *word)
{
    settings_t *set = NULL;
    (void)set;
    fprintf(stderr,
            "interleave: cannot use %s\nname=value, where name is one of (default in brackets)\n",
            word);
#define X(name, where, usual, least, greatest, help)                                              \
    fprintf(stderr, "  %-12s%s (%lld)\n", name, help, (long long)(usual));
    OPTIONS(X)
#undef X
    fprintf(stderr, "  %-12s%s\n", "wish=I:T",
            "at the statistics of iteration I the trigger wants an LB step at T");
    return 2;
}

static bool set_option(settings_t *set, const char *word)
{
    const char *equals = strchr(word, '=');
    char *rest = NULL;
    if (equals == NULL) {
        return false;
    }
    const size_t n = (size_t)(equals - word);
    const long long value = strtoll(equals + 1, &rest, 10);
    if (n == 4 && strncmp(word, "wish", n) == 0 && *rest == ':') {
        char *end = NULL;
        const long long wish = strtoll(rest + 1, &end, 10);
        if (value < 1 || value > MAX_ITERATIONS || wish < 1 || wish > MAX_ITERATIONS) {
            return false;
        }
        set->m.script[value] = wish;
        return *end == '\0';
    }
#define X(name, where, usual, least, greatest, help)                                              \
    if (n == strlen(name) && strncmp(word, name, n) == 0 && value >= (long long)(least) &&        \
        value <= (long long)(greatest)) {                                                         \
        where = (__typeof__(where))value;                                                         \
        return *rest == '\0' && rest != equals + 1;                                               \
    }
    OPTIONS(X)
#undef X
    return false;
}

int main(int argc, char **argv)
{
    settings_t settings, *set = &settings;
    memset(set, 0, sizeof *set);
#define X(name, where, usual, least, greatest, help) where = usual;
    OPTIONS(X)
#undef X
    for (int i = 0; i < MAX_ITERATIONS + 2; i++) {
        set->m.script[i] = PLB_WISH_NONE;
    }
    for (int i = 1; i < argc; i++) {
        if (!set_option(set, argv[i])) {
            return usage(argv[i]);
        }
    }
    if (set->m.ranks * set->m.objects > MAX_OBJECTS || set->m.early > set->m.iterations ||
        set->m.iterations > 6 || set->m.ranks > 4) {
        return usage("these sizes");
    }
    return explore(set);
}

/* Explores every interleaving of a small system, breadth first, so the first violation found has a
 * shortest run.  Usage: interleave [name=value ...], see set_option.
 *
 * The last line of the output is
 *   result=ok|violation|deadlock states=... depth=...
 * After a violation or a deadlock, the steps that lead to it are printed before this line.  Exit
 * status: 0: ok; 1: violation or deadlock; 2: wrong usage or out of memory.
 *
 * No interleaving is left out as equivalent to another, because any step of a rank may change what
 * other ranks do. */
#include "consensus_model.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 100000000 };

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

typedef struct search {
    visited_t visited;
    const char *result; /* "ok", or what was found first */
    int depth;          /* steps to it; if nothing is found, of the longest run */
} search_t;

/* Report an error at node `i`, or in `step` from node `i`. */
static void found(search_t *f, const model_t *m, uint32_t i, const step_t *step,
                  const plb_err_t *err)
{
    if (strcmp(f->result, "ok") == 0) {
        f->result = step != NULL ? "violation" : "deadlock";
        f->depth = tell(m, &f->visited, i, step);
        printf("%s\n", err->text);
    }
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
        if (system_take(m, &next, steps[j], &err) != PLB_OK) {
            found(f, m, i, &steps[j], &err);
        } else {
            system_pack(m, &next, key);
            visit(&f->visited, key, i, steps[j]);
        }
    }
}

static int explore(const model_t *m)
{
    search_t f = {.result = "ok"};
    visited_t *v = &f.visited;
    system_t s;
    uint64_t key[STATE_WORDS];
    system_init(m, &s);
    system_pack(m, &s, key);
    visit(v, key, 0, (step_t){0});
    for (uint32_t i = 0; i < v->n && strcmp(f.result, "ok") == 0; i++) {
        if (v->n > MOST_STATES) {
            fprintf(stderr, "interleave: too many states\n");
            exit(2);
        }
        expand(&f, m, i);
    }
    const bool ok = strcmp(f.result, "ok") == 0;
    for (uint32_t i = (uint32_t)v->n - 1; ok && i != 0; i = v->node[i].parent) {
        f.depth++;
    }
    printf("result=%s states=%zu depth=%d\n", f.result, v->n, f.depth);
    free(v->node);
    free(v->slot);
    return ok ? 0 : 1;
}

/* ---- command line ---- */

/* Set an option from "name=value"; the model's header says what the names mean. */
static bool set_option(model_t *m, const char *word)
{
    const struct {
        const char *name;
        int *number;
        bool *flag;
    } options[] = {{"ranks", &m->ranks, NULL},    {"objects", &m->objects, NULL},
                   {"lag", &m->lag, NULL},        {"iterations", &m->iterations, NULL},
                   {"early", &m->early, NULL},    {"changes", &m->changes, NULL},
                   {"churn", &m->churn, NULL},    {"fails", &m->fails, NULL},
                   {"ring", NULL, &m->ring},      {"blocked", NULL, &m->blocked},
                   {"migrate", NULL, &m->migrate}};
    char name[16];
    int value, wish;
    if (sscanf(word, "wish=%d:%d", &value, &wish) == 2 && value > 0 && value <= MAX_ITERATIONS) {
        m->script[value] = wish;
        return true;
    }
    if (sscanf(word, "%15[a-z]=%d", name, &value) != 2 || value < 0) {
        return false;
    }
    if (strcmp(name, "ablate") == 0) { /* the sum of rules to leave out */
        model_ablated = (unsigned)value;
        return true;
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(name, options[i].name) == 0 && options[i].number != NULL) {
            *options[i].number = value;
            return true;
        }
        if (strcmp(name, options[i].name) == 0) {
            *options[i].flag = value > 0;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    model_t m = {.ranks = 2, .objects = 1, .iterations = 5};
    for (int i = 0; i < MAX_ITERATIONS + 2; i++) {
        m.script[i] = PLB_WISH_NONE;
    }
    for (int i = 1; i < argc; i++) {
        if (!set_option(&m, argv[i])) {
            fprintf(stderr, "interleave: cannot use %s\n", argv[i]);
            return 2;
        }
    }
    if (m.ranks < 1 || m.ranks > 4 || m.iterations < 1 || m.iterations > 6 ||
        m.ranks * m.objects > MAX_OBJECTS || m.early > m.iterations) {
        fprintf(stderr, "interleave: cannot use these sizes\n");
        return 2;
    }
    return explore(&m);
}

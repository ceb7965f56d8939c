#include "base/base.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS = PLB_CORES_MOST / 64, PATH = 4352 };

/* ---- the cores of this process -------------------------------------------------------------- */

/* Read the first line of a file; false: the file is empty or cannot be read. */
static bool read_line(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "re");
    const bool found = f != NULL && fgets(line, size, f) != NULL;
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

/* The number of cores that the control group in this folder may use; 0: no quota.  First tries
 * version 2 of control groups, then version 1. */
static double quota_of(const char *folder)
{
    char path[PATH + 32], line[64];
    double quota = 0.0, period = 0.0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_line(path, line, sizeof line)) {
        return sscanf(line, "%lf %lf", &quota, &period) == 2 ? quota / period : 0.0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    quota = read_line(path, line, sizeof line) ? atof(line) : 0.0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    period = read_line(path, line, sizeof line) ? atof(line) : 0.0;
    return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

/* Find the smallest quota of a control group and its parents; a container may hide parents. */
static void find_quota(const char *root, const char *group, plb_cores_t *out)
{
    char folder[PATH];
    struct stat info;
    int n = snprintf(folder, sizeof folder, "%s%s", root, group);
    const int shortest = (int)strlen(root);
    while (n < PATH) {
        const double quota = quota_of(folder);
        if (quota > 0.0 && (out->group == 0 || quota < out->quota) && stat(folder, &info) == 0) {
            out->quota = quota;
            out->group = (uint64_t)info.st_ino;
        }
        if (n <= shortest) {
            return;
        }
        while (n > shortest && folder[n - 1] != '/') {
            n--;
        }
        folder[n > shortest ? --n : n] = '\0';
    }
}

void plb_cores_here(plb_cores_t *out)
{
    *out = (plb_cores_t){.host = 1};
    char name[256] = "";
    /* The host is a hash of the kernel's boot id, or else of the host name.  The boot id is
     * better: containers have different host names, but share the cores of one kernel. */
    if (!read_line("/proc/sys/kernel/random/boot_id", name, sizeof name)) {
        gethostname(name, sizeof name - 1);
    }
    for (const char *c = name; *c != '\0'; c++) {
        out->host = plb_mix64(out->host ^ (unsigned char)*c);
    }
    if (sched_getaffinity(0, sizeof out->mask, (cpu_set_t *)out->mask) != 0) {
        memset(out->mask, 0, sizeof out->mask); /* the cores are unknown */
    }
    /* Each line of /proc/self/cgroup is number:controllers:path.  In version 2 of control groups,
     * `controllers` is empty. */
    char line[4096], root[64];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        names++;
        if (*names == '\0') {
            find_quota("/sys/fs/cgroup", path, out);
        } else if (strcmp(names, "cpu") == 0 || strncmp(names, "cpu,", 4) == 0) {
            snprintf(root, sizeof root, "/sys/fs/cgroup/%.40s", names);
            find_quota(root, path, out);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

/* ---- the cores of all ranks ----------------------------------------------------------------- */

static int32_t n_cores(const uint64_t *mask)
{
    int32_t n = 0;
    for (int i = 0; i < WORDS; i++) {
        n += __builtin_popcountll(mask[i]);
    }
    return n;
}

static bool is_capped(const plb_cores_t *c)
{
    return c->group != 0 && c->quota < n_cores(c->mask);
}

static bool same_group(const plb_cores_t *a, const plb_cores_t *b)
{
    return a->host == b->host && a->group == b->group;
}

bool plb_cores_capped(const plb_cores_t *all, int32_t p, int32_t rank)
{
    int32_t n = 0;
    for (int32_t r = 0; r < p; r++) {
        n += same_group(&all[r], &all[rank]);
    }
    return is_capped(&all[rank]) && n == 1;
}

/* The lowest rank of the group of rank r; shortens the path to it. */
static int32_t lowest(int32_t *group, int32_t r)
{
    while (group[r] != r) {
        group[r] = group[group[r]];
        r = group[r];
    }
    return r;
}

static void join(int32_t *group, int32_t a, int32_t b)
{
    const int32_t x = lowest(group, a), y = lowest(group, b);
    group[x < y ? y : x] = x < y ? x : y;
}

static bool overlap(const plb_cores_t *a, const plb_cores_t *b)
{
    bool out = false;
    for (int w = 0; w < WORDS; w++) {
        out = out || (a->mask[w] & b->mask[w]) != 0;
    }
    return out && a->host == b->host;
}

int plb_cores_groups(const plb_cores_t *all, int32_t p, int32_t *group, double *cores,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    uint64_t(*mask)[WORDS] = NULL; /* union of the masks of the group whose lowest rank is r */
    int32_t *kind = NULL, n = 0;   /* [n] first ranks that have the same host, mask and quota */
    double *used = NULL, *size = NULL; /* of a group: cores that it uses at most; ranks */
    PLB_NEW0_EACH(p, mask, used, size);
    PLB_NEW(kind, p);
    for (int32_t r = 0, k; r < p; r++) {
        const plb_cores_t *a = &all[r], *b = all;
        group[r] = r;
        for (k = 0; k < n; k++) {
            b = &all[kind[k]];
            if (same_group(a, b) && a->quota == b->quota &&
                memcmp(a->mask, b->mask, sizeof a->mask) == 0) {
                break;
            }
        }
        if (k < n) { /* ranks without a known core, or alone under a quota, share no core */
            if (n_cores(a->mask) > 0) {
                join(group, r, kind[k]);
            }
            continue;
        }
        for (k = 0; k < n; k++) {
            b = &all[kind[k]];
            if (overlap(a, b) || (is_capped(a) && is_capped(b) && same_group(a, b))) {
                join(group, r, kind[k]);
            }
        }
        kind[n++] = r;
    }
    for (int32_t r = 0; r < p; r++) {
        const int32_t g = lowest(group, r);
        for (int w = 0; w < WORDS; w++) {
            mask[g][w] |= all[r].mask[w];
        }
        used[g] += plb_cores_capped(all, p, r) ? fmin(all[r].quota, 1.0) : 1.0;
        size[g] += 1.0;
    }
    for (int32_t r = 0; r < p; r++) {
        const int32_t g = lowest(group, r);
        const double c = n_cores(mask[g]);
        group[r] = g;
        cores[r] = c > 0.0 ? c * size[g] / used[g] : 1.0;
        if (is_capped(&all[r]) && !plb_cores_capped(all, p, r)) {
            cores[r] = all[r].quota < cores[r] ? all[r].quota : cores[r];
        }
    }
    /* a group has the smallest number of cores that one of its ranks has */
    for (int32_t r = 0; r < p; r++) {
        cores[group[r]] = cores[r] < cores[group[r]] ? cores[r] : cores[group[r]];
    }
    for (int32_t r = 0; r < p; r++) {
        cores[r] = cores[group[r]];
    }
out:
    PLB_FREE(mask, kind, used, size);
    return ret;
}

int plb_cores_crowd(const plb_cores_t *all, int32_t p, plb_crowd_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *group = NULL, *n = NULL, worst = 0; /* n[g]: number of ranks of the group g */
    double *cores = NULL;
    *out = (plb_crowd_t){0, 0.0, ""};
    PLB_NEW_EACH(p, group, cores);
    PLB_NEW0(n, p);
    PLB_TRY(plb_cores_groups(all, p, group, cores, err));
    for (int32_t r = 0; r < p; r++) {
        n[group[r]]++;
    }
    for (int32_t g = 0; g < p; g++) {
        if (n[g] * out->n_cores > out->n_ranks * cores[g] || (n[g] > 0 && out->n_ranks == 0)) {
            *out = (plb_crowd_t){n[g], cores[g], ""};
            worst = g;
        }
    }
    if (out->n_ranks > out->n_cores) {
        bool slow = false; /* whether some of its ranks have quotas of their own */
        for (int32_t r = 0; r < p; r++) {
            slow = slow || (group[r] == worst && plb_cores_capped(all, p, r));
        }
        if (slow) {
            snprintf(out->words, sizeof out->words, "only %.3g of %d ranks can compute at a time",
                     out->n_cores, out->n_ranks);
        } else {
            snprintf(out->words, sizeof out->words, "%d ranks share %.3g %s", out->n_ranks,
                     out->n_cores, out->n_cores == 1.0 ? "core" : "cores");
        }
    }
out:
    PLB_FREE(group, cores, n);
    return ret;
}

/* vt's LBDatafile: any text as the file of one rank or, cut at a zero byte, as the files of two.
 * The reader accepts the text, or refuses it with a message.  If it accepts the text, the files
 * are joined, written, and read again. */
#include <string.h>

#include "feed.h"
#include "plb.h"

typedef struct file {
    plb_vt_scan_t scan[2];
    int32_t n;
    int64_t *source;
    plb_vt_run_t run;
    plb_vt_plan_t plan;
} file_t;

static int scan_all(file_t *self, const char *text, size_t size, plb_err_t *err)
{
    const char *cut = memchr(text, '\0', size);
    const size_t first = cut == NULL ? size : (size_t)(cut - text);
    PLB_PASS(plb_vt_scan(&self->scan[self->n++], text, first, "first", err));
    return cut == NULL
               ? PLB_OK
               : plb_vt_scan(&self->scan[self->n++], cut + 1, size - first - 1, "second", err);
}

/* Write the files under a placement of all movable tasks on the last rank. */
static int write_all(file_t *self, const plb_vt_scan_t *const *files, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *rank = NULL;
    PLB_NEW(rank, self->run.n_tasks);
    for (int64_t t = 0; t < self->run.n_tasks; t++) {
        const bool moves = self->run.entity_migratable[self->run.task_entity[t]];
        rank[t] = moves ? self->n - 1 : self->run.task_rank[t];
    }
    PLB_TRY(plb_vt_plan_init(&self->plan, files, self->n, self->source, n, &self->run, rank, err));
    for (int32_t f = 0; ret == PLB_OK && f < self->n; f++) {
        char *out = NULL;
        size_t length = 0;
        plb_vt_scan_t again;
        PLB_TRY(plb_vt_write(&self->plan, f, &out, &length, err));
        MUST(plb_vt_scan(&again, out, length, "again", err) == PLB_OK);
        MUST(again.n_phases == self->scan[f].n_phases);
        plb_vt_scan_free(&again);
        plb_free(out);
    }
out:
    plb_free(rank);
    return ret;
}

static int whole_path(file_t *self, const char *text, size_t size, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_TRY(scan_all(self, text, size, err));
    const plb_vt_scan_t *files[2] = {&self->scan[0], &self->scan[1]};
    const int64_t n = self->scan[0].n_phases;
    if (self->n == 2 && self->scan[1].n_phases != n) {
        goto out;
    }
    const int64_t twice = size % 2 == 0 && n > 0; /* the last phase is also the one after it */
    PLB_NEW(self->source, n + twice);
    for (int64_t i = 0; i < n + twice; i++) {
        self->source[i] = i < n ? i : n - 1;
    }
    PLB_TRY(plb_vt_merge(&self->run, files, self->n, self->source, n + twice, err));
    ret = write_all(self, files, n + twice, err);
out:
    return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plb_err_t err = {0, ""};
    file_t file = {.n = 0};
    const int ret = whole_path(&file, (const char *)data, size, &err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_FORMAT && err.text[0] != '\0'));
    plb_vt_plan_free(&file.plan);
    plb_vt_run_free(&file.run);
    plb_vt_scan_free(&file.scan[0]);
    plb_vt_scan_free(&file.scan[1]);
    plb_free(file.source);
    return 0;
}

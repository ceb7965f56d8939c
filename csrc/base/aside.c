#include "base/aside.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/interrupt.h"
#include "base/mem.h"

enum { LOOK_NS = 5000000 };

typedef struct job {
    plb_aside_t how;
    void *data;
    plb_err_t err;
    int code;
    bool ended, left;
} job_t;

/* All jobs share one mutex and one condition variable: jobs are long and few. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

/* ---- the thread that runs the call ---------------------------------------------------------- */

static void end_left(job_t *job)
{
    job->how.free(job->data);
    atomic_fetch_sub(job->how.left, 1);
    plb_free(job);
}

static void *work(void *arg)
{
    job_t *job = arg;
    job->code = job->how.run(job->data, &job->err);
    pthread_mutex_lock(&mutex);
    job->ended = true;
    const bool left = job->left;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&mutex);
    if (left) {
        end_left(job);
    }
    return NULL;
}

static bool start(job_t *job)
{
    pthread_t thread;
    pthread_attr_t detached;
    if (pthread_attr_init(&detached) != 0) {
        return false;
    }
    const bool started = pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0 &&
                         pthread_create(&thread, &detached, work, job) == 0;
    pthread_attr_destroy(&detached);
    return started;
}

/* ---- the thread that waits ------------------------------------------------------------------ */

/* Wait for the end of any job, at most LOOK_NS.  The caller holds the mutex. */
static void pause_a_little(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&ended, &mutex, &until);
}

/* Unlocks the mutex while it checks for signals, because the check may wait for Python's GIL. */
static int look(const plb_aside_t *how)
{
    pause_a_little();
    pthread_mutex_unlock(&mutex);
    if (how->watch != NULL) {
        how->watch();
    }
    const int ret = plb_interrupted(PLB_INTERRUPT_NOW);
    pthread_mutex_lock(&mutex);
    return ret;
}

static int wait_for_turn(const plb_aside_t *how)
{
    int ret = PLB_OK;
    pthread_mutex_lock(&mutex);
    while (ret == PLB_OK && atomic_load(how->left) > 0) {
        ret = look(how);
    }
    pthread_mutex_unlock(&mutex);
    return ret;
}

/* If a signal ends the wait, this function frees the job if the call has already ended.  If not,
 * the job's thread frees the job at the end of the call. */
static int wait_for_end(job_t *job)
{
    int ret = PLB_OK;
    pthread_mutex_lock(&mutex);
    while (ret == PLB_OK && !job->ended) {
        ret = look(&job->how);
    }
    const bool over = job->ended;
    job->left = !over;
    atomic_fetch_add(job->how.left, !over);
    pthread_mutex_unlock(&mutex);
    if (ret != PLB_OK && over) {
        job->how.free(job->data);
        plb_free(job);
    }
    return ret;
}

int plb_aside_run(const plb_aside_t *how, void *data, plb_err_t *err)
{
    int ret = wait_for_turn(how);
    if (ret != PLB_OK) {
        how->free(data);
        return ret;
    }
    job_t *job = plb_calloc(1, sizeof *job);
    PLB_FAIL_IF(job == NULL, err, PLB_ERR_NOMEM, "out of memory");
    *job = (job_t){.how = *how, .data = data};
    if (!start(job)) {
        plb_free(job);
        return how->run(data, err);
    }
    ret = wait_for_end(job);
    if (ret == PLB_OK) {
        ret = job->code;
        if (ret != PLB_OK && err != NULL) {
            *err = job->err;
        }
        plb_free(job);
    }
    return ret;
}

void plb_aside_wait(atomic_int *left)
{
    pthread_mutex_lock(&mutex);
    while (atomic_load(left) > 0) {
        pause_a_little();
    }
    pthread_mutex_unlock(&mutex);
}

/* Bytes of an array in plb_aside_own's block: a multiple of 8, to align the next array. */
static size_t room_of(const plb_piece_t *piece)
{
    return *piece->at == NULL ? 0 : ((size_t)piece->bytes + 7) / 8 * 8;
}

void *plb_aside_own(const plb_piece_t *piece, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += room_of(&piece[i]);
    }
    char *block = plb_malloc(bytes, 1), *at = block;
    for (int i = 0; block != NULL && i < n; at += room_of(&piece[i++])) {
        if (*piece[i].at != NULL) {
            *piece[i].at = memcpy(at, *piece[i].at, (size_t)piece[i].bytes);
        }
    }
    return block;
}

const char **plb_aside_words(const char *const *word, int n)
{
    size_t bytes = (size_t)n * sizeof *word;
    for (int i = 0; i < n; i++) {
        bytes += strlen(word[i]) + 1;
    }
    const char **out = plb_malloc(bytes, 1);
    if (out == NULL) {
        return NULL;
    }
    char *text = (char *)(out + n);
    for (int i = 0; i < n; i++) {
        const size_t size = strlen(word[i]) + 1;
        out[i] = memcpy(text, word[i], size);
        text += size;
    }
    return out;
}

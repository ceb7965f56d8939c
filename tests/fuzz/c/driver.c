/* Runs a harness without libFuzzer.  Arguments: files and folders with inputs; runs=N: then also N
 * inputs of random bytes; seed=S; most=B: largest number of bytes of a random input.  A call that
 * takes more than 20 s ends the program. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feed.h"

enum { MOST = 1 << 20, SECONDS = 20 };
static uint8_t input[MOST];
static size_t length;

/* Write the input to a file, so that it can be replayed. */
static void keep(int signal)
{
    FILE *out = fopen("crash-input", "wb");
    if (out != NULL) {
        fwrite(input, 1, length, out);
        fclose(out);
    }
    fprintf(stderr, "signal %d: the input is in ./crash-input\n", signal);
    _exit(1);
}

static void run(void)
{
    alarm(SECONDS);
    /* so that a sanitizer finds every access beyond it */
    uint8_t *exact = malloc(length + (length == 0));
    memcpy(exact, input, length);
    LLVMFuzzerTestOneInput(exact, length);
    free(exact);
    alarm(0);
}

static long replay(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        FILE *in = fopen(path, "rb");
        if (in == NULL) {
            perror(path);
            exit(2);
        }
        length = fread(input, 1, sizeof input, in);
        fclose(in);
        run();
        return 1;
    }
    long n = 0;
    for (struct dirent *one; (one = readdir(folder)) != NULL;) {
        char name[4096];
        if (one->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, one->d_name);
            n += replay(name);
        }
    }
    closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    long runs = 0, seed = 1, most = 256, n = 0;
    signal(SIGABRT, keep);
    signal(SIGALRM, keep);
    signal(SIGSEGV, keep);
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "runs=%ld", &runs) + sscanf(argv[i], "seed=%ld", &seed) +
                sscanf(argv[i], "most=%ld", &most) ==
            0) {
            n += replay(argv[i]);
        }
    }
    plb_rng_t rng;
    plb_rng_init(&rng, (uint64_t)seed);
    for (long k = 0; k < runs; k++) {
        length = plb_rng_below(&rng, (uint64_t)(most < MOST ? most : MOST) + 1);
        for (size_t i = 0; i < length; i++) {
            input[i] = (uint8_t)plb_rng_next(&rng);
        }
        run();
    }
    printf("%ld files, %ld random inputs: ok\n", n, runs);
    return 0;
}

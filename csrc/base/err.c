#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool traces(void)
{
    const char *trace = getenv("PLB_TRACE");
    return trace != NULL && strcmp(trace, "1") == 0;
}

int plb_fail(plb_err_t *err, int code, const char *file, int line, const char *fmt, ...)
{
    plb_err_t unread, *to = err == NULL ? &unread : err;
    va_list args;
    va_start(args, fmt);
    to->code = code;
    vsnprintf(to->text, sizeof to->text, fmt, args);
    va_end(args);
    if (traces()) {
        fprintf(stderr, "pylb: %s:%d: %s\n", file, line, to->text);
    }
    return code;
}

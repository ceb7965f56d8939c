#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int plb_fail(plb_err_t *err, int code, const char *file, int line, const char *fmt, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        err->code = code;
        vsnprintf(err->text, sizeof err->text, fmt, args);
        va_end(args);
        if (getenv("PLB_TRACE") != NULL) {
            fprintf(stderr, "pylb: %s:%d: %s\n", file, line, err->text);
        }
    }
    return code;
}

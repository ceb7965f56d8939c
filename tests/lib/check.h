/* What the programs of this folder share. */
#pragma once
#include <pylb.h>
#include <stdio.h>

/* Print the message of a call that failed; return its code. */
static inline int check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "error: %s\n", pylb_error());
    }
    return code;
}

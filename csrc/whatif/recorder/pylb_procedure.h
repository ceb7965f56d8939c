/* For C programs: marks a block as a procedure for `pylb record`.  Without the recorder, the
 * macro does nothing; no library has to be linked.
 *
 *     void serve(void)
 *     {
 *         PYLB_PROCEDURE("serve");
 *         ...
 *     } */
#pragma once

extern int pylb_procedure(const char *name) __attribute__((weak));
extern void pylb_procedure_enter(int number) __attribute__((weak));
extern void pylb_procedure_leave(int number) __attribute__((weak));

static inline int pylb_procedure_begin(const char *name)
{
    const int number = pylb_procedure ? pylb_procedure(name) : -1;
    if (number >= 0) {
        pylb_procedure_enter(number);
    }
    return number;
}

static inline void pylb_procedure_end(const int *number)
{
    if (*number >= 0) {
        pylb_procedure_leave(*number);
    }
}

/* Mark the rest of the block as a procedure. */
#define PYLB_PROCEDURE(name)                                                                      \
    __attribute__((cleanup(pylb_procedure_end), unused)) const int pylb_procedure_here =          \
        pylb_procedure_begin(name)

/* Tests that list themselves: TEST(name) { ... } runs it; a file of tests needs no main(). */
#ifndef TEST_H
#define TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct CMUnitTest test_list[32];
static size_t test_count;

#define TEST(name)                                                                                \
    static void name(void);                                                                       \
    static void run_##name(void **state)                                                          \
    {                                                                                             \
        (void)state;                                                                              \
        name();                                                                                   \
    }                                                                                             \
    __attribute__((constructor)) static void list_##name(void)                                    \
    {                                                                                             \
        test_list[test_count++] = (struct CMUnitTest){#name, run_##name, NULL, NULL, NULL};       \
    }                                                                                             \
    static void name(void)

int main(void)
{
    return _cmocka_run_group_tests(__BASE_FILE__, test_list, test_count, NULL, NULL);
}

#endif

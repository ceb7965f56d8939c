/* Numbers as text, with a decimal point.  A program's locale can replace the point by a comma. */
#pragma once

#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/** From now on, this thread reads and writes numbers with a point; pass the result to
 * plb_point_end. */
static inline locale_t plb_point_begin(void)
{
    const locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return c == (locale_t)0 ? c : uselocale(c);
}

/** Give this thread its locale back. */
static inline void plb_point_end(locale_t before)
{
    if (before != (locale_t)0) {
        freelocale(uselocale(before));
    }
}

/** Like strtod, with a point in every locale.  Without memory for a locale: NAN, as for a text
 * that is no number. */
static inline double plb_point_read(const char *text, char **end)
{
    double out = NAN;
    char *stop = (char *)(uintptr_t)text;
    const locale_t before = plb_point_begin();
    if (before != (locale_t)0) {
        out = strtod(text, &stop);
        plb_point_end(before);
    }
    if (end != NULL) {
        *end = stop;
    }
    return out;
}

/* A strict JSON reader of text in memory (RFC 8259; strings in UTF-8).  It reads the text once,
 * and allocates no memory.
 *
 * For each object the caller lists the known keys, which may occur only once; values of other keys
 * are checked and skipped.  Errors give file, byte, line and what was expected. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { PLB_JSON_MAX_DEPTH = 128 }; /* deepest nesting; limited, because the reader is recursive */

typedef struct plb_json {
    const char *text, *at, *end;
    const char *name; /* the file's name, for messages */
    int depth;
    plb_err_t *err;
} plb_json_t;

/* Bytes begin ... end - 1 of the text. */
typedef struct plb_span {
    uint64_t begin, end;
} plb_span_t;

typedef struct plb_number {
    uint64_t digits; /* the value is +-digits * 10^exponent if `long_` is false */
    int exponent;
    bool negative, integer; /* integer: the text has neither a point nor an exponent */
    bool long_;             /* the digits do not fit into 64 bits; use the text */
    const char *begin;
} plb_number_t;

typedef struct plb_key {
    const char *name;
    uint8_t size;
    bool required;
} plb_key_t;

#define PLB_KEY(name, required)                                                                   \
    {                                                                                             \
        name, sizeof name - 1, required                                                           \
    }

/** Read the value of key number `key`, or the next array item.  into: the caller's pointer. */
typedef int (*plb_json_field_fn)(plb_json_t *self, int key, void *into);
typedef int (*plb_json_item_fn)(plb_json_t *self, void *into);

typedef struct plb_shape {
    const char *what; /* name of the object in error messages */
    const plb_key_t *keys;
    int n_keys; /* at most 32 */
    plb_json_field_fn field;
} plb_shape_t;

void plb_json_init(plb_json_t *self, const char *text, size_t size, const char *name,
                   plb_err_t *err);

/** Report an error at byte `at`: PLB_ERR_FORMAT, "name, byte b, line l: ...". */
int plb_json_fail(const plb_json_t *self, const char *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** The next character after white space; 0 at the end of the text. */
char plb_json_peek(plb_json_t *self);

int plb_json_object(plb_json_t *self, const plb_shape_t *shape, void *into);
int plb_json_array(plb_json_t *self, const char *what, plb_json_item_fn item, void *into);
int plb_json_skip(plb_json_t *self);

/** Read the text between the quotes, with its escapes unchanged. */
int plb_json_string(plb_json_t *self, const char **begin, size_t *size);
int plb_json_bool(plb_json_t *self, const char *what, bool *out);
int plb_json_double(plb_json_t *self, const char *what, double least, double *out);
int plb_json_int(plb_json_t *self, const char *what, int64_t least, int64_t most, int64_t *out);

/** Read an integer of 64 bits; values of 2^63 and above keep their bits and so become negative. */
int plb_json_id(plb_json_t *self, const char *what, int64_t *out);

int plb_json_finish(plb_json_t *self);

static inline uint64_t plb_json_offset(const plb_json_t *self)
{
    return (uint64_t)(self->at - self->text);
}

#include "io/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/point.h"
#include "io/decimal.h"

void plb_json_init(plb_json_t *self, const char *text, size_t size, const char *name,
                   plb_err_t *err)
{
    *self = (plb_json_t){.text = text, .at = text, .end = text + size, .name = name, .err = err};
}

int plb_json_fail(const plb_json_t *self, const char *at, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    long long line = 1;
    for (const char *p = self->text; p < at; p++) {
        line += *p == '\n';
    }
    return PLB_FAIL(self->err, PLB_ERR_FORMAT, "%.200s, byte %lld, line %lld: %s", self->name,
                    (long long)(at - self->text), line, what);
}

static int unexpected(const plb_json_t *self, const char *what, const char *expected)
{
    if (self->at == self->end) {
        return plb_json_fail(self, self->at, "%s: the file ends here, expected %s", what,
                             expected);
    }
    const unsigned char c = (unsigned char)*self->at;
    if (c > ' ' && c < 0x7f) {
        return plb_json_fail(self, self->at, "%s: expected %s, found '%c'", what, expected, c);
    }
    return plb_json_fail(self, self->at, "%s: expected %s, found byte 0x%02x", what, expected, c);
}

char plb_json_peek(plb_json_t *self)
{
    while (self->at < self->end &&
           (*self->at == ' ' || *self->at == '\n' || *self->at == '\r' || *self->at == '\t')) {
        self->at++;
    }
    return self->at < self->end ? *self->at : 0;
}

/* ---- strings -------------------------------------------------------------------------------- */

static int hex_digits(plb_json_t *self)
{
    for (int i = 0; i < 4; i++, self->at++) {
        const char c = self->at < self->end ? *self->at : 0;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) {
            return unexpected(self, "string", "four hexadecimal digits after \\u");
        }
    }
    return PLB_OK;
}

static int escape(plb_json_t *self)
{
    self->at++;
    const char c = self->at < self->end ? *self->at : 0;
    if (c == 0 || strchr("\"\\/bfnrtu", c) == NULL) {
        return unexpected(self, "string", "one of \"\\/bfnrtu after \\");
    }
    self->at++;
    return c == 'u' ? hex_digits(self) : PLB_OK;
}

/* Skip a character of two to four bytes (Unicode 15, table 3-7). */
static int utf8(plb_json_t *self)
{
    const unsigned char *p = (const unsigned char *)self->at;
    const ptrdiff_t left = self->end - self->at;
    const int n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                  : p[0] >= 0xe0 && p[0] <= 0xef ? 3
                  : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                 : 0;
    bool good = n != 0 && left >= n;
    for (int i = 1; good && i < n; i++) {
        good = (p[i] & 0xc0) == 0x80;
    }
    if (good && n > 2) {
        good = !(p[0] == 0xe0 && p[1] < 0xa0) && !(p[0] == 0xed && p[1] > 0x9f) &&
               !(p[0] == 0xf0 && p[1] < 0x90) && !(p[0] == 0xf4 && p[1] > 0x8f);
    }
    if (!good) {
        return unexpected(self, "string", "UTF-8");
    }
    self->at += n;
    return PLB_OK;
}

int plb_json_string(plb_json_t *self, const char **begin, size_t *size)
{
    if (plb_json_peek(self) != '"') {
        return unexpected(self, "string", "a string in double quotes");
    }
    *begin = ++self->at;
    for (;;) {
        int ret = PLB_OK;
        while (self->at < self->end && (unsigned char)*self->at >= ' ' && *self->at != '"' &&
               *self->at != '\\' && (unsigned char)*self->at < 0x80) {
            self->at++;
        }
        if (self->at == self->end) {
            return unexpected(self, "string", "'\"'");
        }
        if (*self->at == '"') {
            *size = (size_t)(self->at++ - *begin);
            return PLB_OK;
        }
        if (*self->at == '\\') {
            ret = escape(self);
        } else if ((unsigned char)*self->at >= 0x80) {
            ret = utf8(self);
        } else {
            ret = unexpected(self, "string", "an escape instead of a control character");
        }
        if (ret != PLB_OK) {
            return ret;
        }
    }
}

/* ---- numbers -------------------------------------------------------------------------------- */

static inline bool digit(const plb_json_t *self, const char *p)
{
    return p < self->end && *p >= '0' && *p <= '9';
}

static const char *digits(const plb_json_t *self, const char *p, plb_number_t *out)
{
    for (; digit(self, p); p++) {
        out->long_ |= __builtin_mul_overflow(out->digits, UINT64_C(10), &out->digits);
        out->long_ |= __builtin_add_overflow(out->digits, (uint64_t)(*p - '0'), &out->digits);
    }
    return p;
}

/* Read an exponent from its e or E at p on; return its end, or NULL if no digit follows. */
static const char *exponent(const plb_json_t *self, const char *p, plb_number_t *out)
{
    int value = 0;
    p++;
    const bool negative = p < self->end && *p == '-';
    p += p < self->end && (*p == '-' || *p == '+');
    if (!digit(self, p)) {
        return NULL;
    }
    for (; digit(self, p); p++) {
        value = value > 9999 ? value : value * 10 + (*p - '0'); /* doubles end at 1e308 */
    }
    out->exponent += negative ? -value : value;
    return p;
}

static int read_number(plb_json_t *self, const char *what, plb_number_t *out)
{
    const char c = plb_json_peek(self);
    const char *p = self->at;
    *out = (plb_number_t){.begin = p, .integer = true, .negative = c == '-'};
    p += out->negative;
    if (!digit(self, p)) {
        self->at = out->negative ? p : self->at;
        return unexpected(self, what, "a number");
    }
    p = *p == '0' ? p + 1 : digits(self, p, out);
    if (p < self->end && *p == '.') {
        const char *first = ++p;
        p = digits(self, p, out);
        out->exponent = first - p < -9999 ? -9999 : (int)(first - p);
        out->integer = false;
        self->at = p;
        if (p == first) {
            return unexpected(self, what, "a digit after '.'");
        }
    }
    if (p < self->end && (*p == 'e' || *p == 'E')) {
        out->integer = false;
        self->at = p;
        p = exponent(self, p, out);
        if (p == NULL) {
            return unexpected(self, what, "digits after the exponent's 'e'");
        }
    }
    self->at = p;
    /* strtod needs a character after the number; a complete file has one, at least its last } */
    if (p == self->end) {
        return unexpected(self, what, "',', ']' or '}'");
    }
    return PLB_OK;
}

/* For digits that do not fit into 64 bits, or an exponent that plb_decimal does not take. */
static double slow_decimal(const plb_number_t *x)
{
    return plb_point_read(x->begin, NULL);
}

int plb_json_double(plb_json_t *self, const char *what, double least, double *out)
{
    plb_number_t x;
    PLB_PASS(read_number(self, what, &x));
    if (x.long_ || !plb_decimal(x.digits, x.exponent, out)) {
        *out = slow_decimal(&x);
    } else if (x.negative) {
        *out = -*out;
    }
    if (!(*out >= least && *out <= 1e30)) {
        return plb_json_fail(self, x.begin, "%s is %g: expected a number%s, at most 1e30", what,
                             *out, least == 0 ? ", zero or more" : "");
    }
    return PLB_OK;
}

int plb_json_int(plb_json_t *self, const char *what, int64_t least, int64_t most, int64_t *out)
{
    plb_number_t x;
    PLB_PASS(read_number(self, what, &x));
    const bool fits = x.integer && !x.long_ && x.digits <= (uint64_t)INT64_MAX;
    *out = !fits ? 0 : x.negative ? -(int64_t)x.digits : (int64_t)x.digits;
    if (!fits || *out < least || *out > most) {
        return plb_json_fail(self, x.begin, "%s is %.*s: expected an integer, %lld ... %lld", what,
                             (int)(self->at - x.begin > 40 ? 40 : self->at - x.begin), x.begin,
                             (long long)least, (long long)most);
    }
    return PLB_OK;
}

int plb_json_id(plb_json_t *self, const char *what, int64_t *out)
{
    plb_number_t x;
    PLB_PASS(read_number(self, what, &x));
    if (!x.integer || x.long_ || (x.negative && x.digits > UINT64_C(1) << 63)) {
        return plb_json_fail(self, x.begin, "%s is %.*s: expected an integer of 64 bits", what,
                             (int)(self->at - x.begin > 40 ? 40 : self->at - x.begin), x.begin);
    }
    *out = (int64_t)(x.negative ? 0 - x.digits : x.digits);
    return PLB_OK;
}

/* ---- true, false, null; arrays; objects ----------------------------------------------------- */

static int word(plb_json_t *self, const char *text, size_t size)
{
    if ((size_t)(self->end - self->at) < size || memcmp(self->at, text, size) != 0) {
        return unexpected(self, "value", "a JSON value");
    }
    self->at += size;
    return PLB_OK;
}

int plb_json_bool(plb_json_t *self, const char *what, bool *out)
{
    const char c = plb_json_peek(self);
    if (c != 't' && c != 'f') {
        return unexpected(self, what, "true or false");
    }
    *out = c == 't';
    return *out ? word(self, "true", 4) : word(self, "false", 5);
}

static int enter(plb_json_t *self, char bracket, const char *what)
{
    if (plb_json_peek(self) != bracket) {
        return unexpected(self, what, bracket == '{' ? "an object" : "an array");
    }
    if (++self->depth > PLB_JSON_MAX_DEPTH) {
        return plb_json_fail(self, self->at, "objects and arrays are nested more than %d deep",
                             PLB_JSON_MAX_DEPTH);
    }
    self->at++;
    return PLB_OK;
}

/* *more: true after a comma, false after the closing bracket. */
static int separator(plb_json_t *self, char bracket, const char *what, bool *more)
{
    const char c = plb_json_peek(self);
    *more = c == ',';
    if (c != ',' && c != bracket) {
        return unexpected(self, what, bracket == '}' ? "',' or '}'" : "',' or ']'");
    }
    self->at++;
    self->depth -= c == bracket;
    return PLB_OK;
}

static bool closed_at_once(plb_json_t *self, char bracket)
{
    if (plb_json_peek(self) != bracket) {
        return false;
    }
    self->at++;
    self->depth--;
    return true;
}

int plb_json_array(plb_json_t *self, const char *what, plb_json_item_fn item, void *into)
{
    int ret = enter(self, '[', what);
    bool more = ret == PLB_OK && !closed_at_once(self, ']');
    while (more) {
        if ((ret = item(self, into)) != PLB_OK ||
            (ret = separator(self, ']', what, &more)) != PLB_OK) {
            break;
        }
    }
    return ret;
}

static int key_of(const plb_shape_t *shape, const char *name, size_t size)
{
    for (int i = 0; i < shape->n_keys; i++) {
        if (shape->keys[i].size == size && memcmp(shape->keys[i].name, name, size) == 0) {
            return i;
        }
    }
    return -1;
}

static int member(plb_json_t *self, const plb_shape_t *shape, void *into, uint32_t *seen)
{
    const char *name;
    size_t size;
    PLB_PASS(plb_json_string(self, &name, &size));
    if (plb_json_peek(self) != ':') {
        return unexpected(self, shape->what, "':' after the key");
    }
    self->at++;
    const int key = key_of(shape, name, size);
    if (key < 0) {
        return plb_json_skip(self);
    }
    if (*seen >> key & 1) {
        return plb_json_fail(self, name, "%s has '%s' twice", shape->what, shape->keys[key].name);
    }
    *seen |= UINT32_C(1) << key;
    return shape->field(self, key, into);
}

int plb_json_object(plb_json_t *self, const plb_shape_t *shape, void *into)
{
    int ret = enter(self, '{', shape->what);
    const char *begin = self->at - 1;
    uint32_t seen = 0;
    bool more = ret == PLB_OK && !closed_at_once(self, '}');
    while (more) {
        if ((ret = member(self, shape, into, &seen)) != PLB_OK ||
            (ret = separator(self, '}', shape->what, &more)) != PLB_OK) {
            break;
        }
    }
    for (int i = 0; ret == PLB_OK && i < shape->n_keys; i++) {
        if (shape->keys[i].required && !(seen >> i & 1)) {
            ret = plb_json_fail(self, begin, "%s without '%s'", shape->what, shape->keys[i].name);
        }
    }
    return ret;
}

static int skip_item(plb_json_t *self, void *into)
{
    (void)into;
    return plb_json_skip(self);
}

int plb_json_skip(plb_json_t *self)
{
    static const plb_shape_t any = {"object", NULL, 0, NULL};
    const char *text;
    size_t size;
    plb_number_t number;
    switch (plb_json_peek(self)) {
    case '{':
        return plb_json_object(self, &any, NULL);
    case '[':
        return plb_json_array(self, "array", skip_item, NULL);
    case '"':
        return plb_json_string(self, &text, &size);
    case 't':
        return word(self, "true", 4);
    case 'f':
        return word(self, "false", 5);
    case 'n':
        return word(self, "null", 4);
    default:
        return read_number(self, "value", &number);
    }
}

int plb_json_finish(plb_json_t *self)
{
    plb_json_peek(self);
    return self->at == self->end ? PLB_OK : unexpected(self, "file", "the end of the file");
}

/* JSON of the conformance runner: reading, writing, comparing. */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory */

/* Everything is taken from one list of blocks, which are freed together. */
union block {
    union block *next;
    max_align_t aligned;
};

static union block *blocks;

static void *take(size_t size) {
    union block *block = malloc(sizeof *block + size);
    if (block == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    block->next = blocks;
    blocks = block;
    return block + 1;
}

void json_release(void) {
    while (blocks != NULL) {
        union block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

/* Making values */

static json *make(enum json_kind kind) {
    json *value = take(sizeof *value);
    memset(value, 0, sizeof *value);
    value->kind = kind;
    return value;
}

static const json *make_text(enum json_kind kind, const char *text, size_t len) {
    json *value = make(kind);
    char *copy = take(len + 1);
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    value->text = copy;
    value->len = len;
    return value;
}

const json *json_null(void) { return make(JSON_NULL); }

const json *json_text(const char *text, size_t len) { return make_text(JSON_TEXT, text, len); }

static const json *spelled(const char *spelling) { return make_text(JSON_NUMBER, spelling, strlen(spelling)); }

const json *json_unsigned(uint64_t number) {
    char spelling[32];
    snprintf(spelling, sizeof spelling, "%" PRIu64, number);
    return spelled(spelling);
}

const json *json_signed(int64_t number) {
    char spelling[32];
    snprintf(spelling, sizeof spelling, "%" PRId64, number);
    return spelled(spelling);
}

const json *json_double(double number) {
    char spelling[40];
    snprintf(spelling, sizeof spelling, "%.17g", number);
    return spelled(spelling);
}

json *json_array(void) { return make(JSON_ARRAY); }

json *json_object(void) { return make(JSON_OBJECT); }

static const json **longer(const json **old, size_t count, size_t room) {
    const json **items = take(room * sizeof *items);
    if (count > 0)
        memcpy(items, old, count * sizeof *items);
    return items;
}

void json_add(json *array, const json *item) { json_set_named(array, NULL, item); }

void json_set(json *object, const char *name, const json *item) {
    json_set_named(object, json_text(name, strlen(name)), item);
}

void json_set_named(json *object, const json *name, const json *item) {
    if (object->count == object->room) {
        object->room = object->room == 0 ? 8 : object->room * 2;
        object->items = longer(object->items, object->count, object->room);
        object->names = longer(object->names, object->count, object->room);
    }
    object->items[object->count] = item;
    object->names[object->count] = name;
    object->count++;
}

static int same_text(const json *a, const json *b) { return a->len == b->len && memcmp(a->text, b->text, a->len) == 0; }

static const json *get_named(const json *object, const json *name) {
    size_t i;
    for (i = 0; i < object->count; i++)
        if (same_text(object->names[i], name))
            return object->items[i];
    return NULL;
}

const json *json_get(const json *value, const char *name) {
    size_t i;
    if (value != NULL && value->kind == JSON_OBJECT)
        for (i = 0; i < value->count; i++)
            if (json_is(value->names[i], name))
                return value->items[i];
    return NULL;
}

int json_is(const json *value, const char *text) {
    return value != NULL && value->kind == JSON_TEXT && value->len == strlen(text) &&
           memcmp(value->text, text, value->len) == 0;
}

/* Reading */

struct reader {
    const char *start, *at, *end;
};

static const json *read_value(struct reader *in);

static int next_is(const struct reader *in, char byte) { return in->at < in->end && *in->at == byte; }

static int take_byte(struct reader *in, char byte) {
    if (!next_is(in, byte))
        return 0;
    in->at++;
    return 1;
}

static void skip_space(struct reader *in) {
    while (in->at < in->end && strchr(" \t\r\n", *in->at) != NULL && *in->at != '\0')
        in->at++;
}

static int take_word(struct reader *in, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(in->end - in->at) < len || memcmp(in->at, word, len) != 0)
        return 0;
    in->at += len;
    return 1;
}

static int take_digits(struct reader *in) {
    const char *first = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return in->at > first;
}

static const json *read_number(struct reader *in) {
    const char *first = in->at;
    (void)take_byte(in, '-');
    if (!take_byte(in, '0') && !take_digits(in))
        return NULL;
    if (take_byte(in, '.') && !take_digits(in))
        return NULL;
    if (take_byte(in, 'e') || take_byte(in, 'E')) {
        if (!take_byte(in, '+'))
            (void)take_byte(in, '-');
        if (!take_digits(in))
            return NULL;
    }
    return make_text(JSON_NUMBER, first, (size_t)(in->at - first));
}

/* Four hexadecimal digits; -1 if they are none. */
static long read_hex(struct reader *in) {
    long number = 0;
    int i;
    for (i = 0; i < 4; i++, in->at++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char *digit = in->at < in->end && *in->at != '\0' ? strchr(digits, *in->at) : NULL;
        if (digit == NULL)
            return -1;
        number = number * 16 + (digit - digits < 16 ? digit - digits : digit - digits - 6);
    }
    return number;
}

static char *put_utf8(char *out, unsigned long code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    } else {
        *out++ = (char)(0xF0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

/* What follows a backslash; NULL if that is no escape. No escape is shorter than what it stands for. */
static char *read_escape(struct reader *in, char *out) {
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char *letter;
    long code, low;
    if (take_byte(in, 'u')) {
        if ((code = read_hex(in)) < 0)
            return NULL;
        if (code >= 0xD800 && code < 0xDC00) {
            struct reader ahead = *in;
            if (take_word(&ahead, "\\u") && (low = read_hex(&ahead)) >= 0xDC00 && low < 0xE000) {
                *in = ahead;
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            }
        }
        return put_utf8(out, (unsigned long)code);
    }
    letter = in->at < in->end && *in->at != '\0' ? strchr(letters, *in->at) : NULL;
    if (letter == NULL)
        return NULL;
    in->at++;
    *out++ = bytes[letter - letters];
    return out;
}

static const json *read_text(struct reader *in) {
    json *value = make(JSON_TEXT);
    const char *close = in->at + 1;
    char *bytes, *out;
    if (!take_byte(in, '"'))
        return NULL;
    while (close < in->end && *close != '"')
        close += *close == '\\' ? 2 : 1;
    if (close >= in->end)
        return NULL;
    bytes = out = take((size_t)(close - in->at) + 1);
    while (in->at < close) {
        if ((unsigned char)*in->at < 0x20)
            return NULL;
        if (take_byte(in, '\\')) {
            if ((out = read_escape(in, out)) == NULL)
                return NULL;
        } else {
            *out++ = *in->at++;
        }
    }
    in->at++;
    *out = '\0';
    value->text = bytes;
    value->len = (size_t)(out - bytes);
    return value;
}

static const json *read_items(struct reader *in, enum json_kind kind, char close) {
    json *value = make(kind);
    in->at++;
    skip_space(in);
    if (take_byte(in, close))
        return value;
    do {
        const json *name = NULL, *item;
        skip_space(in);
        if (kind == JSON_OBJECT) {
            if ((name = read_text(in)) == NULL)
                return NULL;
            skip_space(in);
            if (!take_byte(in, ':'))
                return NULL;
        }
        if ((item = read_value(in)) == NULL)
            return NULL;
        json_set_named(value, name, item);
        skip_space(in);
    } while (take_byte(in, ','));
    return take_byte(in, close) ? value : NULL;
}

static const json *read_value(struct reader *in) {
    skip_space(in);
    if (next_is(in, '{'))
        return read_items(in, JSON_OBJECT, '}');
    if (next_is(in, '['))
        return read_items(in, JSON_ARRAY, ']');
    if (next_is(in, '"'))
        return read_text(in);
    if (take_word(in, "null"))
        return make(JSON_NULL);
    if (take_word(in, "true"))
        return make(JSON_TRUE);
    if (take_word(in, "false"))
        return make(JSON_FALSE);
    return read_number(in);
}

const json *json_parse(const char *text, size_t len, size_t *offset) {
    struct reader in = {text, text, text + len};
    const json *value = read_value(&in);
    skip_space(&in);
    *offset = (size_t)(in.at - in.start);
    return in.at == in.end ? value : NULL;
}

/* Writing: once to count, once to write. */

struct writer {
    char *out;
    size_t len;
};

static void put(struct writer *to, const char *bytes, size_t len) {
    if (to->out != NULL)
        memcpy(to->out + to->len, bytes, len);
    to->len += len;
}

static void put_text(struct writer *to, const json *text) {
    static const char letters[] = "btnvfr"; /* from 8 on; 11 has no letter in JSON */
    size_t i;
    put(to, "\"", 1);
    for (i = 0; i < text->len; i++) {
        unsigned char byte = (unsigned char)text->text[i];
        char escape[8] = {'\\', (char)byte};
        if (byte == '"' || byte == '\\') {
            put(to, escape, 2);
        } else if (byte >= 8 && byte <= 13 && byte != 11) {
            escape[1] = letters[byte - 8];
            put(to, escape, 2);
        } else if (byte < 0x20) {
            put(to, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", byte));
        } else {
            put(to, escape + 1, 1);
        }
    }
    put(to, "\"", 1);
}

static void put_value(struct writer *to, const json *value) {
    size_t i;
    switch (value->kind) {
    case JSON_NULL:
        put(to, "null", 4);
        break;
    case JSON_FALSE:
        put(to, "false", 5);
        break;
    case JSON_TRUE:
        put(to, "true", 4);
        break;
    case JSON_NUMBER:
        put(to, value->text, value->len);
        break;
    case JSON_TEXT:
        put_text(to, value);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        put(to, value->kind == JSON_ARRAY ? "[" : "{", 1);
        for (i = 0; i < value->count; i++) {
            if (i > 0)
                put(to, ",", 1);
            if (value->kind == JSON_OBJECT) {
                put_text(to, value->names[i]);
                put(to, ":", 1);
            }
            put_value(to, value->items[i]);
        }
        put(to, value->kind == JSON_ARRAY ? "]" : "}", 1);
        break;
    }
}

const json *json_write(const json *value) {
    struct writer count = {NULL, 0}, to = {NULL, 0};
    json *text = make(JSON_TEXT);
    put_value(&count, value);
    to.out = take(count.len + 1);
    put_value(&to, value);
    to.out[to.len] = '\0';
    text->text = to.out;
    text->len = to.len;
    return text;
}

/* Comparing */

int json_equal(const json *expected, const json *actual) {
    size_t i;
    if (json_is(expected, "$any"))
        return 1;
    if (expected->kind != actual->kind)
        return 0;
    switch (expected->kind) {
    case JSON_NUMBER:
        return strtod(expected->text, NULL) == strtod(actual->text, NULL);
    case JSON_TEXT:
        return same_text(expected, actual);
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (expected->count != actual->count)
            return 0;
        for (i = 0; i < expected->count; i++) {
            const json *other = actual->items[i];
            if (expected->kind == JSON_OBJECT)
                other = get_named(actual, expected->names[i]);
            if (other == NULL || !json_equal(expected->items[i], other))
                return 0;
        }
        return 1;
    default:
        return 1;
    }
}

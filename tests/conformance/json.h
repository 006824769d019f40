/*
 * JSON as the conformance runner needs it: numbers keep their spelling, texts may hold a NUL.
 *
 * What is made here lives until json_release; nothing is freed by itself, nothing is changed once it was built.
 */
#ifndef CONFORMANCE_JSON_H
#define CONFORMANCE_JSON_H

#include <stddef.h>
#include <stdint.h>

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT };

typedef struct json json;

struct json {
    enum json_kind kind;
    /* The bytes of a text, the spelling of a number; a NUL that is not counted follows. */
    const char *text;
    size_t len;
    /* The items of an array or object, and for an object their names, which are texts. */
    const json **items;
    const json **names;
    size_t count;
    size_t room;
};

/* Reads a JSON text. NULL if it is none; *offset is then the byte at which that shows. */
const json *json_parse(const char *text, size_t len, size_t *offset);

/* The value as compact JSON. */
const json *json_write(const json *value);

/* Equality as the cases mean it: numbers by value, fields in any order, "$any" for whatever is there. */
int json_equal(const json *expected, const json *actual);

const json *json_null(void);
const json *json_text(const char *text, size_t len);
const json *json_unsigned(uint64_t number);
const json *json_signed(int64_t number);
const json *json_double(double number);

json *json_array(void);
void json_add(json *array, const json *item);
json *json_object(void);
void json_set(json *object, const char *name, const json *item);
void json_set_named(json *object, const json *name, const json *item);

/* The field of an object; NULL if there is none, or value is no object. */
const json *json_get(const json *value, const char *name);

/* Whether value, which may be NULL, is this text. */
int json_is(const json *value, const char *text);

/* Frees all that was made. */
void json_release(void);

#endif

/*
 * Every function of pisession.h as a table: what its parameters are, and how it is called with an array of them.
 * calls.inc is made from the header by the test that compiles these programs.
 */
#ifndef TABLE_H
#define TABLE_H

#include "../check.h"

/* Kinds of parameters, and of the fields of option structs. */
enum {
    HANDLE = 1,     /* a checked handle of the type `about` */
    OBJECT,         /* a plain pointer of the type `about` */
    OUT,            /* where one of the type `about` is put */
    FAILURE,        /* pi_error ** */
    TEXT,           /* bytes, which LENGTH follows */
    LENGTH,
    TEXTS,          /* an array of texts, which LENGTHS and COUNT follow */
    LENGTHS,
    CELLS,          /* an array of pi_cell, which COUNT follows */
    COUNT,
    OPTIONS,        /* a struct with a struct_size; SIZE follows where it is initialised */
    VIEW,           /* a struct to be filled, which SIZE follows */
    SIZE,
    NUMBER,
    REAL,
    OUT_NUMBER,
    NUMBER_OR_NULL,
    FUNCTION,       /* a callback: none for 0 */
    USER_DATA
};

/* Kinds of results. */
enum { CODE, BORROWED, OTHER };

enum { MOST_PARAMETERS = 16 };

union argument {
    void *pointer;
    uint64_t number;
};

struct parameter {
    int kind;
    int about;
    const char *name;
};

struct function {
    const char *name;
    int result;
    int64_t (*call)(const union argument *arguments);
    const struct parameter *parameters;
    size_t count;
};

struct field {
    const char *name;
    size_t offset;
    int kind;
    int about;
};

struct structure {
    const char *name;
    size_t size;
    const struct field *fields;
    size_t count;
};

struct type {
    const char *name;
    int is_handle;
    int32_t (*free)(void *pointer);
};

/* The callbacks that a program gives where FUNCTION is not 0. */
static int32_t given_pi_mutate_function(pi_mutation *mutation, const pi_context *context, void *user_data,
                                        pi_error **error);
static void given_pi_drop_function(void *user_data);
static void given_pi_set_log_function(int64_t level, const char *line, size_t line_len, void *user_data);
static void given_pi_set_log_drop(void *user_data);

#include "calls.inc"

enum { FUNCTIONS_COUNT = sizeof FUNCTIONS / sizeof FUNCTIONS[0] };

static inline int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Live handles and objects, one of each type that can be had with little. */
struct live {
    void *of[TYPES];
};

/* Makes one of each kind of handle, and of what calls make of them. */
static inline struct live make_live(const char *uri, const char *id) {
    struct live live;
    pi_repository *repository = open_quick(uri);
    pi_session *session = create_session(repository, id);
    pi_branch *branch = NULL;
    pi_cursor *cursor = NULL;
    pi_context *context = NULL;
    pi_mutation *mutation = NULL;
    pi_writes *writes = NULL;
    pi_nodes *nodes = NULL;
    pi_entries *entries = NULL;
    pi_buf *buf = NULL;

    memset(&live, 0, sizeof live);
    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_branch_append_message(branch, "{\"role\":\"user\"}", PI_NUL, &buf, NULL, &error));
    OK(pi_branch_entries(branch, NULL, &cursor, NULL, &error));
    OK(pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    OK(pi_context_new(&context, &error));
    OK(pi_writes_new(&writes, &error));
    OK(pi_nodes_new(&nodes, &error));
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    live.of[TYPE_pi_repository] = repository;
    live.of[TYPE_pi_session] = session;
    live.of[TYPE_pi_branch] = branch;
    live.of[TYPE_pi_cursor] = cursor;
    live.of[TYPE_pi_context] = context;
    live.of[TYPE_pi_mutation] = mutation;
    live.of[TYPE_pi_writes] = writes;
    live.of[TYPE_pi_nodes] = nodes;
    live.of[TYPE_pi_entries] = entries;
    live.of[TYPE_pi_buf] = buf;
    return live;
}

static inline void free_live(struct live *live) {
    int type;
    for (type = 0; type < TYPES; type++) {
        CHECK(TYPE[type].free(live->of[type]) == PI_OK);
        live->of[type] = TYPE[type].is_handle ? live->of[type] : NULL;
    }
}

/* Room for what a call of the table may write. */
struct room {
    void *out[MOST_PARAMETERS];
    uint64_t number[MOST_PARAMETERS];
    unsigned char view[MOST_PARAMETERS][512];
};

/* Arguments that no check refuses: live handles, texts that are anything, no options. */
static inline void good_arguments(const struct function *function, const struct live *live, struct room *room,
                                  union argument *arguments) {
    size_t at;

    CHECK(function->count <= MOST_PARAMETERS);
    memset(arguments, 0, MOST_PARAMETERS * sizeof *arguments);
    memset(room, 0xA5, sizeof *room);
    for (at = 0; at < function->count; at++) {
        const struct parameter *parameter = &function->parameters[at];
        switch (parameter->kind) {
        case HANDLE:
        case OBJECT:
            arguments[at].pointer = live->of[parameter->about];
            break;
        case OUT:
        case FAILURE:
            arguments[at].pointer = &room->out[at];
            break;
        case TEXT:
            arguments[at].pointer = (void *)(uintptr_t)"{}";
            break;
        case LENGTH:
            arguments[at].number = 2;
            break;
        case OPTIONS:
        case VIEW:
            arguments[at].pointer = parameter->kind == VIEW ? room->view[at] : NULL;
            break;
        case SIZE:
            arguments[at].number = sizeof room->view[at];
            break;
        case OUT_NUMBER:
            arguments[at].pointer = &room->number[at];
            break;
        case FUNCTION:
            arguments[at].number = 1;
            break;
        default:
            break;
        }
    }
}

/* After a failure every output is NULL or 0, and there is an error. Frees that. */
static inline void check_failure(const struct function *function, int64_t code, const struct room *room,
                                 const union argument *arguments) {
    size_t at, byte;

    for (at = 0; at < function->count; at++) {
        const struct parameter *parameter = &function->parameters[at];
        if (arguments[at].pointer == NULL)
            continue;
        switch (parameter->kind) {
        case OUT:
            CHECK(room->out[at] == NULL);
            break;
        case OUT_NUMBER:
            CHECK(room->number[at] == 0);
            break;
        case VIEW:
            for (byte = 0; byte < arguments[at + 1].number; byte++)
                CHECK(room->view[at][byte] == 0);
            break;
        case FAILURE:
            CHECK(room->out[at] != NULL && pi_error_code(room->out[at]) == code);
            CHECK(pi_error_message(room->out[at])[0] != '\0');
            pi_error_free(room->out[at]);
            break;
        default:
            break;
        }
    }
}

#endif

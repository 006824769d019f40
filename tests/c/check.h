/*
 * What the C test programs share: a check that says where it failed, and the two ways a call can end.
 *
 * Every program takes the URI of an empty repository as its first argument.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pisession.h"

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* A value no output has when a call begins. */
#define DIRTY ((void *)(uintptr_t)8)

/* The call, which names `error` as its last argument, succeeds. */
#define OK(call)                                                                       \
    do {                                                                               \
        pi_error *error = DIRTY;                                                       \
        int32_t code_ = (call);                                                        \
        if (code_ != PI_OK || error != NULL) {                                         \
            fprintf(stderr, "%s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_,   \
                    error == NULL || error == DIRTY ? "" : pi_error_message(error));   \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* The call, which names `error` as its last argument, fails with that number. */
#define FAILS(number, call)                                                            \
    do {                                                                               \
        pi_error *error = DIRTY;                                                       \
        int32_t code_ = (call);                                                        \
        if (code_ != (number) || error == NULL || pi_error_code(error) != (number) ||  \
            pi_error_message(error)[0] == '\0' || pi_error_kind(error)[0] == '\0') {   \
            fprintf(stderr, "%s:%d: %s: %d in place of %d, %s\n", __FILE__, __LINE__,  \
                    #call, code_, (number),                                            \
                    error == NULL ? "without an error" : pi_error_message(error));     \
            exit(1);                                                                   \
        }                                                                              \
        pi_error_free(error);                                                          \
    } while (0)

#define CHECK_TEXT(text, expected)                                                     \
    do {                                                                               \
        const char *text_ = (text);                                                    \
        if (text_ == NULL || strcmp(text_, (expected)) != 0) {                         \
            fprintf(stderr, "%s:%d: '%s' in place of '%s'\n", __FILE__, __LINE__,      \
                    text_ == NULL ? "(NULL)" : text_, (expected));                     \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* A repository at that URI; what is tested here needs no power loss survived. */
static inline pi_repository *open_quick(const char *uri) {
    pi_repository *repository = NULL;
    pi_repository_options options;
    pi_repository_options_init(&options, sizeof options);
    options.durability = PI_DURABILITY_PROCESS;
    OK(pi_repository_open(uri, PI_NUL, &options, &repository, NULL, &error));
    return repository;
}

/* A repository at the URI of the command line. */
static inline pi_repository *open_repository(int argc, char **argv) {
    CHECK(argc == 2);
    return open_quick(argv[1]);
}

/* A new session of that id. */
static inline pi_session *create_session(pi_repository *repository, const char *id) {
    pi_session *session = NULL;
    pi_session_options options;
    pi_session_options_init(&options, sizeof options);
    options.id = id;
    options.id_len = PI_NUL;
    OK(pi_session_create(repository, &options, &session, NULL, &error));
    return session;
}

/* Closes and frees both; then nothing may be left. */
static inline void finish(pi_repository *repository, pi_session *session) {
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
    OK(pi_repository_close(repository, NULL, &error));
    CHECK(pi_repository_free(repository) == PI_OK);
    CHECK(pi_debug_live_handles() == 0);
}

#endif

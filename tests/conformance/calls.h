/*
 * The calls that a conformance case can make, each as the C function or functions it stands for.
 */
#ifndef CONFORMANCE_CALLS_H
#define CONFORMANCE_CALLS_H

#include "json.h"
#include "pisession.h"

/* What a handle is of; several, where an operation is for more than one. */
enum handle_kind { NO_HANDLE = 0, REPOSITORY = 1, SESSION = 2, MUTATION = 4, BRANCH = 8 };

struct handle {
    enum handle_kind kind;
    union {
        pi_repository *repository;
        pi_session *session;
        pi_mutation *mutation;
        pi_branch *branch;
    };
};

/* One call: what goes in, and what came of it. */
struct call {
    const json *args;
    struct handle on;
    const pi_context *context;
    /* What it gave, when the library took it. */
    const json *result;
    /* The handle it made, if it made one. */
    struct handle made;
    /* What the library refused it with. */
    pi_error *error;
    /* What is wrong with the case itself, or with what the library gave; else empty. */
    char wrong[200];
};

/* Frees a handle; a mutation ends by it. */
int32_t handle_free(struct handle handle);

/* Whether the operation is one of the repository, and so names no handle. */
int call_is_of_repository(const char *operation);

/* Makes the call: PI_OK, or what the library refused it with. */
int32_t call_make(const char *operation, struct call *call);

#endif

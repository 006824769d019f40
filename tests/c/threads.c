/* Handles are used from several threads at once. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

enum { ROUNDS = 100, ENTRIES = 600, THREADS = 6, APPENDS = 10 };

static int32_t count_one(pi_mutation *mutation, const pi_context *context, void *user_data, pi_error **error) {
    pi_buf *stored = NULL;
    pi_writes *writes = NULL;
    char text[32];
    int32_t code;
    (void)user_data;

    code = pi_mutation_get_value(mutation, "app", 3, "count", PI_NUL, &stored, NULL, context, error);
    if (code < 0)
        return code;
    snprintf(text, sizeof text, "%ld", stored == NULL ? 1L : atol(pi_buf_data(stored)) + 1);
    pi_buf_free(stored);
    code = pi_writes_new(&writes, error);
    if (code == PI_OK)
        code = pi_writes_set_value(writes, "app", 3, "count", PI_NUL, text, PI_NUL, error);
    if (code == PI_OK)
        code = pi_mutation_commit(mutation, writes, NULL, context, error);
    pi_writes_free(writes);
    return code;
}

static void *count(void *session) {
    int round;
    for (round = 0; round < ROUNDS; round++)
        OK(pi_session_mutate(session, count_one, NULL, NULL, NULL, &error));
    return NULL;
}

static void two_threads_count_without_losing_one(pi_session *session) {
    pthread_t threads[2];
    pi_buf *value = NULL;
    char expected[32];
    int thread;

    for (thread = 0; thread < 2; thread++)
        CHECK(pthread_create(&threads[thread], NULL, count, session) == 0);
    for (thread = 0; thread < 2; thread++)
        CHECK(pthread_join(threads[thread], NULL) == 0);
    OK(pi_session_get_value(session, "app", 3, "count", PI_NUL, &value, NULL, NULL, &error));
    snprintf(expected, sizeof expected, "%d", 2 * ROUNDS);
    CHECK_TEXT(pi_buf_data(value), expected);
    pi_buf_free(value);
}

struct waiter {
    pi_session *session;
    pi_context *context;
    int32_t code;
};

static void *wait_for_the_line(void *argument) {
    struct waiter *waiter = argument;
    pi_mutation *mutation = DIRTY;
    waiter->code = pi_mutation_begin(waiter->session, &mutation, waiter->context, NULL);
    CHECK((mutation == NULL) == (waiter->code != PI_OK));
    CHECK(pi_mutation_free(mutation) == PI_OK);
    return NULL;
}

static void a_waiter_is_cancelled_from_another_thread(pi_session *session) {
    struct waiter waiter = {session, NULL, PI_OK};
    pi_mutation *mutation = NULL;
    pthread_t thread;

    OK(pi_context_new(&waiter.context, &error));
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    CHECK(pthread_create(&thread, NULL, wait_for_the_line, &waiter) == 0);
    OK(pi_context_cancel(waiter.context, &error));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(waiter.code == PI_CANCELLED);
    CHECK(pi_context_free(waiter.context) == PI_OK);

    /* A deadline ends the waiting too, and reads never wait. */
    OK(pi_context_new(&waiter.context, &error));
    OK(pi_context_set_timeout(waiter.context, 5, &error));
    CHECK(pthread_create(&thread, NULL, wait_for_the_line, &waiter) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(waiter.code == PI_DEADLINE_EXCEEDED);
    CHECK(pi_context_free(waiter.context) == PI_OK);
    CHECK(pi_mutation_free(mutation) == PI_OK);
}

static void *end_from_another_thread(void *mutation) {
    OK(pi_mutation_end(mutation, &error));
    return NULL;
}

static void a_mutation_moves_between_threads(pi_session *session) {
    pi_mutation *mutation = NULL;
    pthread_t thread;
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    CHECK(pthread_create(&thread, NULL, end_from_another_thread, mutation) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pi_mutation_free(mutation) == PI_OK);
    OK(pi_session_set_name(session, "free again", PI_NUL, NULL, &error));
}

static atomic_int steps, refused, ready;

static void *step_through(void *cursor) {
    pi_entry entry;
    int32_t code;

    /* Both begin at once. */
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < 2)
        sched_yield();
    do {
        code = pi_cursor_next(cursor, &entry, sizeof entry, NULL);
        CHECK(code == PI_OK || code == PI_MISUSE);
        if (code == PI_MISUSE) {
            CHECK(entry.id == NULL);
            atomic_fetch_add(&refused, 1);
            sched_yield();
        } else if (entry.id != NULL) {
            atomic_fetch_add(&steps, 1);
        }
    } while (code == PI_MISUSE || entry.id != NULL);
    return NULL;
}

/* Steps of two threads at once are refused, never lost or doubled. */
static void a_cursor_serves_one_thread_at_a_time(pi_session *session) {
    pi_mutation *mutation = NULL;
    pi_writes *writes = NULL;
    pi_cursor *cursor = NULL;
    pthread_t threads[2];
    char id[16];
    int index, round;

    OK(pi_writes_new(&writes, &error));
    for (index = 0; index < ENTRIES; index++) {
        snprintf(id, sizeof id, "%d", index);
        OK(pi_writes_insert_custom_entry(writes, id, PI_NUL, NULL, 0, "t", 1, NULL, 0, &error));
    }
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    OK(pi_mutation_commit(mutation, writes, NULL, NULL, &error));
    CHECK(pi_mutation_free(mutation) == PI_OK);
    pi_writes_free(writes);
    /* Until both happened to step at once, which takes two processors that are free at the same time. */
    for (round = 0; round < 100000 && atomic_load(&refused) == 0; round++) {
        atomic_store(&steps, 0);
        atomic_store(&ready, 0);
        OK(pi_session_entries(session, NULL, &cursor, NULL, &error));
        for (index = 0; index < 2; index++)
            CHECK(pthread_create(&threads[index], NULL, step_through, cursor) == 0);
        for (index = 0; index < 2; index++)
            CHECK(pthread_join(threads[index], NULL) == 0);
        CHECK(atomic_load(&steps) == ENTRIES);
        CHECK(pi_cursor_free(cursor) == PI_OK);
    }
    CHECK(atomic_load(&refused) > 0);
}

struct shared {
    pi_repository *repository;
    pi_session *session;
    pi_branch *branch;
    pi_context *context;
};

/* Uses what others use, and makes, uses and frees what is its own. */
static void *use_everything(void *argument) {
    const struct shared *shared = argument;
    pi_branch *branch = NULL;
    pi_session *own = NULL, *fork = NULL;
    pi_entries *entries = NULL;
    pi_sessions *sessions = NULL;
    int round;

    for (round = 0; round < APPENDS; round++) {
        OK(pi_branch_append_message(shared->branch, "{\"role\":\"user\"}", PI_NUL, NULL, shared->context, &error));
        OK(pi_branch_get(shared->session, "shared", PI_NUL, &branch, shared->context, &error));
        OK(pi_branch_find_entries(branch, NULL, &entries, shared->context, &error));
        CHECK(pi_entries_count(entries) > (size_t)round);
        pi_entries_free(entries);
        CHECK(pi_branch_free(branch) == PI_OK);
        FAILS(PI_MISUSE, pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    }
    OK(pi_session_create(shared->repository, NULL, &own, shared->context, &error));
    OK(pi_session_set_name(own, "own", PI_NUL, shared->context, &error));
    OK(pi_repository_list(shared->repository, NULL, &sessions, shared->context, &error));
    CHECK(pi_sessions_count(sessions) >= 2);
    pi_sessions_free(sessions);
    FAILS(PI_UNKNOWN_BRANCH, pi_session_fork(shared->repository, own, NULL, &fork, NULL, shared->context, &error));
    OK(pi_session_close(own, shared->context, &error));
    CHECK(pi_session_free(own) == PI_OK);
    return NULL;
}

static void handles_serve_many_threads(pi_repository *repository, pi_session *session) {
    struct shared shared = {repository, session, NULL, NULL};
    pthread_t threads[THREADS];
    pi_entries *entries = NULL;
    int index;

    OK(pi_branch_create(session, "shared", PI_NUL, NULL, 0, &shared.branch, NULL, &error));
    OK(pi_context_new(&shared.context, &error));
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, use_everything, &shared) == 0);
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_join(threads[index], NULL) == 0);
    OK(pi_branch_find_entries(shared.branch, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == THREADS * APPENDS);
    pi_entries_free(entries);
    CHECK(pi_context_free(shared.context) == PI_OK && pi_branch_free(shared.branch) == PI_OK);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "threads");

    two_threads_count_without_losing_one(session);
    a_waiter_is_cancelled_from_another_thread(session);
    a_mutation_moves_between_threads(session);
    a_cursor_serves_one_thread_at_a_time(session);
    handles_serve_many_threads(repository, session);
    finish(repository, session);
    return 0;
}

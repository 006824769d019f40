/* Handles are checked: any order of freeing is right, and every wrong use is PI_MISUSE. */
#include "check.h"

enum { REPOSITORY, SESSION, BRANCH, MUTATION, CURSOR, CONTEXT, KINDS };

struct all {
    pi_repository *repository;
    pi_session *session;
    pi_branch *branch;
    pi_mutation *mutation;
    pi_cursor *cursor;
    pi_context *context;
};

static int32_t free_one(struct all *all, int kind) {
    switch (kind) {
    case REPOSITORY: return pi_repository_free(all->repository);
    case SESSION: return pi_session_free(all->session);
    case BRANCH: return pi_branch_free(all->branch);
    case MUTATION: return pi_mutation_free(all->mutation);
    case CURSOR: return pi_cursor_free(all->cursor);
    default: return pi_context_free(all->context);
    }
}

static struct all make_all(const char *uri) {
    struct all all;
    pi_session_options options;

    all.repository = open_quick(uri);
    OK(pi_context_new(&all.context, &error));
    pi_session_options_init(&options, sizeof options);
    OK(pi_session_create(all.repository, &options, &all.session, all.context, &error));
    OK(pi_branch_create(all.session, "main", PI_NUL, NULL, 0, &all.branch, NULL, &error));
    OK(pi_branch_append_message(all.branch, "{\"role\":\"user\"}", PI_NUL, NULL, NULL, &error));
    OK(pi_branch_entries(all.branch, NULL, &all.cursor, NULL, &error));
    OK(pi_mutation_begin(all.session, &all.mutation, NULL, &error));
    return all;
}

/* What is still alive works, whatever was freed before it. */
static void use_what_is_left(const struct all *all, const int *freed) {
    pi_metadata metadata;
    pi_buf *buf = NULL;
    pi_stats stats;

    if (!freed[REPOSITORY])
        FAILS(PI_UNKNOWN_SESSION, pi_repository_delete(all->repository, "absent", PI_NUL, NULL, &error));
    if (!freed[SESSION]) {
        OK(pi_session_metadata(all->session, &metadata, sizeof metadata, &error));
        CHECK(metadata.id != NULL);
    }
    if (!freed[BRANCH]) {
        CHECK_TEXT(pi_branch_name(all->branch), "main");
        OK(pi_branch_tip_id(all->branch, &buf, NULL, &error));
        CHECK(buf != NULL);
        pi_buf_free(buf);
    }
    if (!freed[MUTATION]) {
        OK(pi_mutation_stats(all->mutation, &stats, sizeof stats, NULL, &error));
        CHECK(stats.message_count == 1);
    }
    if (!freed[CONTEXT])
        OK(pi_context_set_timeout(all->context, 60000, &error));
}

static void every_order_of_freeing(const char *uri) {
    int order[KINDS], freed[KINDS], step, other;
    long orders = 0, code, rest;
    /* In files an order costs a session; a sample of them is enough there. */
    const int every = strcmp(uri, "memory:") == 0 ? 1 : 24;
    struct all all;

    /* The numbers of base KINDS with KINDS different digits are the orders. */
    for (code = 0; code < 46656; code++) {
        memset(freed, 0, sizeof freed);
        for (step = 0, rest = code; step < KINDS; step++, rest /= KINDS) {
            order[step] = (int)(rest % KINDS);
            freed[order[step]] = 1;
        }
        for (step = other = 0; step < KINDS; step++)
            other += freed[step];
        if (other < KINDS || orders++ % every != 0)
            continue;
        all = make_all(uri);
        memset(freed, 0, sizeof freed);
        for (step = 0; step < KINDS; step++) {
            CHECK(free_one(&all, order[step]) == PI_OK);
            CHECK(free_one(&all, order[step]) == PI_MISUSE);
            freed[order[step]] = 1;
            use_what_is_left(&all, freed);
        }
        CHECK(pi_debug_live_handles() == 0);
    }
    CHECK(orders == 720);
}

/* Every function that takes a handle, with a pointer that is none of its type. */
static void every_function_refuses(void *wrong) {
    pi_repository *repository = DIRTY;
    pi_session *session = DIRTY;
    pi_branch *branch = DIRTY;
    pi_mutation *mutation = DIRTY;
    pi_cursor *cursor = DIRTY;
    pi_sessions *sessions = DIRTY;
    pi_branches *branches = DIRTY;
    pi_entries *entries = DIRTY;
    pi_values *values = DIRTY;
    pi_elements *elements = DIRTY;
    pi_buf *buf = DIRTY;
    pi_commit_result *result = DIRTY;
    pi_metadata metadata;
    pi_stats stats;
    pi_entry entry;
    const char *ids[1] = {"x"};

    (void)repository;
    FAILS(PI_MISUSE, pi_repository_close(wrong, NULL, &error));
    FAILS(PI_MISUSE, pi_repository_delete(wrong, "x", 1, NULL, &error));
    FAILS(PI_MISUSE, pi_repository_list(wrong, NULL, &sessions, NULL, &error));
    FAILS(PI_MISUSE, pi_session_create(wrong, NULL, &session, NULL, &error));
    FAILS(PI_MISUSE, pi_session_fork(wrong, wrong, NULL, &session, NULL, NULL, &error));
    FAILS(PI_MISUSE, pi_session_open(wrong, "x", 1, &session, NULL, &error));
    FAILS(PI_MISUSE, pi_session_open_read_only(wrong, "x", 1, &session, NULL, &error));
    CHECK(sessions == NULL && session == NULL);
    FAILS(PI_MISUSE, pi_session_close(wrong, NULL, &error));
    FAILS(PI_MISUSE, pi_session_metadata(wrong, &metadata, sizeof metadata, &error));
    FAILS(PI_MISUSE, pi_session_new_id(wrong, &buf, &error));
    FAILS(PI_MISUSE, pi_session_stats(wrong, &stats, sizeof stats, NULL, &error));
    FAILS(PI_MISUSE, pi_session_name(wrong, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_session_set_name(wrong, "x", 1, NULL, &error));
    FAILS(PI_MISUSE, pi_session_get_label(wrong, "x", 1, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_session_set_label(wrong, "x", 1, "x", 1, NULL, &error));
    FAILS(PI_MISUSE, pi_session_get_value(wrong, "x", 1, "", 0, &buf, NULL, NULL, &error));
    FAILS(PI_MISUSE, pi_session_scan_values(wrong, "x", 1, "", 0, &values, NULL, &error));
    FAILS(PI_MISUSE, pi_session_read_list(wrong, "x", 1, "", 0, NULL, &elements, NULL, &error));
    FAILS(PI_MISUSE, pi_session_set_value(wrong, "x", 1, "", 0, "1", 1, NULL, &error));
    FAILS(PI_MISUSE, pi_session_delete_value(wrong, "x", 1, "", 0, NULL, &error));
    FAILS(PI_MISUSE, pi_session_append_list(wrong, "x", 1, "", 0, "1", 1, NULL, &error));
    FAILS(PI_MISUSE, pi_session_delete_list(wrong, "x", 1, "", 0, NULL, &error));
    FAILS(PI_MISUSE, pi_session_get_entry(wrong, "x", 1, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_session_get_entries(wrong, ids, NULL, 1, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_session_find_entries(wrong, NULL, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_session_scan_branch(wrong, "x", 1, NULL, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_session_entries(wrong, NULL, &cursor, NULL, &error));
    FAILS(PI_MISUSE, pi_session_branches(wrong, &branches, NULL, &error));
    FAILS(PI_MISUSE, pi_branch_create(wrong, "x", 1, NULL, 0, &branch, NULL, &error));
    FAILS(PI_MISUSE, pi_branch_get(wrong, "x", 1, &branch, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_begin(wrong, &mutation, NULL, &error));
    CHECK(buf == NULL && values == NULL && elements == NULL && entries == NULL && cursor == NULL);
    CHECK(branches == NULL && branch == NULL && mutation == NULL);
    CHECK(pi_branch_name(wrong) == NULL);
    FAILS(PI_MISUSE, pi_branch_tip_id(wrong, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_branch_append_message(wrong, "{}", 2, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_branch_append_custom_entry(wrong, "x", 1, NULL, 0, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_branch_find_entries(wrong, NULL, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_branch_entries(wrong, NULL, &cursor, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_get_entries(wrong, ids, NULL, 1, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_scan_branch(wrong, "x", 1, NULL, &entries, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_stats(wrong, &stats, sizeof stats, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_get_value(wrong, "x", 1, "", 0, &buf, NULL, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_scan_values(wrong, "x", 1, "", 0, &values, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_read_list(wrong, "x", 1, "", 0, NULL, &elements, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_commit(wrong, NULL, &result, NULL, &error));
    CHECK(result == NULL);
    FAILS(PI_MISUSE, pi_mutation_end(wrong, &error));
    FAILS(PI_MISUSE, pi_cursor_next(wrong, &entry, sizeof entry, &error));
    CHECK(entry.id == NULL);
    FAILS(PI_MISUSE, pi_context_set_timeout(wrong, 1, &error));
    FAILS(PI_MISUSE, pi_context_cancel(wrong, &error));
    FAILS(PI_MISUSE,
          pi_context_set_traceparent(wrong, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", PI_NUL, &error));
    if (wrong != NULL) {
        FAILS(PI_MISUSE, pi_debug_panic(wrong, &error));
        FAILS(PI_MISUSE, pi_repository_open("memory:", PI_NUL, NULL, &repository, wrong, &error));
        CHECK(pi_repository_free(wrong) == PI_MISUSE && pi_session_free(wrong) == PI_MISUSE);
        CHECK(pi_branch_free(wrong) == PI_MISUSE && pi_mutation_free(wrong) == PI_MISUSE);
        CHECK(pi_cursor_free(wrong) == PI_MISUSE && pi_context_free(wrong) == PI_MISUSE);
    }
}

/* A handle of the right kind for some functions: each of the others refuses it. */
static void wrong_types(const char *uri) {
    struct all all = make_all(uri);
    pi_buf *buf = NULL;

    FAILS(PI_MISUSE, pi_session_name((pi_session *)(void *)all.repository, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_session_name((pi_session *)(void *)all.branch, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_session_name(all.session, &buf, (pi_context *)(void *)all.session, &error));
    FAILS(PI_MISUSE, pi_branch_tip_id((pi_branch *)(void *)all.session, &buf, NULL, &error));
    FAILS(PI_MISUSE, pi_mutation_end((pi_mutation *)(void *)all.cursor, &error));
    CHECK(pi_session_free((pi_session *)(void *)all.branch) == PI_MISUSE);
    CHECK(pi_branch_free((pi_branch *)(void *)all.context) == PI_MISUSE);
    /* The handle that was given wrongly is still alive. */
    CHECK_TEXT(pi_branch_name(all.branch), "main");
    CHECK(free_one(&all, MUTATION) == PI_OK && free_one(&all, CURSOR) == PI_OK);
    CHECK(free_one(&all, BRANCH) == PI_OK && free_one(&all, CONTEXT) == PI_OK);
    finish(all.repository, all.session);
}

static void freeing_nothing(void) {
    CHECK(pi_repository_free(NULL) == PI_OK && pi_session_free(NULL) == PI_OK);
    CHECK(pi_branch_free(NULL) == PI_OK && pi_mutation_free(NULL) == PI_OK);
    CHECK(pi_cursor_free(NULL) == PI_OK && pi_context_free(NULL) == PI_OK);
    pi_buf_free(NULL);
    pi_error_free(NULL);
    pi_entries_free(NULL);
    pi_values_free(NULL);
    pi_elements_free(NULL);
    pi_branches_free(NULL);
    pi_sessions_free(NULL);
    pi_writes_free(NULL);
    pi_commit_result_free(NULL);
    CHECK(pi_entries_count(NULL) == 0 && pi_values_count(NULL) == 0 && pi_elements_count(NULL) == 0);
    CHECK(pi_branches_count(NULL) == 0 && pi_sessions_count(NULL) == 0 && pi_writes_count(NULL) == 0);
    CHECK(pi_buf_data(NULL) == NULL && pi_buf_len(NULL) == 0);
    CHECK(pi_commit_result_count(NULL) == 0 && pi_commit_result_seqs(NULL) == NULL);
    CHECK(pi_entries_get(NULL, 0, NULL, 0) == PI_INVALID_ARGUMENT);
}

int main(int argc, char **argv) {
    struct all all;
    int local = 0;

    CHECK(argc == 2);
    freeing_nothing();
    every_order_of_freeing(argv[1]);
    all = make_all(argv[1]);
    free_one(&all, MUTATION);
    free_one(&all, CURSOR);
    free_one(&all, CONTEXT);
    free_one(&all, BRANCH);
    every_function_refuses(NULL);
    every_function_refuses(all.branch);
    every_function_refuses(&local);
    every_function_refuses((char *)&local + 1);
    every_function_refuses((void *)UINTPTR_MAX);
    finish(all.repository, all.session);
    every_function_refuses(all.session);
    wrong_types(argv[1]);
    return 0;
}

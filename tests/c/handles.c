/* Handles are checked: any order of freeing is right. What every function says to a wrong one is in table/misuse.c. */
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
    CHECK(argc == 2);
    freeing_nothing();
    every_order_of_freeing(argv[1]);
    wrong_types(argv[1]);
    return 0;
}

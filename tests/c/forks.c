/* Forks: a path and the whole tree, what is left out, and what is refused. */
#include "check.h"

static int64_t messages_of(pi_session *session) {
    pi_stats stats;
    OK(pi_session_stats(session, &stats, sizeof stats, NULL, &error));
    return (int64_t)stats.message_count;
}

static void close_and_free(pi_session *session) {
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
}

static void a_path(pi_repository *repository, pi_session *source, const char *first) {
    pi_fork_options options;
    pi_metadata metadata;
    pi_session *fork = DIRTY;
    pi_buf *left_out = DIRTY;
    pi_fork_options_init(&options, sizeof options);
    options.branch = "main";
    options.entry_id = first;
    options.id = "path";
    options.cwd = "/elsewhere";
    OK(pi_session_fork(repository, source, &options, &fork, &left_out, NULL, &error));
    CHECK_TEXT(pi_buf_data(left_out), "[]");
    pi_buf_free(left_out);
    CHECK(messages_of(fork) == 1);
    OK(pi_session_metadata(fork, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.id, "path");
    CHECK_TEXT(metadata.parent_session_id, "source");
    CHECK_TEXT(metadata.cwd, "/elsewhere");
    close_and_free(fork);

    FAILS(PI_SESSION_EXISTS, pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    CHECK(fork == NULL);
    options.id = NULL;
    options.position = PI_FORK_BEFORE;
    OK(pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    CHECK(messages_of(fork) == 0);
    close_and_free(fork);
    OK(pi_session_fork(repository, source, NULL, &fork, NULL, NULL, &error));
    CHECK(messages_of(fork) == 2);
    close_and_free(fork);
}

static void the_tree(pi_repository *repository, pi_session *source) {
    pi_fork_options options;
    pi_session *fork;
    pi_buf *left_out;
    OK(pi_session_set_value(source, "pi.lane.config", PI_NUL, "main", PI_NUL, "{}", PI_NUL, NULL, &error));
    pi_fork_options_init(&options, sizeof options);
    FAILS(PI_CORRUPT, pi_session_fork(repository, source, &options, &fork, &left_out, NULL, &error));
    CHECK(fork == NULL && left_out == NULL);
    options.scope = PI_FORK_TREE;
    OK(pi_session_fork(repository, source, &options, &fork, &left_out, NULL, &error));
    CHECK_TEXT(pi_buf_data(left_out), "[\"main\"]");
    pi_buf_free(left_out);
    CHECK(messages_of(fork) == 2);
    close_and_free(fork);
}

static void what_is_refused(pi_repository *repository, pi_session *source) {
    pi_fork_options options;
    pi_session *fork;
    pi_fork_options_init(&options, sizeof options);
    options.branch = "none";
    FAILS(PI_UNKNOWN_BRANCH, pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    options.scope = PI_FORK_TREE;
    FAILS(PI_INVALID_ARGUMENT, pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    options.branch = NULL;
    options.scope = 3;
    FAILS(PI_INVALID_ARGUMENT, pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    options.scope = 0;
    options.position = 3;
    FAILS(PI_INVALID_ARGUMENT, pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    options.position = 0;
    options.entry_id = "none";
    FAILS(PI_UNKNOWN_ENTRY, pi_session_fork(repository, source, &options, &fork, NULL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_fork(repository, source, NULL, NULL, NULL, NULL, &error));
    FAILS(PI_MISUSE, pi_session_fork(repository, NULL, NULL, &fork, NULL, NULL, &error));
    FAILS(PI_MISUSE, pi_session_fork(NULL, source, NULL, &fork, NULL, NULL, &error));
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *source = create_session(repository, "source");
    pi_branch *main_branch;
    pi_buf *first;
    const char *message = "{\"role\":\"user\",\"content\":\"a\"}";

    OK(pi_branch_create(source, "main", PI_NUL, NULL, 0, &main_branch, NULL, &error));
    OK(pi_branch_append_message(main_branch, message, PI_NUL, &first, NULL, &error));
    OK(pi_branch_append_message(main_branch, message, PI_NUL, NULL, NULL, &error));
    a_path(repository, source, pi_buf_data(first));
    what_is_refused(repository, source);
    the_tree(repository, source);
    pi_buf_free(first);
    CHECK(pi_branch_free(main_branch) == PI_OK);
    finish(repository, source);
    return 0;
}

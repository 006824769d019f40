/*
 * Two programs in two languages take turns on one session.
 *
 *     notebook <repository-uri> <session-id> [turns]
 *
 * Each turn opens the session (or creates it), appends a message to this program's own branch, counts the turn in a
 * value that all programs share, prints what it sees and closes the session again. Only one program at a time can have
 * the session open for writing, so a turn that finds it busy tries again.
 *
 *     cc notebook.c -lpisession -o notebook
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pisession.h>

static const char MY_BRANCH[] = "c";
static const char *const ALL_BRANCHES[] = {"c", "python"};

/* How often, and how many milliseconds apart, a busy session is tried again. */
enum { ATTEMPTS = 500, PAUSE_MS = 20 };

/* Reports the error of a call that failed and frees it. The call's number goes on to the caller. */
static int32_t failed(const char *what, int32_t code, pi_error *error) {
    const char *hint = pi_error_hint(error);
    fprintf(stderr, "%s: %s%s%s\n", what, pi_error_message(error), hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
    pi_error_free(error);
    return code;
}

static void pause_a_little(void) {
    struct timespec pause = {0, PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
}

/* Opens the session, or creates it if there is none. */
static int32_t open_or_create(pi_repository *repository, const char *id, pi_session **session, pi_error **error) {
    pi_session_options options;
    int32_t code = pi_session_open(repository, id, PI_NUL, session, NULL, error);
    if (code != PI_UNKNOWN_SESSION)
        return code;
    pi_error_free(*error);
    pi_session_options_init(&options, sizeof options);
    options.id = id;
    options.id_len = PI_NUL;
    return pi_session_create(repository, &options, session, NULL, error);
}

/* Waits for its turn: tries again while another program has the session, or has just created it. */
static int32_t take_turn(pi_repository *repository, const char *id, pi_session **session) {
    pi_error *error = NULL;
    int32_t code = PI_OK;
    int attempt;

    for (attempt = 0; attempt < ATTEMPTS; attempt++) {
        code = open_or_create(repository, id, session, &error);
        if (code != PI_SESSION_BUSY && code != PI_BUSY && code != PI_SESSION_EXISTS)
            break;
        if (attempt + 1 < ATTEMPTS) {
            pi_error_free(error);
            error = NULL;
            pause_a_little();
        }
    }
    return code < 0 ? failed("open the session", code, error) : PI_OK;
}

/* Reads the counter, decides, commits: runs inside the session's mutation line, so no turn is lost. */
static int32_t count_turn(pi_mutation *mutation, const pi_context *context, void *user_data, pi_error **error) {
    uint64_t *turns = user_data;
    pi_buf *stored = NULL;
    pi_writes *writes = NULL;
    char json[24];
    int32_t code;

    code = pi_mutation_get_value(mutation, "notebook", PI_NUL, "turns", PI_NUL, &stored, NULL, context, error);
    if (code < 0)
        return code;
    *turns = (stored == NULL ? 0 : strtoull(pi_buf_data(stored), NULL, 10)) + 1;
    pi_buf_free(stored);

    snprintf(json, sizeof json, "%" PRIu64, *turns);
    code = pi_writes_new(&writes, error);
    if (code == PI_OK)
        code = pi_writes_set_value(writes, "notebook", PI_NUL, "turns", PI_NUL, json, PI_NUL, error);
    if (code == PI_OK)
        code = pi_mutation_commit(mutation, writes, NULL, context, error);
    pi_writes_free(writes);
    return code;
}

/* Appends a message to this program's branch, which the first turn makes. */
static int32_t write_message(pi_session *session, uint64_t turn) {
    pi_branch *branch = NULL;
    pi_error *error = NULL;
    char message[128];
    int32_t code;

    code = pi_branch_get(session, MY_BRANCH, PI_NUL, &branch, NULL, &error);
    if (code == PI_OK && branch == NULL)
        code = pi_branch_create(session, MY_BRANCH, PI_NUL, NULL, 0, &branch, NULL, &error);
    if (code == PI_OK) {
        snprintf(message, sizeof message, "{\"role\":\"user\",\"content\":\"turn %" PRIu64 ", written by C\"}", turn);
        code = pi_branch_append_message(branch, message, PI_NUL, NULL, NULL, &error);
    }
    pi_branch_free(branch);
    return code < 0 ? failed("append a message", code, error) : PI_OK;
}

/* Prints the newest entries of a branch, if there is one. */
static int32_t print_newest(pi_session *session, const char *name, uint64_t count) {
    pi_branch *branch = NULL;
    pi_branch_scan scan;
    pi_entries *entries = NULL;
    pi_entry entry;
    pi_error *error = NULL;
    size_t index;
    int32_t code;

    code = pi_branch_get(session, name, PI_NUL, &branch, NULL, &error);
    if (code == PI_OK && branch != NULL) {
        pi_branch_scan_init(&scan, sizeof scan);
        scan.limit = &count;
        code = pi_branch_find_entries(branch, &scan, &entries, NULL, &error);
    }
    for (index = 0; index < pi_entries_count(entries); index++) {
        pi_entries_get(entries, index, &entry, sizeof entry);
        printf("    %-6s seq %" PRIu64 "  %s\n", name, entry.seq, entry.payload);
    }
    pi_entries_free(entries);
    pi_branch_free(branch);
    return code < 0 ? failed("read a branch", code, error) : PI_OK;
}

/* Prints what this turn sees: the counter, the branches, and the newest entries of each program's branch. */
static int32_t print_session(pi_session *session, uint64_t turn) {
    pi_branches *branches = NULL;
    pi_branch_info branch;
    pi_error *error = NULL;
    size_t index;
    int32_t code;

    code = pi_session_branches(session, &branches, NULL, &error);
    if (code < 0)
        return failed("list the branches", code, error);
    printf("c: turn %" PRIu64 ", branches:", turn);
    for (index = 0; index < pi_branches_count(branches); index++) {
        pi_branches_get(branches, index, &branch, sizeof branch);
        printf(" %s", branch.name);
    }
    printf("\n");
    pi_branches_free(branches);

    for (index = 0; code == PI_OK && index < sizeof ALL_BRANCHES / sizeof ALL_BRANCHES[0]; index++)
        code = print_newest(session, ALL_BRANCHES[index], 2);
    return code;
}

static int32_t run_turn(pi_repository *repository, const char *id) {
    pi_session *session = NULL;
    pi_error *error = NULL;
    uint64_t turn = 0;
    int32_t code, closed;

    code = take_turn(repository, id, &session);
    if (code < 0)
        return code;
    code = pi_session_mutate(session, count_turn, &turn, NULL, NULL, &error);
    if (code < 0)
        failed("count the turn", code, error);
    if (code == PI_OK)
        code = write_message(session, turn);
    if (code == PI_OK)
        code = print_session(session, turn);

    closed = pi_session_close(session, NULL, &error);
    if (closed < 0)
        failed("close the session", closed, error);
    pi_session_free(session);
    return code < 0 ? code : closed;
}

int main(int argc, char **argv) {
    pi_repository *repository = NULL;
    pi_error *error = NULL;
    long turn, turns;
    int32_t code;

    turns = argc == 4 ? strtol(argv[3], NULL, 10) : 1;
    if (argc < 3 || argc > 4 || turns < 1) {
        fprintf(stderr, "usage: %s <repository-uri> <session-id> [turns]\n", argv[0]);
        return 2;
    }
    code = pi_repository_open(argv[1], PI_NUL, NULL, &repository, NULL, &error);
    if (code < 0)
        failed("open the repository", code, error);
    for (turn = 0; code == PI_OK && turn < turns; turn++) {
        code = run_turn(repository, argv[2]);
        pause_a_little(); /* the others' chance to take theirs */
    }
    pi_repository_free(repository);
    return code < 0 ? 1 : 0;
}

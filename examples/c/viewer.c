/*
 * A viewer of sessions.
 *
 *     viewer <repository-uri>                     the sessions of the repository
 *     viewer <repository-uri> <session>           its branches, its entries as a tree, its totals
 *     viewer <repository-uri> <session> <branch>  the branch as a transcript
 *
 * It opens sessions for reading only, beside a program that writes them.
 *
 *     cc viewer.c $(pkg-config --cflags --libs pisession) -o viewer
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pisession.h>

/* Reports the error of a call that failed and frees it. */
static int32_t failed(const char *what, int32_t code, pi_error *error) {
    const char *hint = pi_error_hint(error);
    fprintf(stderr, "%s: %s%s%s\n", what, pi_error_message(error), hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
    pi_error_free(error);
    return code;
}

static int32_t print_sessions(const pi_repository *repository) {
    pi_list_options options;
    pi_sessions *sessions = NULL;
    pi_session_info info;
    pi_error *error = NULL;
    size_t index;
    int32_t code;

    pi_list_options_init(&options, sizeof options);
    options.details = 1;
    code = pi_repository_list(repository, &options, &sessions, NULL, &error);
    if (code < 0)
        return failed("list the sessions", code, error);
    for (index = 0; index < pi_sessions_count(sessions); index++) {
        pi_sessions_get(sessions, index, &info, sizeof info);
        if (info.id == NULL)
            printf("%s: %s\n", info.path == NULL ? "?" : info.path, info.problem);
        else
            printf("%s  %s, %" PRId64 " messages  %s\n", info.id, info.format, info.message_count,
                   info.name == NULL ? "" : info.name);
    }
    pi_sessions_free(sessions);
    return PI_OK;
}

enum { COLUMNS = 32, ID_SIZE = 128 };

/* The column of the path that waits for the entry; a free one if there is none. */
static size_t column_of(char waits_for[COLUMNS][ID_SIZE], size_t *count, const char *id) {
    size_t column;
    for (column = 0; column < *count; column++)
        if (strcmp(waits_for[column], id) == 0)
            return column;
    for (column = 0; column < *count; column++)
        if (waits_for[column][0] == '\0')
            return column;
    if (*count < COLUMNS)
        (*count)++;
    return *count - 1;
}

/* The tree, newest first: each column is a path that waits for its next entry, as in a log of commits. */
static int32_t print_tree(const pi_session *session) {
    char waits_for[COLUMNS][ID_SIZE] = {{0}};
    size_t count = 0, mine, column;
    pi_cursor *cursor = NULL;
    pi_entry entry = {0};
    pi_error *error = NULL;
    int32_t code = pi_session_entries(session, NULL, &cursor, NULL, &error);

    while (code == PI_OK && (code = pi_cursor_next(cursor, &entry, sizeof entry, &error)) == PI_OK && entry.id != NULL) {
        mine = column_of(waits_for, &count, entry.id);
        for (column = 0; column < count; column++) {
            /* Paths that meet in this entry end here. */
            int meets = column != mine && strcmp(waits_for[column], entry.id) == 0;
            printf("%c ", column == mine ? '*' : meets ? '/' : waits_for[column][0] != '\0' ? '|' : ' ');
            if (meets)
                waits_for[column][0] = '\0';
        }
        printf("%s %s\n", entry.id, entry.custom_type == NULL ? entry.type : entry.custom_type);
        snprintf(waits_for[mine], ID_SIZE, "%s", entry.parent_id == NULL ? "" : entry.parent_id);
    }
    pi_cursor_free(cursor);
    return code < 0 ? failed("read the tree", code, error) : PI_OK;
}

static int32_t print_overview(const pi_session *session) {
    pi_branches *branches = NULL;
    pi_branch_info branch;
    pi_stats stats;
    pi_error *error = NULL;
    size_t index;
    int32_t code = pi_session_branches(session, &branches, NULL, &error);

    if (code == PI_OK)
        code = pi_session_stats(session, &stats, sizeof stats, NULL, &error);
    if (code < 0) {
        pi_branches_free(branches);
        return failed("read the session", code, error);
    }
    for (index = 0; index < pi_branches_count(branches); index++) {
        pi_branches_get(branches, index, &branch, sizeof branch);
        printf("branch %s at %s\n", branch.name, branch.tip_id == NULL ? "nothing" : branch.tip_id);
    }
    pi_branches_free(branches);
    code = print_tree(session);
    printf("%" PRIu64 " messages, %.0f tokens (%.0f in, %.0f out, %.0f cached), cost %.4f\n", stats.message_count,
           stats.total_tokens, stats.input, stats.output, stats.cache_read, stats.cost_total);
    return code;
}

static int32_t print_branch(const pi_session *session, const char *name) {
    pi_branch *branch = NULL;
    pi_branch_scan scan;
    pi_cursor *cursor = NULL;
    pi_entry entry = {0};
    pi_error *error = NULL;
    int32_t code = pi_branch_get(session, name, PI_NUL, &branch, NULL, &error);

    if (code == PI_OK && branch == NULL) {
        fprintf(stderr, "there is no branch %s\n", name);
        return PI_UNKNOWN_BRANCH;
    }
    pi_branch_scan_init(&scan, sizeof scan);
    scan.order = PI_ASCENDING;
    if (code == PI_OK)
        code = pi_branch_entries(branch, &scan, &cursor, NULL, &error);
    while (code == PI_OK && (code = pi_cursor_next(cursor, &entry, sizeof entry, &error)) == PI_OK && entry.id != NULL)
        printf("-- %s\n%s\n", entry.custom_type == NULL ? entry.type : entry.custom_type, entry.payload);
    pi_cursor_free(cursor);
    pi_branch_free(branch);
    return code < 0 ? failed("read the branch", code, error) : PI_OK;
}

int main(int argc, char **argv) {
    pi_repository *repository = NULL;
    pi_session *session = NULL;
    pi_error *error = NULL;
    int32_t code;

    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s <repository-uri> [session [branch]]\n", argv[0]);
        return 2;
    }
    code = pi_repository_open(argv[1], PI_NUL, NULL, &repository, NULL, &error);
    if (code == PI_OK && argc > 2)
        code = pi_session_open_read_only(repository, argv[2], PI_NUL, &session, NULL, &error);
    if (code < 0)
        failed("open", code, error);
    else if (argc == 2)
        code = print_sessions(repository);
    else
        code = argc == 3 ? print_overview(session) : print_branch(session, argv[3]);
    pi_session_free(session);
    pi_repository_free(repository);
    return code < 0 ? 1 : 0;
}

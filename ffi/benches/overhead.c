/*
 * What a read and an append cost through the C library, on a session in memory: ns of work for one of each. overhead.rs runs
 * it beside the same calls of the core.
 *
 *     overhead <operations>
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <pisession.h>

static const char MESSAGE[] = "{\"role\":\"user\",\"content\":\"what a message is like, more or less\"}";

static void check(int32_t code, pi_error *error) {
    if (code == PI_OK)
        return;
    fprintf(stderr, "%s\n", pi_error_message(error));
    exit(1);
}

/* The time this process has worked, in ns: what else the machine does is not in it. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    pi_repository *repository = NULL;
    pi_session *session = NULL;
    pi_branch *branch = NULL;
    pi_branch_scan scan;
    uint64_t newest = 1;
    pi_error *error = NULL;
    long operations = argc == 2 ? strtol(argv[1], NULL, 10) : 0, i;
    double begun;

    if (operations < 1)
        return 2;
    check(pi_repository_open("memory:", PI_NUL, NULL, &repository, NULL, &error), error);
    check(pi_session_create(repository, NULL, &session, NULL, &error), error);
    check(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error), error);
    check(pi_session_set_value(session, "app", 3, "key", 3, "{\"step\":1}", PI_NUL, NULL, &error), error);

    begun = now();
    for (i = 0; i < operations; i++) {
        pi_buf *id = NULL;
        check(pi_branch_append_message(branch, MESSAGE, sizeof MESSAGE - 1, &id, NULL, &error), error);
        pi_buf_free(id);
    }
    printf("%.0f ", (now() - begun) / (double)operations);

    begun = now();
    for (i = 0; i < operations; i++) {
        pi_buf *value = NULL;
        check(pi_session_get_value(session, "app", 3, "key", 3, &value, NULL, NULL, &error), error);
        pi_buf_free(value);
    }
    printf("%.0f ", (now() - begun) / (double)operations);

    pi_branch_scan_init(&scan, sizeof scan);
    scan.limit = &newest;
    begun = now();
    for (i = 0; i < operations; i++) {
        pi_entries *entries = NULL;
        pi_entry entry;
        check(pi_branch_find_entries(branch, &scan, &entries, NULL, &error), error);
        pi_entries_get(entries, 0, &entry, sizeof entry);
        pi_entries_free(entries);
    }
    printf("%.0f\n", (now() - begun) / (double)operations);

    pi_branch_free(branch);
    pi_session_free(session);
    pi_repository_free(repository);
    return 0;
}

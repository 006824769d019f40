/* A forked child is refused at once, whatever locks the parent's threads held, and the parent goes on. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* How a child that was refused as it should be ends; 1 is that of a check. */
enum { QUICK = 0, SLOW = 2 };

static atomic_int stopped;

/* Keeps the library's locks taken. */
static void *make_and_free(void *session) {
    pi_branch *branch = NULL;
    while (!atomic_load(&stopped)) {
        OK(pi_branch_get(session, "main", PI_NUL, &branch, NULL, &error));
        CHECK(pi_branch_free(branch) == PI_OK);
    }
    return NULL;
}

static double now(void) {
    struct timespec time;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void in_the_child(pi_repository *repository, pi_session *session, pi_branch *branch, pi_writes *writes) {
    pi_repository *opened = DIRTY;
    pi_buf *buf = DIRTY;
    pi_error *kept = NULL;

    FAILS(PI_FORKED, pi_session_name(session, &buf, NULL, &error));
    CHECK(buf == NULL);
    FAILS(PI_FORKED, pi_session_set_name(session, "x", 1, NULL, &error));
    FAILS(PI_FORKED, pi_branch_append_message(branch, "{}", 2, NULL, NULL, &error));
    FAILS(PI_FORKED, pi_session_close(session, NULL, &error));
    FAILS(PI_FORKED, pi_repository_close(repository, NULL, &error));
    FAILS(PI_FORKED, pi_repository_open("memory:", PI_NUL, NULL, &opened, NULL, &error));
    CHECK(opened == NULL && pi_branch_name(branch) == NULL);
    FAILS(PI_FORKED, pi_writes_delete_value(writes, "a", 1, "", 0, &error));
    CHECK(pi_writes_count(writes) == 0);
    pi_writes_free(writes);
    CHECK(pi_session_name(session, &buf, NULL, &kept) == PI_FORKED);
    CHECK(pi_error_hint(kept) != NULL);
    pi_error_free(kept);
    CHECK(pi_branch_free(branch) == PI_FORKED && pi_session_free(session) == PI_FORKED);
    CHECK(pi_repository_free(repository) == PI_FORKED && pi_branch_free(NULL) == PI_OK);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "fork");
    pi_branch *branch = NULL;
    pi_writes *writes = NULL;
    pthread_t thread;
    int round, status = 0, quick = 0;
    pid_t child;

    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_writes_new(&writes, &error));
    CHECK(pthread_create(&thread, NULL, make_and_free, session) == 0);
    for (round = 0; round < 20; round++) {
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            double started = now();
            /* A hang is a failure too. */
            alarm(20);
            in_the_child(repository, session, branch, writes);
            _exit(now() - started < 1 ? QUICK : SLOW);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == QUICK || WEXITSTATUS(status) == SLOW));
        quick += WEXITSTATUS(status) == QUICK;
        OK(pi_branch_append_message(branch, "{\"role\":\"user\"}", PI_NUL, NULL, NULL, &error));
    }
    /* Within a second, whatever else the machine does meanwhile. */
    CHECK(quick > 0);
    atomic_store(&stopped, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    pi_writes_free(writes);
    CHECK(pi_branch_free(branch) == PI_OK);
    finish(repository, session);
    return 0;
}

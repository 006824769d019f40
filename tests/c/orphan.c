/* A forked child that outlives its killed parent does not keep the parent's session locked. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Holds a session and is killed with it; its child lives until nobody has `hold` open for writing. */
static void parent(const char *uri, const int ready[2], const int hold[2]) {
    pi_session *session = create_session(open_quick(uri), "orphan");
    pi_buf *name = NULL;
    pid_t child = fork();
    char byte = 'x';

    alarm(60);
    CHECK(session != NULL && child >= 0 && close(hold[1]) == 0);
    if (child == 0) {
        FAILS(PI_FORKED, pi_session_name(session, &name, NULL, &error));
        CHECK(write(ready[1], &byte, 1) == 1);
        CHECK(read(hold[0], &byte, 1) == 0);
        _exit(0);
    }
    for (;;)
        pause();
}

int main(int argc, char **argv) {
    int ready[2], hold[2], ended[2], status = 0;
    pi_repository *repository = NULL;
    pi_session *session = NULL;
    pid_t process;
    char byte = 0;

    /* A hang is a failure too. */
    alarm(60);
    CHECK(argc == 2 && pipe(ready) == 0 && pipe(hold) == 0 && pipe(ended) == 0);
    process = fork();
    CHECK(process >= 0);
    if (process == 0)
        parent(argv[1], ready, hold);
    CHECK(close(ready[1]) == 0 && close(ended[1]) == 0);
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 'x');
    CHECK(kill(process, SIGKILL) == 0 && waitpid(process, &status, 0) == process && WIFSIGNALED(status));

    repository = open_quick(argv[1]);
    if (strcmp(argv[1], "memory:") == 0)
        session = create_session(repository, "orphan");
    else
        OK(pi_session_open(repository, "orphan", PI_NUL, &session, NULL, &error));
    OK(pi_session_set_name(session, "mine", PI_NUL, NULL, &error));
    finish(repository, session);

    /* The child lived until now, and ends before this program does. */
    CHECK(close(hold[1]) == 0 && read(ended[0], &byte, 1) == 0);
    return 0;
}

/* The log: lines reach the host's function up to its level, and only while there is one. */
#include "check.h"

struct log {
    int lines, commits, dropped;
    int64_t lowest;
};

static void note(int64_t level, const char *line, size_t line_len, void *user_data) {
    struct log *log = user_data;
    CHECK(line[line_len] == '\0' && strlen(line) == line_len && line_len > 0);
    CHECK(line[line_len - 1] != '\n' && strstr(line, "secret") == NULL);
    log->lines++;
    log->lowest = level > log->lowest ? level : log->lowest;
    if (strstr(line, "pisession.commit") != NULL && strstr(line, "s1") != NULL) log->commits++;
}

static void forget(void *user_data) { ((struct log *)user_data)->dropped++; }

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "s1");
    struct log all = {0, 0, 0, 0}, few = {0, 0, 0, 0}, wrong = {0, 0, 0, 0};

    OK(pi_set_log(PI_LOG_DEBUG, note, &all, forget, &error));
    OK(pi_session_set_value(session, "app", PI_NUL, "k", PI_NUL, "\"secret\"", PI_NUL, NULL, &error));
    CHECK(all.commits == 1 && all.lowest == PI_LOG_DEBUG && all.dropped == 0);

    /* A new log takes the place of the last one. */
    OK(pi_set_log(PI_LOG_WARN, note, &few, forget, &error));
    CHECK(all.dropped == 1);
    OK(pi_session_set_value(session, "app", PI_NUL, "k", PI_NUL, "1", PI_NUL, NULL, &error));
    CHECK(all.commits == 1 && few.lines == 0);

    FAILS(PI_INVALID_ARGUMENT, pi_set_log(9, note, &wrong, forget, &error));
    CHECK(wrong.dropped == 1 && few.dropped == 0);
    OK(pi_set_log(PI_LOG_TRACE, NULL, &wrong, forget, &error));
    CHECK(wrong.dropped == 2 && few.dropped == 1);
    OK(pi_session_set_value(session, "app", PI_NUL, "k", PI_NUL, "2", PI_NUL, NULL, &error));
    OK(pi_set_log(PI_LOG_OFF, note, &wrong, NULL, &error));
    CHECK(all.commits == 1 && few.lines == 0 && wrong.lines == 0 && wrong.dropped == 2);
    OK(pi_set_log(PI_LOG_DEBUG, note, &all, NULL, &error));
    OK(pi_session_set_value(session, "app", PI_NUL, "k", PI_NUL, "3", PI_NUL, NULL, &error));
    CHECK(all.commits == 2);
    OK(pi_set_log(PI_LOG_OFF, NULL, NULL, NULL, &error));
    finish(repository, session);
    return 0;
}

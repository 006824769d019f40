/* The program has a SQLite of its own beside the one in the library: each uses its own, at the same time. */
#include <sqlite3.h>

#include "../check.h"

int main(int argc, char **argv) {
    static char own[4096];
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "beside");
    pi_buf *value = NULL;
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    char number[16];
    int round;

    /* Two versions, or this shows nothing. */
    CHECK(strcmp(sqlite3_libversion(), pi_sqlite_version()) != 0);
    CHECK(strncmp(argv[1], "sqlite:", 7) == 0);
    snprintf(own, sizeof own, "%s.own", argv[1] + 7);
    CHECK(sqlite3_open(own, &database) == SQLITE_OK);
    CHECK(sqlite3_exec(database, "CREATE TABLE t (n INTEGER)", NULL, NULL, NULL) == SQLITE_OK);
    for (round = 1; round <= 50; round++) {
        CHECK(sqlite3_exec(database, "INSERT INTO t VALUES (1)", NULL, NULL, NULL) == SQLITE_OK);
        snprintf(number, sizeof number, "%d", round);
        OK(pi_session_set_value(session, "app", PI_NUL, "round", PI_NUL, number, PI_NUL, NULL, &error));
    }
    CHECK(sqlite3_prepare_v2(database, "SELECT count(*), sqlite_version() FROM t", -1, &statement, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) == 50);
    CHECK_TEXT((const char *)sqlite3_column_text(statement, 1), sqlite3_libversion());
    CHECK(sqlite3_finalize(statement) == SQLITE_OK && sqlite3_close(database) == SQLITE_OK);
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
    OK(pi_session_open(repository, "beside", PI_NUL, &session, NULL, &error));
    OK(pi_session_get_value(session, "app", PI_NUL, "round", PI_NUL, &value, NULL, NULL, &error));
    CHECK_TEXT(pi_buf_data(value), "50");
    pi_buf_free(value);
    finish(repository, session);
    return 0;
}

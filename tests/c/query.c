/* Read-only SQL over a session, its copy in a file of its own, and its file rewritten with what is alive. */
#include "check.h"

static pi_session *session_with_notes(pi_repository *repository) {
    pi_session *session = create_session(repository, "s1");
    pi_branch *branch = NULL;
    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_branch_append_message(branch, "{\"role\":\"user\",\"content\":\"hi\"}", PI_NUL, NULL, NULL, &error));
    OK(pi_branch_append_custom_entry(branch, "note", 4, "{\"n\":1}", PI_NUL, NULL, NULL, &error));
    pi_branch_free(branch);
    return session;
}

static void cells_come_as_they_are(pi_session *session) {
    pi_rows *rows = NULL;
    pi_cell parameters[5], cell;
    memset(parameters, 0, sizeof parameters);
    parameters[1].type = PI_CELL_INTEGER;
    parameters[1].integer = INT64_MIN;
    parameters[2].type = PI_CELL_REAL;
    parameters[2].real = 0.1;
    parameters[3].type = PI_CELL_TEXT;
    parameters[3].data = "t\xc3\xa9xt";
    parameters[3].data_len = PI_NUL;
    parameters[4].type = PI_CELL_BLOB;
    parameters[4].data = "\0\xff";
    parameters[4].data_len = 2;
    OK(pi_session_query(session, "SELECT ?1 AS a, ?2, ?3, ?4, ?5 UNION ALL SELECT 1, 2, 3, 4, 5", PI_NUL, parameters, 5,
                        &rows, NULL, &error));
    CHECK(pi_rows_count(rows) == 2 && pi_rows_column_count(rows) == 5);
    CHECK_TEXT(pi_rows_column_name(rows, 0), "a");
    CHECK(pi_rows_column_name(rows, 5) == NULL && pi_rows_column_name(NULL, 0) == NULL);
    CHECK(pi_rows_get(rows, 0, 0, &cell, sizeof cell) == PI_OK && cell.type == PI_CELL_NULL && cell.data == NULL);
    CHECK(pi_rows_get(rows, 0, 1, &cell, sizeof cell) == PI_OK && cell.type == PI_CELL_INTEGER);
    CHECK(cell.integer == INT64_MIN);
    CHECK(pi_rows_get(rows, 0, 2, &cell, sizeof cell) == PI_OK && cell.type == PI_CELL_REAL && cell.real == 0.1);
    CHECK(pi_rows_get(rows, 0, 3, &cell, sizeof cell) == PI_OK && cell.type == PI_CELL_TEXT && cell.data_len == 5);
    CHECK_TEXT(cell.data, "t\xc3\xa9xt");
    CHECK(pi_rows_get(rows, 0, 4, &cell, sizeof cell) == PI_OK && cell.type == PI_CELL_BLOB && cell.data_len == 2);
    CHECK(memcmp(cell.data, "\0\xff", 3) == 0 || cell.data[2] == '\0');
    CHECK(pi_rows_get(rows, 2, 0, &cell, sizeof cell) == PI_INVALID_ARGUMENT && cell.integer == 0);
    CHECK(pi_rows_get(rows, 0, 5, &cell, sizeof cell) == PI_INVALID_ARGUMENT);
    CHECK(pi_rows_get(NULL, 0, 0, &cell, sizeof cell) == PI_INVALID_ARGUMENT);
    CHECK(pi_rows_get(rows, 0, 0, NULL, 0) == PI_INVALID_ARGUMENT);
    CHECK(pi_rows_count(NULL) == 0 && pi_rows_column_count(NULL) == 0);
    pi_rows_free(rows);
    pi_rows_free(NULL);
}

static void a_query_reads_this_session_and_writes_nothing(pi_session *session) {
    pi_rows *rows = DIRTY;
    pi_cell cell;
    OK(pi_session_query(session, "SELECT custom_type FROM entry WHERE type = 'custom'", PI_NUL, NULL, 0, &rows, NULL,
                        &error));
    CHECK(pi_rows_count(rows) == 1 && pi_rows_get(rows, 0, 0, &cell, sizeof cell) == PI_OK);
    CHECK_TEXT(cell.data, "note");
    pi_rows_free(rows);

    memset(&cell, 0, sizeof cell);
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "DELETE FROM entry", PI_NUL, NULL, 0, &rows, NULL, &error));
    CHECK(rows == NULL);
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT", PI_NUL, NULL, 0, &rows, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT ?1", PI_NUL, NULL, 0, &rows, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT ?1", PI_NUL, NULL, 1, &rows, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT ?1", PI_NUL, &cell, SIZE_MAX, &rows, NULL, &error));
    cell.type = 9;
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT ?1", PI_NUL, &cell, 1, &rows, NULL, &error));
    cell.type = PI_CELL_TEXT;
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT ?1", PI_NUL, &cell, 1, &rows, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, "SELECT 1", PI_NUL, NULL, 0, NULL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_query(session, NULL, 0, NULL, 0, &rows, NULL, &error));
    FAILS(PI_MISUSE, pi_session_query(NULL, "SELECT 1", PI_NUL, NULL, 0, &rows, NULL, &error));
}

static void a_context_ends_a_query(pi_session *session) {
    pi_context *context = NULL;
    pi_rows *rows = NULL;
    OK(pi_context_new(&context, &error));
    OK(pi_context_set_timeout(context, 20, &error));
    FAILS(PI_DEADLINE_EXCEEDED,
          pi_session_query(session,
                           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
                           PI_NUL, NULL, 0, &rows, context, &error));
    pi_context_free(context);
}

static void a_copy_is_a_session_of_its_own(pi_session *session, const char *uri) {
    char path[4096];
    pi_repository *copies = NULL;
    pi_session *copy = NULL;
    pi_buf *before = NULL, *after = NULL;
    int length = snprintf(path, sizeof path, "sqlite:%s.copy.sqlite", strchr(uri, ':') + 1);
    CHECK(length > 0 && (size_t)length < sizeof path);
    OK(pi_session_backup(session, strchr(path, ':') + 1, PI_NUL, NULL, &error));
    FAILS(PI_SESSION_EXISTS, pi_session_backup(session, strchr(path, ':') + 1, PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_backup(session, NULL, 0, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_backup(session, "", 0, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_backup(session, "a\0b", 3, NULL, &error));
    OK(pi_repository_open(path, PI_NUL, NULL, &copies, NULL, &error));
    OK(pi_session_open_read_only(copies, "s1", PI_NUL, &copy, NULL, &error));
    OK(pi_session_dump(session, &before, NULL, &error));
    OK(pi_session_dump(copy, &after, NULL, &error));
    CHECK_TEXT(pi_buf_data(after), pi_buf_data(before));
    pi_buf_free(before);
    pi_buf_free(after);
    OK(pi_session_close(copy, NULL, &error));
    CHECK(pi_session_free(copy) == PI_OK && pi_repository_free(copies) == PI_OK);
}

static void a_compaction_drops_what_is_dead(pi_session *session) {
    pi_compaction compaction;
    int i;
    for (i = 0; i < 100; i++) {
        OK(pi_session_set_value(session, "app", PI_NUL, "state", PI_NUL, "\"overwritten again and again\"", PI_NUL, NULL,
                                &error));
    }
    OK(pi_session_compact(session, &compaction, sizeof compaction, NULL, &error));
    CHECK(compaction.before > compaction.after + 5000 && compaction.after > 100);
    OK(pi_session_compact(session, NULL, 0, NULL, &error));
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = session_with_notes(repository);
    pi_rows *rows = DIRTY;
    pi_compaction compaction;
    if (strncmp(argv[1], "sqlite:", 7) == 0) {
        cells_come_as_they_are(session);
        a_query_reads_this_session_and_writes_nothing(session);
        a_context_ends_a_query(session);
        a_copy_is_a_session_of_its_own(session, argv[1]);
    } else {
        FAILS(PI_UNSUPPORTED, pi_session_query(session, "SELECT 1", PI_NUL, NULL, 0, &rows, NULL, &error));
        CHECK(rows == NULL);
        FAILS(PI_UNSUPPORTED, pi_session_backup(session, "copy.sqlite", PI_NUL, NULL, &error));
    }
    if (strncmp(argv[1], "jsonl:", 6) == 0) {
        a_compaction_drops_what_is_dead(session);
    } else {
        FAILS(PI_UNSUPPORTED, pi_session_compact(session, &compaction, sizeof compaction, NULL, &error));
        CHECK(compaction.before == 0 && compaction.after == 0);
    }
    finish(repository, session);
    return 0;
}

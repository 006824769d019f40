/* A panic is a number and an error; it latches the session it happened in, and nothing else. */
#include "check.h"

static int drops;

static void count_drop(void *user_data) {
    (void)user_data;
    drops++;
}

static int32_t panics_inside(pi_mutation *mutation, const pi_context *context, void *session, pi_error **error) {
    (void)mutation;
    (void)context;
    return pi_debug_panic(session, error);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "panics");
    pi_session *other = create_session(repository, "other");
    pi_branch *branch = NULL;
    pi_mutation *mutation = NULL;
    pi_buf *buf = DIRTY;
    pi_entry entry;
    pi_cursor *cursor = NULL;
    pi_error *kept = NULL;

    CHECK(pi_debug_panic(NULL, &kept) == PI_PANIC);
    CHECK_TEXT(pi_error_kind(kept), "Panic");
    CHECK(strstr(pi_error_message(kept), "pi_debug_panic was called") != NULL);
    CHECK(strstr(pi_error_message(kept), "debug.rs:") != NULL);
    pi_error_free(kept);
    CHECK(pi_debug_panic(NULL, NULL) == PI_PANIC);

    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_branch_append_message(branch, "{\"role\":\"user\"}", PI_NUL, NULL, NULL, &error));
    OK(pi_branch_entries(branch, NULL, &cursor, NULL, &error));

    FAILS(PI_PANIC, pi_session_mutate(session, panics_inside, session, count_drop, NULL, &error));
    CHECK(drops == 1);
    FAILS(PI_STORAGE_FAULT, pi_session_name(session, &buf, NULL, &error));
    CHECK(buf == NULL);
    FAILS(PI_STORAGE_FAULT, pi_session_set_name(session, "x", 1, NULL, &error));
    FAILS(PI_STORAGE_FAULT, pi_branch_append_message(branch, "{}", 2, NULL, NULL, &error));
    FAILS(PI_STORAGE_FAULT, pi_cursor_next(cursor, &entry, sizeof entry, &error));
    FAILS(PI_STORAGE_FAULT, pi_mutation_begin(session, &mutation, NULL, &error));
    FAILS(PI_STORAGE_FAULT, pi_session_mutate(session, panics_inside, session, count_drop, NULL, &error));
    CHECK(drops == 2);

    /* The others do not notice, and the session can be closed and opened again. */
    OK(pi_session_set_name(other, "fine", PI_NUL, NULL, &error));
    CHECK(pi_cursor_free(cursor) == PI_OK && pi_branch_free(branch) == PI_OK);
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
    OK(pi_session_open(repository, "panics", PI_NUL, &session, NULL, &error));
    OK(pi_branch_get(session, "main", PI_NUL, &branch, NULL, &error));
    OK(pi_branch_append_message(branch, "{\"role\":\"user\"}", PI_NUL, NULL, NULL, &error));
    CHECK(pi_branch_free(branch) == PI_OK);

    OK(pi_session_close(other, NULL, &error));
    CHECK(pi_session_free(other) == PI_OK);
    finish(repository, session);
    return 0;
}

/* Every way a call of the library can be refused, with its number, and every output cleared. */
#include "check.h"

static void repository_errors(pi_repository *repository) {
    pi_repository *opened = DIRTY;
    pi_repository_options options;
    struct {
        pi_repository_options known;
        uint64_t newer;
    } newer;

    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("nowhere", PI_NUL, NULL, &opened, NULL, &error));
    CHECK(opened == NULL);
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("other:x", PI_NUL, NULL, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open(NULL, 0, NULL, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open(NULL, 5, NULL, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("memory:", SIZE_MAX - 1, NULL, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("\xff", PI_NUL, NULL, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("memory:", PI_NUL, NULL, NULL, NULL, &error));

    pi_repository_options_init(&options, sizeof options);
    CHECK(options.struct_size == sizeof options && options.durability == 0);
    options.durability = 9;
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("memory:", PI_NUL, &options, &opened, NULL, &error));
    options.struct_size = 0;
    FAILS(PI_INVALID_ARGUMENT, pi_repository_open("memory:", PI_NUL, &options, &opened, NULL, &error));
    options.durability = PI_DURABILITY_PROCESS;
    options.busy_timeout_ms = 1;
    options.max_payload = 1;
    /* An older program knows fewer fields: the rest is default. */
    options.struct_size = offsetof(pi_repository_options, max_payload);
    OK(pi_repository_open("memory:", PI_NUL, &options, &opened, NULL, &error));
    CHECK(pi_repository_free(opened) == PI_OK);
    /* A newer program may know more, as long as it asks for nothing with it. */
    pi_repository_options_init(&newer.known, sizeof newer);
    OK(pi_repository_open("memory:", PI_NUL, &newer.known, &opened, NULL, &error));
    CHECK(pi_repository_free(opened) == PI_OK);
    newer.newer = 1;
    FAILS(PI_UNSUPPORTED, pi_repository_open("memory:", PI_NUL, &newer.known, &opened, NULL, &error));

    FAILS(PI_INVALID_ARGUMENT, pi_repository_list(repository, NULL, NULL, NULL, &error));
    FAILS(PI_UNKNOWN_SESSION, pi_repository_delete(repository, "absent", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ID, pi_repository_delete(repository, "", 0, NULL, &error));
}

static void session_errors(pi_repository *repository, pi_session *session) {
    pi_session *opened = DIRTY;
    pi_session_options options;
    pi_metadata metadata;
    pi_stats stats;

    FAILS(PI_UNKNOWN_SESSION, pi_session_open(repository, "absent", PI_NUL, &opened, NULL, &error));
    CHECK(opened == NULL);
    FAILS(PI_UNKNOWN_SESSION, pi_session_open_read_only(repository, "absent", PI_NUL, &opened, NULL, &error));
    FAILS(PI_SESSION_BUSY, pi_session_open(repository, "errors", PI_NUL, &opened, NULL, &error));
    FAILS(PI_SESSION_BUSY, pi_repository_delete(repository, "errors", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ID, pi_session_open(repository, "", 0, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_open(repository, NULL, 0, &opened, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_open(repository, "errors", PI_NUL, NULL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_create(repository, NULL, NULL, NULL, &error));
    pi_session_options_init(&options, sizeof options);
    options.id = "errors";
    options.id_len = PI_NUL;
    FAILS(PI_SESSION_EXISTS, pi_session_create(repository, &options, &opened, NULL, &error));
    options.id = "\xc3";
    FAILS(PI_INVALID_ARGUMENT, pi_session_create(repository, &options, &opened, NULL, &error));
    options.id = "a\0b";
    options.id_len = 3;
    FAILS(PI_INVALID_ID, pi_session_create(repository, &options, &opened, NULL, &error));

    FAILS(PI_INVALID_ARGUMENT, pi_session_metadata(session, NULL, 0, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_stats(session, NULL, 0, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_new_id(session, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_name(session, NULL, NULL, &error));
    /* An older program's struct is filled as far as it goes. */
    memset(&stats, 0xaa, sizeof stats);
    OK(pi_session_stats(session, &stats, sizeof stats.message_count, NULL, &error));
    CHECK(stats.message_count == 0 && stats.input != 0);
    memset(&metadata, 0xaa, sizeof metadata);
    FAILS(PI_MISUSE, pi_session_metadata(NULL, &metadata, sizeof metadata, &error));
    CHECK(metadata.id == NULL && metadata.created_at == 0 && metadata.path == NULL);

    FAILS(PI_INVALID_ID, pi_session_set_label(session, "", 0, "x", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_set_label(session, NULL, 0, "x", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_set_name(session, "\xff", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_get_label(session, "x", PI_NUL, NULL, NULL, &error));
}

static void value_errors(pi_session *session) {
    pi_buf *value = DIRTY;
    pi_values *values = DIRTY;
    pi_elements *elements = DIRTY;
    pi_list_read read;
    const uint64_t none = 0;
    pi_entries *entries = DIRTY;
    uint64_t seq = 7;
    pi_error *kept = NULL;

    FAILS(PI_INVALID_ADDRESS, pi_session_get_value(session, "", 0, "", 0, &value, &seq, NULL, &error));
    CHECK(value == NULL && seq == 0);
    FAILS(PI_INVALID_ARGUMENT, pi_session_get_value(session, "a", PI_NUL, NULL, 0, &value, NULL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_get_value(session, "a", PI_NUL, "", 0, NULL, NULL, NULL, &error));
    FAILS(PI_INVALID_ADDRESS, pi_session_scan_values(session, "a\0b", 3, "", 0, &values, NULL, &error));
    CHECK(values == NULL);
    pi_list_read_init(&read, sizeof read);
    read.limit = &none;
    FAILS(PI_INVALID_ARGUMENT, pi_session_read_list(session, "a", 1, "", 0, &read, &elements, NULL, &error));
    CHECK(elements == NULL);
    read.limit = NULL;
    read.order = 3;
    FAILS(PI_INVALID_ARGUMENT, pi_session_read_list(session, "a", 1, "", 0, &read, &elements, NULL, &error));

    FAILS(PI_INVALID_JSON, pi_session_set_value(session, "a", 1, "", 0, "{", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_JSON, pi_session_set_value(session, "a", 1, "", 0, "\"\xff\"", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_JSON, pi_session_set_value(session, "a", 1, "", 0, "NaN", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_set_value(session, "a", 1, "", 0, NULL, 0, NULL, &error));
    FAILS(PI_RESERVED_ADDRESS, pi_session_set_value(session, "pi.x", 4, "", 0, "1", PI_NUL, NULL, &error));
    FAILS(PI_RESERVED_ADDRESS, pi_session_append_list(session, "pi", 2, "", 0, "1", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_JSON, pi_session_append_list(session, "a", 1, "", 0, "1 2", PI_NUL, NULL, &error));
    FAILS(PI_INVALID_ADDRESS, pi_session_delete_value(session, "", 0, "", 0, NULL, &error));
    FAILS(PI_INVALID_ADDRESS, pi_session_delete_list(session, "", 0, "", 0, NULL, &error));

    /* What an error says. */
    CHECK(pi_session_set_value(session, "a", 1, "", 0, "[1,]", PI_NUL, NULL, &kept) == PI_INVALID_JSON);
    CHECK_TEXT(pi_error_kind(kept), "InvalidJson");
    CHECK(pi_error_offset(kept) == 3 && pi_error_line(kept) == -1 && pi_error_path(kept) == NULL);
    CHECK(pi_error_errno(kept) == 0 && pi_error_retryable(kept) == 0 && pi_error_id(kept) == NULL);
    pi_error_free(kept);
    CHECK(pi_session_scan_branch(session, "absent", PI_NUL, NULL, &entries, NULL, &kept) == PI_UNKNOWN_ENTRY);
    CHECK_TEXT(pi_error_id(kept), "absent");
    pi_error_free(kept);
    /* None is written on success, and none is needed. */
    kept = DIRTY;
    CHECK(pi_session_set_value(session, "a", 1, "", 0, "[1]", PI_NUL, NULL, &kept) == PI_OK && kept == NULL);
    CHECK(pi_session_set_value(session, "a", 1, "", 0, "[1,]", PI_NUL, NULL, NULL) == PI_INVALID_JSON);
    CHECK(pi_error_code(NULL) == PI_OK && pi_error_message(NULL) == NULL && pi_error_offset(NULL) == -1);
    CHECK(pi_error_id(NULL) == NULL);
}

static void branch_and_entry_errors(pi_session *session) {
    pi_branch *branch = DIRTY, *other = DIRTY;
    pi_entries *entries = DIRTY;
    pi_cursor *cursor = DIRTY;
    pi_nodes *nodes = DIRTY;
    pi_ids *made = DIRTY;
    pi_id no_id;
    pi_branch_scan scan;
    pi_entry_query query;
    pi_buf *id = DIRTY;
    const char *ids[1] = {NULL};

    FAILS(PI_INVALID_BRANCH, pi_branch_create(session, "", 0, NULL, 0, &branch, NULL, &error));
    CHECK(branch == NULL);
    FAILS(PI_UNKNOWN_TARGET, pi_branch_create(session, "b", 1, "absent", PI_NUL, &branch, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_branch_create(session, NULL, 0, NULL, 0, &branch, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_branch_create(session, "b", 1, NULL, 0, NULL, NULL, &error));
    OK(pi_branch_create(session, "b", 1, NULL, 0, &branch, NULL, &error));
    FAILS(PI_BRANCH_EXISTS, pi_branch_create(session, "b", 1, NULL, 0, &other, NULL, &error));
    CHECK(other == NULL);
    FAILS(PI_INVALID_ARGUMENT, pi_branch_get(session, "b", 1, NULL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_branches(session, NULL, NULL, &error));

    FAILS(PI_INVALID_JSON, pi_branch_append_message(branch, "{\"role\":", PI_NUL, &id, NULL, &error));
    CHECK(id == NULL);
    FAILS(PI_INVALID_ARGUMENT, pi_branch_append_message(branch, "[]", PI_NUL, &id, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_branch_append_message(branch, NULL, 0, &id, NULL, &error));
    FAILS(PI_PENDING_ASSISTANT,
          pi_branch_append_message(branch, "{\"role\":\"assistant\",\"stopReason\":\"pending\"}", PI_NUL, &id, NULL,
                                   &error));
    FAILS(PI_INVALID_JSON, pi_branch_append_custom_entry(branch, "t", 1, "x", PI_NUL, &id, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_branch_append_custom_entry(branch, NULL, 0, "1", PI_NUL, &id, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_branch_tip_id(branch, NULL, NULL, &error));

    /* What was refused is not added; one refused node refuses all. */
    FAILS(PI_INVALID_ARGUMENT, pi_nodes_new(NULL, &error));
    OK(pi_nodes_new(&nodes, &error));
    FAILS(PI_INVALID_JSON, pi_nodes_add_message(nodes, "{\"role\":", PI_NUL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_nodes_add_message(nodes, NULL, 0, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_nodes_add_message(NULL, "{}", PI_NUL, &error));
    FAILS(PI_INVALID_JSON, pi_nodes_add_custom_entry(nodes, "t", 1, "x", PI_NUL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_nodes_add_custom_entry(nodes, NULL, 0, "1", PI_NUL, &error));
    CHECK(pi_nodes_count(nodes) == 0 && pi_nodes_count(NULL) == 0);
    OK(pi_nodes_add_message(nodes, "{}", PI_NUL, &error));
    FAILS(PI_MISUSE, pi_branch_append_many(NULL, nodes, &made, NULL, &error));
    CHECK(made == NULL);
    OK(pi_nodes_add_message(nodes, "{\"role\":\"assistant\",\"stopReason\":\"pending\"}", PI_NUL, &error));
    FAILS(PI_PENDING_ASSISTANT, pi_branch_append_many(branch, nodes, &made, NULL, &error));
    CHECK(made == NULL && pi_nodes_count(nodes) == 2);
    CHECK(pi_ids_count(NULL) == 0 && pi_ids_get(NULL, 0, &no_id, sizeof no_id) == PI_INVALID_ARGUMENT);
    OK(pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 0);
    pi_entries_free(entries);
    pi_nodes_free(nodes);
    pi_nodes_free(NULL);
    pi_ids_free(NULL);
    entries = DIRTY;

    pi_branch_scan_init(&scan, sizeof scan);
    scan.type = "nothing";
    scan.type_len = PI_NUL;
    FAILS(PI_INVALID_ARGUMENT, pi_branch_find_entries(branch, &scan, &entries, NULL, &error));
    CHECK(entries == NULL);
    FAILS(PI_INVALID_ARGUMENT, pi_branch_entries(branch, &scan, &cursor, NULL, &error));
    CHECK(cursor == NULL);
    pi_entry_query_init(&query, sizeof query);
    query.order = -1;
    FAILS(PI_INVALID_ARGUMENT, pi_session_find_entries(session, &query, &entries, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_entries(session, &query, &cursor, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_entries(session, NULL, NULL, NULL, &error));
    FAILS(PI_UNKNOWN_ENTRY, pi_session_scan_branch(session, "absent", PI_NUL, NULL, &entries, NULL, &error));
    FAILS(PI_UNKNOWN_ENTRY,
          pi_session_scan_branch_structure(session, "absent", PI_NUL, NULL, &entries, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_scan_branch_structure(session, "a", 1, NULL, NULL, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_get_entries(session, NULL, NULL, 1, &entries, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_get_entries(session, ids, NULL, 1, &entries, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_get_entry(session, NULL, 0, &entries, NULL, &error));
    OK(pi_session_get_entries(session, NULL, NULL, 0, &entries, NULL, &error));
    pi_entries_free(entries);

    /* A branch that is deleted under its handle. */
    OK(pi_session_delete_value(session, "pi.branch.tip", PI_NUL, "b", 1, NULL, &error));
    FAILS(PI_UNKNOWN_BRANCH, pi_branch_tip_id(branch, &id, NULL, &error));
    FAILS(PI_UNKNOWN_BRANCH, pi_branch_append_message(branch, "{}", PI_NUL, &id, NULL, &error));
    FAILS(PI_UNKNOWN_BRANCH, pi_branch_entries(branch, NULL, &cursor, NULL, &error));
    CHECK(pi_branch_free(branch) == PI_OK);
}

static void context_errors(pi_session *session) {
    pi_context *context = NULL;
    pi_buf *name = DIRTY;

    FAILS(PI_INVALID_ARGUMENT, pi_context_new(NULL, &error));
    OK(pi_context_new(&context, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_context_set_traceparent(context, "00-1-2-3", PI_NUL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_context_set_traceparent(context, NULL, 0, &error));
    OK(pi_context_set_traceparent(context, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", PI_NUL, &error));
    OK(pi_context_set_timeout(context, UINT64_MAX, &error));
    OK(pi_session_name(session, &name, context, &error));
    OK(pi_context_set_timeout(context, 0, &error));
    FAILS(PI_DEADLINE_EXCEEDED, pi_session_set_name(session, "late", PI_NUL, context, &error));
    CHECK(pi_context_free(context) == PI_OK);
    OK(pi_context_new(&context, &error));
    OK(pi_context_cancel(context, &error));
    name = DIRTY;
    FAILS(PI_CANCELLED, pi_session_name(session, &name, context, &error));
    CHECK(name == NULL);
    FAILS(PI_CANCELLED, pi_session_set_name(session, "late", PI_NUL, context, &error));
    CHECK(pi_context_free(context) == PI_OK);
    FAILS(PI_MISUSE, pi_session_set_name(session, "late", PI_NUL, context, &error));
}

static void read_only_and_closed(pi_repository *repository, pi_session *session) {
    pi_session *reader = NULL;
    pi_branch *branch = NULL;
    pi_cursor *cursor = NULL;
    pi_entry entry;
    pi_buf *buf = DIRTY;
    pi_mutation *mutation = DIRTY;
    uint64_t seq = 1;

    OK(pi_branch_create(session, "c", 1, NULL, 0, &branch, NULL, &error));
    OK(pi_branch_append_message(branch, "{}", PI_NUL, NULL, NULL, &error));
    OK(pi_session_open_read_only(repository, "errors", PI_NUL, &reader, NULL, &error));
    FAILS(PI_READ_ONLY, pi_session_set_name(reader, "x", 1, NULL, &error));
    OK(pi_session_close(reader, NULL, &error));
    CHECK(pi_session_free(reader) == PI_OK);

    OK(pi_session_entries(session, NULL, &cursor, NULL, &error));
    OK(pi_session_close(session, NULL, &error));
    FAILS(PI_CLOSED, pi_session_name(session, &buf, NULL, &error));
    CHECK(buf == NULL);
    FAILS(PI_CLOSED, pi_session_set_name(session, "x", 1, NULL, &error));
    FAILS(PI_CLOSED, pi_session_next_seq(session, &seq, NULL, &error));
    CHECK(seq == 0);
    FAILS(PI_CLOSED, pi_session_dump(session, &buf, NULL, &error));
    CHECK(buf == NULL);
    FAILS(PI_CLOSED, pi_session_export(session, "never.jsonl", PI_NUL, NULL, &buf, NULL, &error));
    CHECK(buf == NULL);
    FAILS(PI_CLOSED, pi_branch_tip_id(branch, &buf, NULL, &error));
    FAILS(PI_CLOSED, pi_branch_append_message(branch, "{}", PI_NUL, &buf, NULL, &error));
    FAILS(PI_CLOSED, pi_mutation_begin(session, &mutation, NULL, &error));
    CHECK(mutation == NULL);
    FAILS(PI_CLOSED, pi_cursor_next(cursor, &entry, sizeof entry, &error));
    CHECK(entry.id == NULL);
    OK(pi_cursor_next(cursor, &entry, sizeof entry, &error));
    CHECK(entry.id == NULL);
    CHECK(pi_cursor_free(cursor) == PI_OK && pi_branch_free(branch) == PI_OK);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "errors");

    repository_errors(repository);
    session_errors(repository, session);
    value_errors(session);
    branch_and_entry_errors(session);
    context_errors(session);
    read_only_and_closed(repository, session);
    finish(repository, session);
    return 0;
}

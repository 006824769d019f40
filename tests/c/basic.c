/* A session is made, used, closed, listed and opened again. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "check.h"

static void entries_along_a_branch(pi_session *session) {
    pi_branch *branch = NULL, *other = NULL;
    pi_branches *branches = NULL;
    pi_branch_info info;
    pi_buf *first = NULL, *second = NULL, *tip = NULL;
    pi_entries *entries = NULL;
    pi_entry entry;
    pi_branch_scan scan;
    pi_cursor *cursor = NULL;
    pi_metadata metadata;
    const uint64_t one = 1;
    int steps = 0;

    OK(pi_branch_get(session, "main", PI_NUL, &branch, NULL, &error));
    CHECK(branch == NULL);
    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    CHECK_TEXT(pi_branch_name(branch), "main");
    OK(pi_branch_tip_id(branch, &tip, NULL, &error));
    CHECK(tip == NULL);
    OK(pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 0);
    pi_entries_free(entries);

    OK(pi_branch_append_message(branch, "{\"role\":\"user\", \"n\":9007199254740993}", PI_NUL, &first, NULL, &error));
    OK(pi_branch_append_custom_entry(branch, "note", 4, NULL, 0, NULL, NULL, &error));
    OK(pi_branch_append_custom_entry(branch, "note!", 4, "[1e400]", PI_NUL, &second, NULL, &error));
    OK(pi_branch_tip_id(branch, &tip, NULL, &error));
    CHECK_TEXT(pi_buf_data(tip), pi_buf_data(second));
    CHECK(pi_buf_len(tip) == strlen(pi_buf_data(tip)));

    OK(pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 3);
    CHECK(pi_entries_get(entries, 0, &entry, sizeof entry) == PI_OK);
    CHECK_TEXT(entry.id, pi_buf_data(second));
    CHECK_TEXT(entry.type, "custom");
    CHECK_TEXT(entry.custom_type, "note");
    CHECK_TEXT(entry.payload, "{\"data\":[1e400]}");
    CHECK(entry.payload_len == strlen(entry.payload));
    CHECK(pi_entries_get(entries, 2, &entry, sizeof entry) == PI_OK);
    CHECK(entry.parent_id == NULL && entry.custom_type == NULL && entry.timestamp > 0);
    CHECK_TEXT(entry.payload, "{\"message\":{\"role\":\"user\", \"n\":9007199254740993}}");
    CHECK(pi_entries_get(entries, 3, &entry, sizeof entry) == PI_INVALID_ARGUMENT);
    CHECK(entry.id == NULL);
    pi_entries_free(entries);

    pi_branch_scan_init(&scan, sizeof scan);
    scan.type = "message";
    scan.type_len = PI_NUL;
    scan.limit = &one;
    OK(pi_branch_find_entries(branch, &scan, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 1);
    pi_entries_free(entries);
    OK(pi_session_scan_branch(session, pi_buf_data(second), pi_buf_len(second), &scan, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 1);
    pi_entries_free(entries);

    /* Where they stand, without their payloads. */
    OK(pi_session_scan_branch_structure(session, pi_buf_data(second), PI_NUL, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 3);
    CHECK(pi_entries_get(entries, 0, &entry, sizeof entry) == PI_OK);
    CHECK_TEXT(entry.id, pi_buf_data(second));
    CHECK_TEXT(entry.custom_type, "note");
    CHECK(entry.seq > 0 && entry.timestamp > 0 && entry.payload == NULL && entry.payload_len == 0);
    pi_entries_free(entries);

    pi_branch_scan_init(&scan, sizeof scan);
    scan.order = PI_ASCENDING;
    OK(pi_branch_entries(branch, &scan, &cursor, NULL, &error));
    for (;;) {
        OK(pi_cursor_next(cursor, &entry, sizeof entry, &error));
        if (entry.id == NULL)
            break;
        if (steps++ == 0)
            CHECK_TEXT(entry.id, pi_buf_data(first));
    }
    CHECK(steps == 3);
    CHECK(pi_cursor_free(cursor) == PI_OK);

    OK(pi_branch_create(session, "other", PI_NUL, pi_buf_data(first), PI_NUL, &other, NULL, &error));
    OK(pi_session_branches(session, &branches, NULL, &error));
    CHECK(pi_branches_count(branches) == 2);
    CHECK(pi_branches_get(branches, 1, &info, sizeof info) == PI_OK);
    CHECK_TEXT(info.name, "other");
    CHECK_TEXT(info.tip_id, pi_buf_data(first));
    pi_branches_free(branches);

    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.id, "basic");
    CHECK(metadata.id_len == 5 && metadata.storage_version == 1 && metadata.created_at > 0);
    CHECK(metadata.parent_session_id == NULL);

    pi_buf_free(first);
    pi_buf_free(second);
    pi_buf_free(tip);
    CHECK(pi_branch_free(branch) == PI_OK && pi_branch_free(other) == PI_OK);
}

static void entries_of_the_session(pi_session *session) {
    pi_entries *entries = NULL, *same = NULL;
    pi_entry entry;
    pi_entry_query query;
    const char *ids[3];
    const uint64_t none = 0;

    pi_entry_query_init(&query, sizeof query);
    query.custom_type = "note";
    query.custom_type_len = PI_NUL;
    query.order = PI_ASCENDING;
    OK(pi_session_find_entries(session, &query, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 2);
    CHECK(pi_entries_get(entries, 0, &entry, sizeof entry) == PI_OK);
    CHECK_TEXT(entry.payload, "{}");

    ids[0] = entry.id;
    ids[1] = "absent";
    ids[2] = entry.id;
    OK(pi_session_get_entries(session, ids, NULL, 3, &same, NULL, &error));
    CHECK(pi_entries_count(same) == 2);
    pi_entries_free(same);
    OK(pi_session_get_entry(session, entry.id, entry.id_len, &same, NULL, &error));
    CHECK(pi_entries_count(same) == 1);
    pi_entries_free(same);
    OK(pi_session_get_entry(session, "absent", PI_NUL, &same, NULL, &error));
    CHECK(same == NULL);
    OK(pi_session_set_label(session, entry.id, entry.id_len, "a label", PI_NUL, NULL, &error));
    pi_entries_free(entries);

    query.limit = &none;
    OK(pi_session_find_entries(session, &query, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 0);
    pi_entries_free(entries);

}

/* The payloads that a cursor gives, one a line. */
static void payloads_of(pi_session *session, const pi_entry_query *query, char *lines) {
    pi_cursor *cursor = NULL;
    pi_entry entry;

    lines[0] = '\0';
    OK(pi_session_entries(session, query, &cursor, NULL, &error));
    for (;;) {
        OK(pi_cursor_next(cursor, &entry, sizeof entry, &error));
        if (entry.id == NULL)
            break;
        strcat(strcat(lines, entry.payload), "\n");
    }
    CHECK(pi_cursor_free(cursor) == PI_OK);
}

#define MESSAGE "{\"message\":{\"role\":\"user\", \"n\":9007199254740993}}\n"
#define WITHOUT_DATA "{}\n"
#define WITH_DATA "{\"data\":[1e400]}\n"

/* Each field of a query counts for the cursor. */
static void a_cursor_over_the_session(pi_session *session) {
    pi_entry_query query, plain;
    pi_entries *entries = NULL;
    pi_entry entry;
    char lines[500];
    const uint64_t one = 1, none = 0;
    uint64_t seq;

    payloads_of(session, NULL, lines);
    CHECK_TEXT(lines, WITH_DATA WITHOUT_DATA MESSAGE);
    pi_entry_query_init(&plain, sizeof plain);
    query = plain;
    query.order = PI_ASCENDING;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, MESSAGE WITHOUT_DATA WITH_DATA);
    query.limit = &one;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, MESSAGE);
    query.limit = &none;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, "");
    query = plain;
    query.type = "custom";
    query.order = PI_ASCENDING;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, WITHOUT_DATA WITH_DATA);
    query.custom_type = "another";
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, "");

    OK(pi_session_find_entries(session, NULL, &entries, NULL, &error));
    CHECK(pi_entries_get(entries, 1, &entry, sizeof entry) == PI_OK);
    seq = entry.seq;
    pi_entries_free(entries);
    query = plain;
    query.cursor = &seq;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, MESSAGE);
    query.order = PI_ASCENDING;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, WITH_DATA);
    query = plain;
    query.from_seq = &seq;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, WITH_DATA WITHOUT_DATA);
    query.to_seq = &seq;
    payloads_of(session, &query, lines);
    CHECK_TEXT(lines, WITHOUT_DATA);
}

/* A text of an options struct is set without its length, and with it. */
static void texts_of_options(pi_repository *repository) {
    pi_session_options options;
    pi_session *session = NULL;
    pi_metadata metadata;
    pi_branch_scan scan;
    pi_entry_query query;

    pi_session_options_init(&options, sizeof options);
    CHECK(options.id == NULL && options.id_len == PI_NUL && options.cwd_len == PI_NUL);
    CHECK(options.parent_session_id_len == PI_NUL);
    options.id = "texts";
    options.cwd = "/a folder";
    options.cwd_len = 2;
    OK(pi_session_create(repository, &options, &session, NULL, &error));
    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.id, "texts");
    CHECK_TEXT(metadata.cwd, "/a");
    CHECK(metadata.parent_session_id == NULL);
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
    OK(pi_repository_delete(repository, "texts", PI_NUL, NULL, &error));

    pi_branch_scan_init(&scan, sizeof scan);
    CHECK(scan.stop_at_type_len == PI_NUL && scan.stop_at_id_len == PI_NUL);
    CHECK(scan.type_len == PI_NUL && scan.custom_type_len == PI_NUL);
    CHECK(scan.type == NULL && scan.limit == NULL && scan.order == 0);
    /* An older program has fewer fields, and nothing beyond them is written. */
    memset(&query, 1, sizeof query);
    pi_entry_query_init(&query, offsetof(pi_entry_query, custom_type_len));
    CHECK(query.struct_size == offsetof(pi_entry_query, custom_type_len) && query.type_len == PI_NUL);
    CHECK(query.custom_type == NULL && query.custom_type_len == (size_t)0x0101010101010101);
}

/* Several entries go under the tip in one commit; the batch may be used again. */
static void several_entries_at_once(pi_session *session) {
    pi_branch *branch = NULL;
    pi_nodes *nodes = NULL;
    pi_ids *ids = NULL;
    pi_id first, second;
    pi_entries *entries = NULL;
    pi_entry entry;
    pi_buf *tip = NULL;

    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_nodes_new(&nodes, &error));
    OK(pi_branch_append_many(branch, nodes, &ids, NULL, &error));
    CHECK(ids != NULL && pi_ids_count(ids) == 0);
    pi_ids_free(ids);
    OK(pi_branch_append_many(branch, NULL, NULL, NULL, &error));
    OK(pi_nodes_add_message(nodes, "{\"role\":\"user\", \"n\":1e400}x", 26, &error));
    OK(pi_nodes_add_custom_entry(nodes, "note", PI_NUL, NULL, 0, &error));
    OK(pi_nodes_add_custom_entry(nodes, "note!", 4, "[ 1 ]", PI_NUL, &error));
    CHECK(pi_nodes_count(nodes) == 3);
    OK(pi_branch_append_many(branch, nodes, &ids, NULL, &error));
    CHECK(pi_ids_count(ids) == 3);
    CHECK(pi_ids_get(ids, 0, &first, sizeof first) == PI_OK && first.id_len == strlen(first.id));
    CHECK(pi_ids_get(ids, 1, &second, sizeof second) == PI_OK);

    OK(pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 3);
    CHECK(pi_entries_get(entries, 0, &entry, sizeof entry) == PI_OK);
    CHECK_TEXT(entry.parent_id, second.id);
    CHECK_TEXT(entry.custom_type, "note");
    CHECK_TEXT(entry.payload, "{\"data\":[ 1 ]}");
    CHECK(pi_entries_get(entries, 1, &entry, sizeof entry) == PI_OK);
    CHECK_TEXT(entry.id, second.id);
    CHECK_TEXT(entry.parent_id, first.id);
    CHECK_TEXT(entry.payload, "{}");
    CHECK(pi_entries_get(entries, 2, &entry, sizeof entry) == PI_OK);
    CHECK_TEXT(entry.id, first.id);
    CHECK(entry.parent_id == NULL);
    CHECK_TEXT(entry.payload, "{\"message\":{\"role\":\"user\", \"n\":1e400}}");
    pi_entries_free(entries);
    CHECK(pi_ids_get(ids, 3, &first, sizeof first) == PI_INVALID_ARGUMENT && first.id == NULL);
    pi_ids_free(ids);

    OK(pi_branch_append_many(branch, nodes, &ids, NULL, &error));
    pi_nodes_free(nodes);
    OK(pi_branch_tip_id(branch, &tip, NULL, &error));
    CHECK(pi_ids_get(ids, 2, &first, sizeof first) == PI_OK);
    CHECK_TEXT(pi_buf_data(tip), first.id);
    pi_buf_free(tip);
    pi_ids_free(ids);
    CHECK(pi_branch_free(branch) == PI_OK);
}

static void values_lists_and_names(pi_session *session) {
    pi_buf *text = NULL;
    pi_values *values = NULL;
    pi_value value;
    pi_elements *elements = NULL;
    pi_element element;
    pi_list_read read;
    uint64_t seq = 0;
    const uint64_t one = 1;

    OK(pi_session_get_value(session, "app", PI_NUL, "", 0, &text, &seq, NULL, &error));
    CHECK(text == NULL && seq == 0);
    OK(pi_session_set_value(session, "app", PI_NUL, "", 0, "{\"a\" : 1e-7}", PI_NUL, NULL, &error));
    OK(pi_session_set_value(session, "app", PI_NUL, "key", PI_NUL, "null", PI_NUL, NULL, &error));
    OK(pi_session_get_value(session, "app", PI_NUL, "", 0, &text, &seq, NULL, &error));
    CHECK_TEXT(pi_buf_data(text), "{\"a\" : 1e-7}");
    CHECK(seq > 0);
    pi_buf_free(text);

    OK(pi_session_scan_values(session, "app", PI_NUL, "", 0, &values, NULL, &error));
    CHECK(pi_values_count(values) == 2);
    CHECK(pi_values_get(values, 1, &value, sizeof value) == PI_OK);
    CHECK_TEXT(value.name_space, "app");
    CHECK_TEXT(value.key, "key");
    CHECK_TEXT(value.value, "null");
    CHECK(value.seq == seq + 1 && value.value_len == 4);
    pi_values_free(values);
    OK(pi_session_delete_value(session, "app", PI_NUL, "key", PI_NUL, NULL, &error));
    OK(pi_session_get_value(session, "app", PI_NUL, "key", PI_NUL, &text, NULL, NULL, &error));
    CHECK(text == NULL);

    OK(pi_session_append_list(session, "app", PI_NUL, "list", PI_NUL, "1", PI_NUL, NULL, &error));
    OK(pi_session_append_list(session, "app", PI_NUL, "list", PI_NUL, "2", PI_NUL, NULL, &error));
    pi_list_read_init(&read, sizeof read);
    read.order = PI_DESCENDING;
    read.limit = &one;
    OK(pi_session_read_list(session, "app", PI_NUL, "list", PI_NUL, &read, &elements, NULL, &error));
    CHECK(pi_elements_count(elements) == 1);
    CHECK(pi_elements_get(elements, 0, &element, sizeof element) == PI_OK);
    CHECK_TEXT(element.value, "2");
    seq = element.seq;
    pi_elements_free(elements);
    read.cursor = &seq;
    OK(pi_session_read_list(session, "app", PI_NUL, "list", PI_NUL, &read, &elements, NULL, &error));
    CHECK(pi_elements_get(elements, 0, &element, sizeof element) == PI_OK);
    CHECK_TEXT(element.value, "1");
    pi_elements_free(elements);
    OK(pi_session_delete_list(session, "app", PI_NUL, "list", PI_NUL, NULL, &error));
    OK(pi_session_read_list(session, "app", PI_NUL, "list", PI_NUL, NULL, &elements, NULL, &error));
    CHECK(pi_elements_count(elements) == 0);
    pi_elements_free(elements);

    OK(pi_session_name(session, &text, NULL, &error));
    CHECK(text == NULL);
    OK(pi_session_set_name(session, "g\xc3\xbcte\0x", 7, NULL, &error));
    OK(pi_session_name(session, &text, NULL, &error));
    CHECK(pi_buf_len(text) == 7 && memcmp(pi_buf_data(text), "g\xc3\xbcte\0x", 8) == 0);
    pi_buf_free(text);
    OK(pi_session_set_name(session, NULL, 0, NULL, &error));
    OK(pi_session_name(session, &text, NULL, &error));
    CHECK(text == NULL);
    OK(pi_session_set_name(session, "first", PI_NUL, NULL, &error));

    OK(pi_session_set_label(session, "any", PI_NUL, "label", PI_NUL, NULL, &error));
    OK(pi_session_get_label(session, "any", PI_NUL, &text, NULL, &error));
    CHECK_TEXT(pi_buf_data(text), "label");
    pi_buf_free(text);
    OK(pi_session_set_label(session, "any", PI_NUL, NULL, 0, NULL, &error));
    OK(pi_session_get_label(session, "any", PI_NUL, &text, NULL, &error));
    CHECK(text == NULL);
}

/* A session without usage; tests/c/mutation.c writes some. */
static void the_whole_session(pi_session *session) {
    pi_buf *dump = NULL;
    pi_usage_rows *rows = DIRTY;
    uint64_t seq = 0;

    OK(pi_session_next_seq(session, &seq, NULL, &error));
    CHECK(seq > 1);
    OK(pi_session_set_value(session, "app", PI_NUL, "seq", PI_NUL, "1", PI_NUL, NULL, &error));
    OK(pi_session_dump(session, &dump, NULL, &error));
    CHECK(pi_buf_len(dump) == strlen(pi_buf_data(dump)));
    CHECK(strstr(pi_buf_data(dump), "{\"role\":\"user\", \"n\":9007199254740993}") != NULL);
    CHECK(strstr(pi_buf_data(dump), "\"nextSeq\":") != NULL);
    pi_buf_free(dump);
    OK(pi_session_scan_usage(session, NULL, &rows, NULL, &error));
    CHECK(pi_usage_rows_count(rows) == 0);
    pi_usage_rows_free(rows);
}

/* A file of version 3: a header, and lines that end each with a line feed. */
static void the_session_as_a_file(pi_session *session) {
    pi_export_options options;
    pi_buf *report = DIRTY;
    char path[64], line[64];
    FILE *file;

    snprintf(path, sizeof path, "/tmp/pisession-export-%ld.jsonl", (long)getpid());
    remove(path);
    OK(pi_session_export(session, path, PI_NUL, NULL, &report, NULL, &error));
    CHECK(strstr(pi_buf_data(report), "\"losses\":[") != NULL);
    CHECK(strstr(pi_buf_data(report), "\"kind\":\"value\"") != NULL);
    pi_buf_free(report);
    file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    CHECK(strncmp(line, "{\"type\":\"session\",\"version\":3,", 30) == 0);
    fclose(file);

    FAILS(PI_SESSION_EXISTS, pi_session_export(session, path, strlen(path), NULL, &report, NULL, &error));
    CHECK(report == NULL);
    pi_export_options_init(&options, sizeof options);
    CHECK(options.branch == NULL && options.branch_len == PI_NUL && options.overwrite == 0);
    options.overwrite = 1;
    OK(pi_session_export(session, path, PI_NUL, &options, NULL, NULL, &error));
    options.branch = "nobody's";
    FAILS(PI_UNKNOWN_BRANCH, pi_session_export(session, path, PI_NUL, &options, NULL, NULL, &error));
    options.branch = "main";
    OK(pi_session_export(session, path, PI_NUL, &options, &report, NULL, &error));
    pi_buf_free(report);
    FAILS(PI_INVALID_ARGUMENT, pi_session_export(session, NULL, 0, &options, &report, NULL, &error));
    CHECK(report == NULL && remove(path) == 0);
}

static void listing_and_opening_again(pi_repository *repository) {
    pi_sessions *sessions = NULL;
    pi_session_info info;
    pi_list_options options;
    pi_session *session = NULL, *reader = NULL;
    pi_stats stats;
    pi_buf *name = NULL;

    OK(pi_repository_list(repository, NULL, &sessions, NULL, &error));
    CHECK(pi_sessions_count(sessions) == 1);
    CHECK(pi_sessions_get(sessions, 0, &info, sizeof info) == PI_OK);
    CHECK_TEXT(info.id, "basic");
    CHECK(info.problem == NULL && info.problem_code == PI_OK && info.name == NULL && info.message_count == -1);
    CHECK(info.format_len > 0);
    pi_sessions_free(sessions);
    pi_list_options_init(&options, sizeof options);
    options.details = 1;
    OK(pi_repository_list(repository, &options, &sessions, NULL, &error));
    CHECK(pi_sessions_get(sessions, 0, &info, sizeof info) == PI_OK);
    CHECK_TEXT(info.name, "first");
    CHECK(info.message_count == 1);
    CHECK(pi_sessions_get(sessions, 1, &info, sizeof info) == PI_INVALID_ARGUMENT);
    pi_sessions_free(sessions);

    OK(pi_session_open(repository, "basic", PI_NUL, &session, NULL, &error));
    OK(pi_session_open_read_only(repository, "basic", PI_NUL, &reader, NULL, &error));
    OK(pi_session_stats(reader, &stats, sizeof stats, NULL, &error));
    CHECK(stats.message_count == 1 && stats.total_tokens == 0 && !stats.has_reasoning);
    OK(pi_session_name(reader, &name, NULL, &error));
    CHECK_TEXT(pi_buf_data(name), "first");
    pi_buf_free(name);
    OK(pi_session_close(reader, NULL, &error));
    OK(pi_session_close(session, NULL, &error));
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(reader) == PI_OK && pi_session_free(session) == PI_OK);

    OK(pi_repository_delete(repository, "basic", PI_NUL, NULL, &error));
    OK(pi_repository_list(repository, NULL, &sessions, NULL, &error));
    CHECK(pi_sessions_count(sessions) == 0);
    pi_sessions_free(sessions);
}

static void versions(void) {
    CHECK(pi_version_number() == PI_VERSION_NUMBER);
    CHECK(strlen(pi_version()) >= 5 && pi_abi_version() == 0);
    CHECK(pi_sqlite_version()[0] == '3');
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "basic");

    versions();
    entries_along_a_branch(session);
    entries_of_the_session(session);
    a_cursor_over_the_session(session);
    values_lists_and_names(session);
    the_whole_session(session);
    the_session_as_a_file(session);
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
    listing_and_opening_again(repository);
    texts_of_options(repository);
    session = create_session(repository, "last");
    several_entries_at_once(session);
    finish(repository, session);
    return 0;
}

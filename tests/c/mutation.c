/* The mutation line: explicit scopes, functions that run inside one, and what they leave behind. */
#include "check.h"

static const char USAGE[] =
    "{\"id\":\"u1\",\"usage\":{\"input\":1,\"output\":2,\"cacheRead\":3,\"cacheWrite\":4,\"reasoning\":5,"
    "\"totalTokens\":10,\"cost\":{\"input\":0.1,\"output\":0.2,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0.3}}}";

static void a_scope_begins_reads_commits_and_ends(pi_session *session) {
    pi_mutation *mutation = NULL, *nested = DIRTY;
    pi_writes *writes = NULL;
    pi_commit_result *result = NULL;
    pi_buf *id = NULL, *value = NULL;
    pi_entries *entries = NULL;
    pi_values *values = NULL;
    pi_elements *elements = NULL;
    pi_stats stats;
    const char *ids[1];
    uint64_t seq = 0;

    OK(pi_session_new_id(session, &id, &error));
    OK(pi_writes_new(&writes, &error));
    OK(pi_writes_insert_message(writes, pi_buf_data(id), PI_NUL, NULL, 0, "{\"role\":\"user\"}", PI_NUL, &error));
    OK(pi_writes_insert_custom_entry(writes, "c1", 2, pi_buf_data(id), PI_NUL, "note", 4, "{}", 2, &error));
    OK(pi_writes_insert_entry(
        writes, "{\"id\":\"e1\",\"parentId\":\"c1\",\"type\":\"branch_summary\",\"fromId\":null,\"summary\":\"s\",\"fromHook\":false}",
        PI_NUL, &error));
    OK(pi_writes_insert_usage(writes, USAGE, PI_NUL, &error));
    OK(pi_writes_set_value(writes, "pi.branch.tip", PI_NUL, "main", PI_NUL, "\"e1\"", PI_NUL, &error));
    OK(pi_writes_append_list(writes, "app", 3, "", 0, "[]", 2, &error));
    OK(pi_writes_delete_value(writes, "app", 3, "absent", PI_NUL, &error));
    OK(pi_writes_delete_list(writes, "app", 3, "absent", PI_NUL, &error));
    CHECK(pi_writes_count(writes) == 8);

    /* What is wrong by itself is not added. */
    FAILS(PI_INVALID_JSON, pi_writes_insert_entry(writes, "{", 1, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_writes_insert_entry(writes, "{\"id\":\"x\",\"parentId\":null,\"type\":\"y\"}", PI_NUL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_writes_insert_message(writes, NULL, 0, NULL, 0, "{}", 2, &error));
    FAILS(PI_INVALID_JSON, pi_writes_insert_custom_entry(writes, "x", 1, NULL, 0, "t", 1, "{", 1, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_writes_insert_usage(writes, "{\"id\":\"x\"}", PI_NUL, &error));
    FAILS(PI_INVALID_JSON, pi_writes_set_value(writes, "a", 1, "", 0, "", 0, &error));
    FAILS(PI_INVALID_ADDRESS, pi_writes_append_list(writes, "", 0, "", 0, "1", 1, &error));
    FAILS(PI_INVALID_ADDRESS, pi_writes_delete_value(writes, "", 0, "", 0, &error));
    FAILS(PI_INVALID_ADDRESS, pi_writes_delete_list(writes, "", 0, "", 0, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_writes_delete_list(NULL, "a", 1, "", 0, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_writes_new(NULL, &error));
    CHECK(pi_writes_count(writes) == 8);

    FAILS(PI_INVALID_ARGUMENT, pi_mutation_begin(session, NULL, NULL, &error));
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    FAILS(PI_NESTED_MUTATION, pi_mutation_begin(session, &nested, NULL, &error));
    CHECK(nested == NULL);
    FAILS(PI_NESTED_MUTATION, pi_session_set_name(session, "x", 1, NULL, &error));
    FAILS(PI_NESTED_MUTATION, pi_session_close(session, NULL, &error));
    OK(pi_mutation_commit(mutation, writes, &result, NULL, &error));
    CHECK(pi_commit_result_count(result) == 8 && pi_commit_result_timestamp(result) > 0);
    CHECK(pi_commit_result_seqs(result)[0] == pi_commit_result_first_seq(result));
    CHECK(pi_commit_result_seqs(result)[7] > pi_commit_result_seqs(result)[6]);
    CHECK(pi_commit_result_stats(result, &stats, sizeof stats) == PI_OK);
    CHECK(stats.message_count == 1 && stats.total_tokens == 10 && stats.cost_total == 0.3);
    CHECK(stats.has_reasoning && stats.reasoning == 5 && !stats.has_cache_write_1h);
    CHECK(pi_commit_result_stats(NULL, &stats, sizeof stats) == PI_INVALID_ARGUMENT && stats.input == 0);
    CHECK(pi_commit_result_stats(result, NULL, 0) == PI_INVALID_ARGUMENT);

    ids[0] = "c1";
    OK(pi_mutation_get_entries(mutation, ids, NULL, 1, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 1);
    pi_entries_free(entries);
    OK(pi_mutation_scan_branch(mutation, "e1", 2, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 3);
    pi_entries_free(entries);
    OK(pi_mutation_scan_branch_structure(mutation, "e1", 2, NULL, &entries, NULL, &error));
    CHECK(pi_entries_count(entries) == 3);
    pi_entries_free(entries);
    OK(pi_mutation_get_value(mutation, "pi.branch.tip", PI_NUL, "main", PI_NUL, &value, &seq, NULL, &error));
    CHECK_TEXT(pi_buf_data(value), "\"e1\"");
    CHECK(seq == pi_commit_result_seqs(result)[4]);
    pi_buf_free(value);
    OK(pi_mutation_scan_values(mutation, "pi.branch.tip", PI_NUL, "m", 1, &values, NULL, &error));
    CHECK(pi_values_count(values) == 1);
    pi_values_free(values);
    OK(pi_mutation_read_list(mutation, "app", 3, "", 0, NULL, &elements, NULL, &error));
    CHECK(pi_elements_count(elements) == 1);
    pi_elements_free(elements);
    OK(pi_mutation_stats(mutation, &stats, sizeof stats, NULL, &error));
    CHECK(stats.message_count == 1);
    pi_commit_result_free(result);

    result = DIRTY;
    FAILS(PI_COMMIT_ATTEMPTED, pi_mutation_commit(mutation, NULL, &result, NULL, &error));
    CHECK(result == NULL);
    OK(pi_mutation_end(mutation, &error));
    OK(pi_mutation_end(mutation, &error));
    FAILS(PI_MUTATION_ENDED, pi_mutation_stats(mutation, &stats, sizeof stats, NULL, &error));
    FAILS(PI_MUTATION_ENDED, pi_mutation_scan_branch_structure(mutation, "e1", 2, NULL, &entries, NULL, &error));
    FAILS(PI_MUTATION_ENDED, pi_mutation_commit(mutation, NULL, NULL, NULL, &error));
    CHECK(pi_mutation_free(mutation) == PI_OK);

    /* The same writes again are refused whole, and a commit after a failed one too. */
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    FAILS(PI_DUPLICATE_ID, pi_mutation_commit(mutation, writes, NULL, NULL, &error));
    FAILS(PI_COMMIT_ATTEMPTED, pi_mutation_commit(mutation, NULL, NULL, NULL, &error));
    CHECK(pi_mutation_free(mutation) == PI_OK);
    pi_writes_free(writes);
    pi_buf_free(id);
}

static void the_ledger_is_read(pi_session *session) {
    pi_usage_scan scan;
    pi_usage_rows *rows = NULL;
    pi_usage_row row;
    uint64_t seq;

    OK(pi_session_scan_usage(session, NULL, &rows, NULL, &error));
    CHECK(pi_usage_rows_count(rows) == 1);
    CHECK(pi_usage_rows_get(rows, 0, &row, sizeof row) == PI_OK);
    CHECK_TEXT(row.id, "u1");
    CHECK(row.id_len == 2 && row.seq > 0 && row.payload_len == strlen(row.payload));
    CHECK(strstr(row.payload, "\"totalTokens\":10") != NULL);
    seq = row.seq + 1;
    CHECK(pi_usage_rows_get(rows, 1, &row, sizeof row) == PI_INVALID_ARGUMENT && row.id == NULL);
    pi_usage_rows_free(rows);
    pi_usage_scan_init(&scan, sizeof scan);
    scan.from_seq = &seq;
    scan.order = PI_DESCENDING;
    OK(pi_session_scan_usage(session, &scan, &rows, NULL, &error));
    CHECK(pi_usage_rows_count(rows) == 0);
    pi_usage_rows_free(rows);
    scan.order = 7;
    rows = DIRTY;
    FAILS(PI_INVALID_ARGUMENT, pi_session_scan_usage(session, &scan, &rows, NULL, &error));
    CHECK(rows == NULL);
    FAILS(PI_INVALID_ARGUMENT, pi_session_scan_usage(session, NULL, NULL, NULL, &error));
}

static void refused_commit(pi_session *session, int32_t number, const char *entry, const char *tip) {
    pi_mutation *mutation = NULL;
    pi_writes *writes = NULL;
    OK(pi_writes_new(&writes, &error));
    if (entry != NULL)
        OK(pi_writes_insert_entry(writes, entry, PI_NUL, &error));
    if (tip != NULL)
        OK(pi_writes_set_value(writes, "pi.branch.tip", PI_NUL, "main", PI_NUL, tip, PI_NUL, &error));
    OK(pi_mutation_begin(session, &mutation, NULL, &error));
    FAILS(number, pi_mutation_commit(mutation, writes, NULL, NULL, &error));
    CHECK(pi_mutation_free(mutation) == PI_OK);
    pi_writes_free(writes);
}

struct visit {
    int runs;
    int drops;
    int32_t returns;
    pi_session *session;
    pi_mutation *seen;
};

static void count_drop(void *user_data) { ((struct visit *)user_data)->drops++; }

static int32_t only_returns(pi_mutation *mutation, const pi_context *context, void *user_data, pi_error **error) {
    struct visit *visit = user_data;
    (void)context;
    (void)error;
    visit->runs++;
    visit->seen = mutation;
    return visit->returns;
}

static int32_t commits_and_fails(pi_mutation *mutation, const pi_context *context, void *user_data, pi_error **error) {
    struct visit *visit = user_data;
    pi_writes *writes = NULL;
    int32_t code;
    visit->runs++;
    OK(pi_writes_new(&writes, &error));
    OK(pi_writes_set_value(writes, "app", 3, "stays", PI_NUL, "true", PI_NUL, &error));
    OK(pi_mutation_commit(mutation, writes, NULL, context, &error));
    pi_writes_free(writes);
    code = pi_mutation_commit(mutation, NULL, NULL, context, error);
    CHECK(code == PI_COMMIT_ATTEMPTED);
    return code;
}

static int32_t calls_what_it_must_not(pi_mutation *mutation, const pi_context *context, void *user_data,
                                      pi_error **error) {
    struct visit *visit = user_data;
    visit->runs++;
    CHECK(pi_mutation_free(mutation) == PI_MISUSE);
    FAILS(PI_MISUSE, pi_mutation_end(mutation, &error));
    FAILS(PI_NESTED_MUTATION, pi_session_set_name(visit->session, "x", 1, context, &error));
    FAILS(PI_NESTED_MUTATION, pi_session_close(visit->session, context, &error));
    return pi_session_mutate(visit->session, only_returns, visit, NULL, context, error);
}

static void functions_inside_the_line(pi_session *session) {
    struct visit visit;
    pi_stats stats;
    pi_buf *value = NULL;
    pi_error *error_out = DIRTY;
    pi_context *cancelled = NULL;

    memset(&visit, 0, sizeof visit);
    visit.session = session;
    OK(pi_session_mutate(session, only_returns, &visit, count_drop, NULL, &error));
    CHECK(visit.runs == 1 && visit.drops == 1);
    FAILS(PI_MISUSE, pi_mutation_stats(visit.seen, &stats, sizeof stats, NULL, &error));

    /* The number of the function comes back: the library's, the host's own, and what is no failure. */
    visit.returns = PI_UNKNOWN_BRANCH;
    FAILS(PI_UNKNOWN_BRANCH, pi_session_mutate(session, only_returns, &visit, NULL, NULL, &error));
    visit.returns = -123456;
    CHECK(pi_session_mutate(session, only_returns, &visit, NULL, NULL, &error_out) == -123456);
    CHECK(pi_error_code(error_out) == -123456);
    CHECK_TEXT(pi_error_kind(error_out), "Application");
    pi_error_free(error_out);
    visit.returns = 1;
    FAILS(PI_INVALID_ARGUMENT, pi_session_mutate(session, only_returns, &visit, NULL, NULL, &error));
    visit.returns = 0;
    CHECK(visit.runs == 4);

    /* The error of the call that failed inside is the one that comes back, and the commit before it stays. */
    FAILS(PI_COMMIT_ATTEMPTED, pi_session_mutate(session, commits_and_fails, &visit, count_drop, NULL, &error));
    CHECK(pi_session_mutate(session, commits_and_fails, &visit, NULL, NULL, NULL) == PI_COMMIT_ATTEMPTED);
    OK(pi_session_get_value(session, "app", 3, "stays", PI_NUL, &value, NULL, NULL, &error));
    CHECK_TEXT(pi_buf_data(value), "true");
    pi_buf_free(value);
    FAILS(PI_NESTED_MUTATION, pi_session_mutate(session, calls_what_it_must_not, &visit, count_drop, NULL, &error));
    CHECK(visit.runs == 7 && visit.drops == 3);

    /* drop is called though the function never runs. */
    OK(pi_context_new(&cancelled, &error));
    OK(pi_context_cancel(cancelled, &error));
    FAILS(PI_CANCELLED, pi_session_mutate(session, only_returns, &visit, count_drop, cancelled, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_mutate(session, NULL, &visit, count_drop, NULL, &error));
    FAILS(PI_MISUSE, pi_session_mutate(NULL, only_returns, &visit, count_drop, NULL, &error));
    CHECK(pi_context_free(cancelled) == PI_OK);
    FAILS(PI_MISUSE, pi_session_mutate(session, only_returns, &visit, count_drop, cancelled, &error));
    CHECK(visit.runs == 7 && visit.drops == 7);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "mutation");

    a_scope_begins_reads_commits_and_ends(session);
    refused_commit(session, PI_MISSING_PARENT, "{\"id\":\"m1\",\"parentId\":\"absent\",\"type\":\"custom\",\"customType\":\"t\"}",
                   NULL);
    refused_commit(session, PI_DUPLICATE_ID, "{\"id\":\"e1\",\"parentId\":null,\"type\":\"custom\",\"customType\":\"t\"}", NULL);
    refused_commit(session, PI_UNKNOWN_TARGET, NULL, "\"absent\"");
    the_ledger_is_read(session);
    functions_inside_the_line(session);
    finish(repository, session);
    return 0;
}

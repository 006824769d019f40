/* The calls of the conformance cases, by the C library. */
#include "calls.h"

#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call of the reader that a session and a mutation both are. */
#define READ(call, function, ...)                                                                               \
    ((call)->on.kind == MUTATION                                                                                \
         ? pi_mutation_##function((call)->on.mutation, __VA_ARGS__, (call)->context, &(call)->error)            \
         : pi_session_##function((call)->on.session, __VA_ARGS__, (call)->context, &(call)->error))

/* Repository */

static int32_t metadata(struct call *call) {
    pi_metadata metadata;
    int32_t code = pi_session_metadata(call->on.session, &metadata, sizeof metadata, &call->error);
    if (code == PI_OK)
        call->result = metadata_of(&metadata);
    return code;
}

/* Hands out a session that was opened, with its metadata as the result. */
static int32_t opened(struct call *call, int32_t code, pi_session *session) {
    if (code != PI_OK)
        return code;
    call->made.kind = SESSION;
    call->made.session = session;
    call->on = call->made;
    return metadata(call);
}

static int32_t create(struct call *call) {
    pi_session_options options;
    pi_session *session;
    struct piece id = optional_text(call->args, "id"), cwd = optional_text(call->args, "cwd");
    struct piece parent = optional_text(call->args, "parentSessionId");
    int32_t code;
    pi_session_options_init(&options, sizeof options);
    options.id = id.data;
    options.id_len = id.len;
    options.parent_session_id = parent.data;
    options.parent_session_id_len = parent.len;
    options.cwd = cwd.data;
    options.cwd_len = cwd.len;
    code = pi_session_create(call->on.repository, &options, &session, call->context, &call->error);
    return opened(call, code, session);
}

static int32_t open_session(struct call *call) {
    pi_session *session;
    struct piece id = text(call->args, "id");
    int32_t code = pi_session_open(call->on.repository, PASS(id), &session, call->context, &call->error);
    return opened(call, code, session);
}

static int32_t open_read_only(struct call *call) {
    pi_session *session;
    struct piece id = text(call->args, "id");
    int32_t code =
        pi_session_open_read_only(call->on.repository, PASS(id), &session, call->context, &call->error);
    return opened(call, code, session);
}

/* The number that a text of the arguments stands for; 0 without it. */
static int64_t one_of(struct call *call, const char *name, const char *first, const char *second) {
    struct piece given = optional_text(call->args, name);
    if (given.data == NULL)
        return 0;
    if (given.len == strlen(first) && memcmp(given.data, first, given.len) == 0)
        return 1;
    return given.len == strlen(second) && memcmp(given.data, second, given.len) == 0 ? 2 : -1;
}

/* Forks a session of the repository by its id: opens it for reading beside whoever writes it. */
static int32_t fork_session(struct call *call) {
    pi_fork_options options;
    pi_repository *repository = call->on.repository;
    pi_session *source = NULL, *made = NULL;
    pi_buf *left_out = NULL;
    struct piece from = text(call->args, "from"), id = optional_text(call->args, "id");
    struct piece cwd = optional_text(call->args, "cwd"), branch = optional_text(call->args, "branch");
    struct piece entry = optional_text(call->args, "entry");
    int32_t code = pi_session_open_read_only(repository, PASS(from), &source, call->context, &call->error);
    if (code != PI_OK)
        return code;
    pi_fork_options_init(&options, sizeof options);
    options.scope = one_of(call, "scope", "branch", "tree");
    options.position = one_of(call, "position", "at", "before");
    options.branch = branch.data;
    options.branch_len = branch.len;
    options.entry_id = entry.data;
    options.entry_id_len = entry.len;
    options.id = id.data;
    options.id_len = id.len;
    options.cwd = cwd.data;
    options.cwd_len = cwd.len;
    code = pi_session_fork(repository, source, &options, &made, &left_out, call->context, &call->error);
    pi_session_free(source);
    if (code == PI_OK) {
        code = opened(call, code, made);
        if (code == PI_OK) {
            json *with = json_object();
            json_set(with, "session", call->result);
            json_set(with, "leftOut", given(call, pi_buf_data(left_out), pi_buf_len(left_out)));
            call->result = with;
        }
    }
    pi_buf_free(left_out);
    return code;
}

static int32_t list(struct call *call) {
    pi_list_options options;
    pi_sessions *sessions;
    pi_session_info info;
    json *result = json_array();
    size_t i;
    int32_t code;
    pi_list_options_init(&options, sizeof options);
    options.details = is_true(call->args, "details");
    code = pi_repository_list(call->on.repository, &options, &sessions, call->context, &call->error);
    for (i = 0; pi_sessions_get(sessions, i, &info, sizeof info) == PI_OK; i++)
        json_add(result, listing_of(&info));
    pi_sessions_free(sessions);
    call->result = result;
    return code;
}

static int32_t delete_session(struct call *call) {
    struct piece id = text(call->args, "id");
    return pi_repository_delete(call->on.repository, PASS(id), call->context, &call->error);
}

static int32_t close_repository(struct call *call) {
    return pi_repository_close(call->on.repository, call->context, &call->error);
}

/* Session */

static int32_t close_session(struct call *call) {
    return pi_session_close(call->on.session, call->context, &call->error);
}

static int32_t session_name(struct call *call) {
    pi_buf *name;
    int32_t code = pi_session_name(call->on.session, &name, call->context, &call->error);
    call->result = taken(name);
    return code;
}

static int32_t set_name(struct call *call) {
    struct piece name = optional_text(call->args, "name");
    return pi_session_set_name(call->on.session, PASS(name), call->context, &call->error);
}

static int32_t get_label(struct call *call) {
    pi_buf *label;
    struct piece id = text(call->args, "id");
    int32_t code = pi_session_get_label(call->on.session, PASS(id), &label, call->context, &call->error);
    call->result = taken(label);
    return code;
}

static int32_t set_label(struct call *call) {
    struct piece id = text(call->args, "id"), label = optional_text(call->args, "label");
    return pi_session_set_label(call->on.session, PASS(id), PASS(label), call->context, &call->error);
}

static int32_t next_seq(struct call *call) {
    uint64_t seq;
    int32_t code = pi_session_next_seq(call->on.session, &seq, call->context, &call->error);
    call->result = json_unsigned(seq);
    return code;
}

static int32_t dump(struct call *call) {
    pi_buf *dumped;
    int32_t code = pi_session_dump(call->on.session, &dumped, call->context, &call->error);
    if (code == PI_OK)
        call->result = given(call, pi_buf_data(dumped), pi_buf_len(dumped));
    pi_buf_free(dumped);
    return code;
}

static int32_t set_value(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    struct piece value = payload(call->args, "value");
    return pi_session_set_value(call->on.session, PASS(space), PASS(key), PASS(value), call->context, &call->error);
}

static int32_t delete_value(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    return pi_session_delete_value(call->on.session, PASS(space), PASS(key), call->context, &call->error);
}

static int32_t append_list(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    struct piece element = payload(call->args, "value");
    return pi_session_append_list(call->on.session, PASS(space), PASS(key), PASS(element), call->context,
                                  &call->error);
}

static int32_t delete_list(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    return pi_session_delete_list(call->on.session, PASS(space), PASS(key), call->context, &call->error);
}

static int32_t get_entry(struct call *call) {
    pi_entries *entries;
    struct piece id = text(call->args, "id");
    int32_t code = pi_session_get_entry(call->on.session, PASS(id), &entries, call->context, &call->error);
    call->result = entry_or_null(call, entries);
    return code;
}

static int32_t find_entries(struct call *call) {
    struct session_query query;
    pi_entries *entries;
    int32_t code;
    session_query(call, &query);
    code = pi_session_find_entries(call->on.session, &query.query, &entries, call->context, &call->error);
    call->result = entries_of(call, entries);
    return code;
}

/* C programs find one entry by a limit of one. */
static int32_t find_entry(struct call *call) {
    struct session_query query;
    const uint64_t one = 1;
    pi_entries *entries;
    int32_t code;
    session_query(call, &query);
    if (query.query.limit == NULL || *query.query.limit > one)
        query.query.limit = &one;
    code = pi_session_find_entries(call->on.session, &query.query, &entries, call->context, &call->error);
    call->result = entry_or_null(call, entries);
    return code;
}

static int32_t scan_usage(struct call *call) {
    pi_usage_scan scan;
    pi_usage_rows *rows;
    pi_usage_row row;
    uint64_t from_seq, to_seq, limit;
    json *result = json_array();
    size_t i;
    int32_t code;
    pi_usage_scan_init(&scan, sizeof scan);
    scan.from_seq = number(call->args, "fromSeq", &from_seq);
    scan.to_seq = number(call->args, "toSeq", &to_seq);
    scan.limit = number(call->args, "limit", &limit);
    scan.order = order(call);
    code = pi_session_scan_usage(call->on.session, &scan, &rows, call->context, &call->error);
    for (i = 0; pi_usage_rows_get(rows, i, &row, sizeof row) == PI_OK; i++) {
        json *item = json_object();
        set_text(item, "id", row.id, row.id_len);
        set_fields(item, given(call, row.payload, row.payload_len));
        json_set(item, "seq", json_unsigned(row.seq));
        json_add(result, item);
    }
    pi_usage_rows_free(rows);
    call->result = result;
    return code;
}

/* Session and mutation */

static int32_t get_entries(struct call *call) {
    const json *ids = json_get(call->args, "ids");
    size_t count = 0, given = ids == NULL ? 0 : ids->count, i;
    const char **texts = malloc((given + 1) * sizeof *texts);
    size_t *lens = malloc((given + 1) * sizeof *lens);
    pi_entries *entries = NULL;
    int32_t code;
    if (texts == NULL || lens == NULL)
        exit(2);
    for (i = 0; i < given; i++) {
        if (ids->items[i]->kind == JSON_TEXT) {
            texts[count] = ids->items[i]->text;
            lens[count++] = ids->items[i]->len;
        }
    }
    code = READ(call, get_entries, texts, lens, count, &entries);
    free(texts);
    free(lens);
    call->result = entries_of(call, entries);
    return code;
}

static int32_t stats(struct call *call) {
    pi_stats stats;
    int32_t code = READ(call, stats, &stats, sizeof stats);
    call->result = stats_of(&stats);
    return code;
}

static int32_t get_value(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    pi_buf *value;
    uint64_t seq;
    int32_t code = READ(call, get_value, PASS(space), PASS(key), &value, &seq);
    if (value != NULL) {
        json *result = json_object();
        json_set(result, "value", stored(call, pi_buf_data(value), pi_buf_len(value)));
        json_set(result, "seq", json_unsigned(seq));
        call->result = result;
    }
    pi_buf_free(value);
    return code;
}

static int32_t scan_values(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    pi_values *values;
    pi_value value;
    json *result = json_array();
    size_t i;
    int32_t code = READ(call, scan_values, PASS(space), PASS(key), &values);
    for (i = 0; pi_values_get(values, i, &value, sizeof value) == PI_OK; i++) {
        json *item = json_object();
        set_text(item, "namespace", value.name_space, value.name_space_len);
        set_text(item, "key", value.key, value.key_len);
        json_set(item, "value", stored(call, value.value, value.value_len));
        json_set(item, "seq", json_unsigned(value.seq));
        json_add(result, item);
    }
    pi_values_free(values);
    call->result = result;
    return code;
}

static int32_t read_list(struct call *call) {
    struct piece space = text(call->args, "namespace"), key = text(call->args, "key");
    pi_list_read read;
    pi_elements *elements;
    pi_element element;
    uint64_t cursor, limit;
    json *result = json_array();
    size_t i;
    int32_t code;
    pi_list_read_init(&read, sizeof read);
    read.cursor = number(call->args, "cursor", &cursor);
    read.limit = number(call->args, "limit", &limit);
    read.order = order(call);
    code = READ(call, read_list, PASS(space), PASS(key), &read, &elements);
    for (i = 0; pi_elements_get(elements, i, &element, sizeof element) == PI_OK; i++) {
        json *item = json_object();
        json_set(item, "seq", json_unsigned(element.seq));
        json_set(item, "value", stored(call, element.value, element.value_len));
        json_add(result, item);
    }
    pi_elements_free(elements);
    call->result = result;
    return code;
}

static int32_t scan_branch(struct call *call) {
    struct piece start = text(call->args, "start");
    struct path_scan scan;
    pi_entries *entries;
    int32_t code;
    path_scan(call, &scan);
    code = READ(call, scan_branch, PASS(start), &scan.scan, &entries);
    call->result = entries_of(call, entries);
    return code;
}

static int32_t scan_branch_structure(struct call *call) {
    struct piece start = text(call->args, "start");
    struct path_scan scan;
    pi_entries *entries;
    int32_t code;
    path_scan(call, &scan);
    code = READ(call, scan_branch_structure, PASS(start), &scan.scan, &entries);
    call->result = entries_of(call, entries);
    return code;
}

/* Mutation */

static int32_t begin_mutation(struct call *call) {
    int32_t code = pi_mutation_begin(call->on.session, &call->made.mutation, call->context, &call->error);
    if (code == PI_OK)
        call->made.kind = MUTATION;
    return code;
}

static int32_t end_mutation(struct call *call) { return pi_mutation_end(call->on.mutation, &call->error); }

static int32_t add_write(struct call *call, pi_writes *writes, const json *write) {
    const json *kind = json_get(write, "kind");
    struct piece space = text(write, "namespace"), key = text(write, "key"), value;
    if (json_is(kind, "entry")) {
        value = payload(write, "entry");
        return pi_writes_insert_entry(writes, PASS(value), &call->error);
    }
    if (json_is(kind, "usage")) {
        value = payload(write, "row");
        return pi_writes_insert_usage(writes, PASS(value), &call->error);
    }
    if (json_is(kind, "set")) {
        value = payload(write, "value");
        return pi_writes_set_value(writes, PASS(space), PASS(key), PASS(value), &call->error);
    }
    if (json_is(kind, "append")) {
        value = payload(write, "value");
        return pi_writes_append_list(writes, PASS(space), PASS(key), PASS(value), &call->error);
    }
    if (json_is(kind, "delete"))
        return pi_writes_delete_value(writes, PASS(space), PASS(key), &call->error);
    if (json_is(kind, "delete_list"))
        return pi_writes_delete_list(writes, PASS(space), PASS(key), &call->error);
    snprintf(call->wrong, sizeof call->wrong, "unknown kind of write");
    return PI_OK;
}

/* What the function inside the mutation line commits, and with what result. */
struct commit {
    const pi_writes *writes;
    pi_commit_result *result;
};

static int32_t commit_inside(pi_mutation *mutation, const pi_context *context, void *user_data, pi_error **error) {
    struct commit *commit = user_data;
    return pi_mutation_commit(mutation, commit->writes, &commit->result, context, error);
}

/* Of a mutation its commit; of a session a mutation that commits. */
static int32_t commit(struct call *call) {
    const json *writes = json_get(call->args, "writes");
    struct commit commit = {NULL, NULL};
    pi_writes *batch;
    size_t i;
    int32_t code = pi_writes_new(&batch, &call->error);
    for (i = 0; code == PI_OK && writes != NULL && i < writes->count; i++)
        code = add_write(call, batch, writes->items[i]);
    commit.writes = batch;
    if (code == PI_OK && call->on.kind == MUTATION)
        code = commit_inside(call->on.mutation, call->context, &commit, &call->error);
    else if (code == PI_OK)
        code = pi_session_mutate(call->on.session, commit_inside, &commit, NULL, call->context, &call->error);
    pi_writes_free(batch);
    if (code == PI_OK)
        call->result = result_of(commit.result);
    return code;
}

/* Branch */

/* Hands out a branch, with its name as the result; null for none. */
static int32_t branch_made(struct call *call, int32_t code, pi_branch *branch) {
    if (branch != NULL) {
        const char *name = pi_branch_name(branch);
        json *result = json_object();
        set_text(result, "name", name, name == NULL ? 0 : strlen(name));
        call->result = result;
        call->made.kind = BRANCH;
        call->made.branch = branch;
    }
    return code;
}

static int32_t create_branch(struct call *call) {
    pi_branch *branch;
    struct piece name = text(call->args, "name"), at = optional_text(call->args, "at");
    int32_t code =
        pi_branch_create(call->on.session, PASS(name), PASS(at), &branch, call->context, &call->error);
    return branch_made(call, code, branch);
}

static int32_t get_branch(struct call *call) {
    pi_branch *branch;
    struct piece name = text(call->args, "name");
    int32_t code = pi_branch_get(call->on.session, PASS(name), &branch, call->context, &call->error);
    return branch_made(call, code, branch);
}

static int32_t branches(struct call *call) {
    pi_branches *found;
    pi_branch_info info;
    json *result = json_array();
    size_t i;
    int32_t code = pi_session_branches(call->on.session, &found, call->context, &call->error);
    for (i = 0; pi_branches_get(found, i, &info, sizeof info) == PI_OK; i++) {
        json *item = json_object();
        set_text(item, "name", info.name, info.name_len);
        json_set(item, "tipId", text_or_null(info.tip_id, info.tip_id_len));
        json_add(result, item);
    }
    pi_branches_free(found);
    call->result = result;
    return code;
}

static int32_t branch_name(struct call *call) {
    const char *name = pi_branch_name(call->on.branch);
    call->result = text_or_null(name, name == NULL ? 0 : strlen(name));
    return PI_OK;
}

static int32_t tip_id(struct call *call) {
    pi_buf *id;
    int32_t code = pi_branch_tip_id(call->on.branch, &id, call->context, &call->error);
    call->result = taken(id);
    return code;
}

static int32_t find_on_branch(struct call *call) {
    struct path_scan scan;
    pi_entries *entries;
    int32_t code;
    path_scan(call, &scan);
    code = pi_branch_find_entries(call->on.branch, &scan.scan, &entries, call->context, &call->error);
    call->result = entries_of(call, entries);
    return code;
}

static int32_t find_one_on_branch(struct call *call) {
    struct path_scan scan;
    const uint64_t one = 1;
    pi_entries *entries;
    int32_t code;
    path_scan(call, &scan);
    if (scan.scan.limit == NULL || *scan.scan.limit > one)
        scan.scan.limit = &one;
    code = pi_branch_find_entries(call->on.branch, &scan.scan, &entries, call->context, &call->error);
    call->result = entry_or_null(call, entries);
    return code;
}

static int32_t append_message(struct call *call) {
    pi_buf *id;
    struct piece message = payload(call->args, "message");
    int32_t code =
        pi_branch_append_message(call->on.branch, PASS(message), &id, call->context, &call->error);
    call->result = taken(id);
    return code;
}

static int32_t append_custom_entry(struct call *call) {
    pi_buf *id;
    struct piece type = text(call->args, "customType"), data = optional_payload(call->args, "data");
    int32_t code = pi_branch_append_custom_entry(call->on.branch, PASS(type), PASS(data), &id, call->context,
                                                 &call->error);
    call->result = taken(id);
    return code;
}

static int32_t add_node(struct call *call, pi_nodes *nodes, const json *node) {
    struct piece type = optional_text(node, "customType"), data;
    if (type.data == NULL) {
        data = payload(node, "message");
        return pi_nodes_add_message(nodes, PASS(data), &call->error);
    }
    data = optional_payload(node, "data");
    return pi_nodes_add_custom_entry(nodes, PASS(type), PASS(data), &call->error);
}

static int32_t append_many(struct call *call) {
    const json *nodes = json_get(call->args, "entries");
    pi_nodes *batch;
    pi_ids *ids = NULL;
    pi_id id;
    json *result = json_array();
    size_t i;
    int32_t code = pi_nodes_new(&batch, &call->error);
    for (i = 0; code == PI_OK && nodes != NULL && i < nodes->count; i++)
        code = add_node(call, batch, nodes->items[i]);
    if (code == PI_OK)
        code = pi_branch_append_many(call->on.branch, batch, &ids, call->context, &call->error);
    for (i = 0; pi_ids_get(ids, i, &id, sizeof id) == PI_OK; i++)
        json_add(result, json_text(id.id, id.id_len));
    pi_ids_free(ids);
    pi_nodes_free(batch);
    call->result = result;
    return code;
}

/* All of them */

struct operation {
    const char *name;
    int on;
    int32_t (*make)(struct call *call);
};

static const struct operation OPERATIONS[] = {
    {"create", REPOSITORY, create},
    {"open", REPOSITORY, open_session},
    {"open_read_only", REPOSITORY, open_read_only},
    {"fork", REPOSITORY, fork_session},
    {"list", REPOSITORY, list},
    {"delete", REPOSITORY, delete_session},
    {"close_repository", REPOSITORY, close_repository},
    {"metadata", SESSION, metadata},
    {"close", SESSION, close_session},
    {"name", SESSION, session_name},
    {"set_name", SESSION, set_name},
    {"get_label", SESSION, get_label},
    {"set_label", SESSION, set_label},
    {"next_seq", SESSION, next_seq},
    {"dump", SESSION, dump},
    {"set_value", SESSION, set_value},
    {"delete_value", SESSION, delete_value},
    {"append_list", SESSION, append_list},
    {"delete_list", SESSION, delete_list},
    {"get_entry", SESSION, get_entry},
    {"find_entries", SESSION, find_entries},
    {"find_entry", SESSION, find_entry},
    {"scan_usage", SESSION, scan_usage},
    {"get_entries", SESSION | MUTATION, get_entries},
    {"stats", SESSION | MUTATION, stats},
    {"get_value", SESSION | MUTATION, get_value},
    {"scan_values", SESSION | MUTATION, scan_values},
    {"read_list", SESSION | MUTATION, read_list},
    {"scan_branch", SESSION | MUTATION, scan_branch},
    {"scan_branch_structure", SESSION | MUTATION, scan_branch_structure},
    {"begin_mutation", SESSION, begin_mutation},
    {"commit", SESSION | MUTATION, commit},
    {"end", MUTATION, end_mutation},
    {"create_branch", SESSION, create_branch},
    {"branch", SESSION, get_branch},
    {"branches", SESSION, branches},
    {"branch_name", BRANCH, branch_name},
    {"tip_id", BRANCH, tip_id},
    {"find_entries", BRANCH, find_on_branch},
    {"find_entry", BRANCH, find_one_on_branch},
    {"append_message", BRANCH, append_message},
    {"append_custom_entry", BRANCH, append_custom_entry},
    {"append_many", BRANCH, append_many},
};

static const struct operation *find_operation(const char *name, int on) {
    size_t i;
    for (i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++)
        if (strcmp(OPERATIONS[i].name, name) == 0 && (OPERATIONS[i].on & on) != 0)
            return &OPERATIONS[i];
    return NULL;
}

int call_is_of_repository(const char *operation) { return find_operation(operation, REPOSITORY) != NULL; }

int32_t call_make(const char *operation, struct call *call) {
    const struct operation *found = find_operation(operation, (int)call->on.kind);
    if (found != NULL)
        return found->make(call);
    snprintf(call->wrong, sizeof call->wrong, "no operation '%.40s' on this handle", operation);
    return PI_OK;
}

int32_t handle_free(struct handle handle) {
    switch (handle.kind) {
    case REPOSITORY:
        return pi_repository_free(handle.repository);
    case SESSION:
        return pi_session_free(handle.session);
    case MUTATION:
        return pi_mutation_free(handle.mutation);
    case BRANCH:
        return pi_branch_free(handle.branch);
    case NO_HANDLE:
        break;
    }
    return PI_OK;
}

/* The cases' JSON as arguments of the C library, and what the library gives as the JSON the cases expect. */
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>

/* Arguments */

/* A text that may be absent: NULL then. */
struct piece optional_text(const json *holder, const char *name) {
    const json *value = json_get(holder, name);
    struct piece piece = {NULL, 0};
    if (value != NULL && value->kind == JSON_TEXT) {
        piece.data = value->text;
        piece.len = value->len;
    }
    return piece;
}

/* A text, empty where it is absent. */
struct piece text(const json *holder, const char *name) {
    struct piece piece = optional_text(holder, name);
    if (piece.data == NULL)
        piece.data = "";
    return piece;
}

int is_true(const json *holder, const char *name) {
    const json *value = json_get(holder, name);
    return value != NULL && value->kind == JSON_TRUE;
}

/* A number that may be absent: NULL then, else it is kept in *room. */
const uint64_t *number(const json *holder, const char *name, uint64_t *room) {
    const json *value = json_get(holder, name);
    if (value == NULL || value->kind != JSON_NUMBER)
        return NULL;
    *room = strtoull(value->text, NULL, 10);
    return room;
}

/* A payload as JSON text: what `nameText` spells, or the value `name`; NULL where both are absent. */
struct piece optional_payload(const json *holder, const char *name) {
    char spelled[32];
    const json *value = json_get(holder, name);
    struct piece piece;
    snprintf(spelled, sizeof spelled, "%sText", name);
    piece = optional_text(holder, spelled);
    if (piece.data == NULL && value != NULL) {
        const json *written = json_write(value);
        piece.data = written->text;
        piece.len = written->len;
    }
    return piece;
}

/* A payload as JSON text, null where it is absent. */
struct piece payload(const json *holder, const char *name) {
    struct piece piece = optional_payload(holder, name);
    if (piece.data == NULL) {
        piece.data = "null";
        piece.len = 4;
    }
    return piece;
}

int64_t order(struct call *call) {
    const json *order = json_get(call->args, "order");
    if (json_is(order, "ascending") || json_is(order, "oldestFirst"))
        return PI_ASCENDING;
    if (json_is(order, "descending") || json_is(order, "newestFirst"))
        return PI_DESCENDING;
    if (order != NULL && order->kind != JSON_NULL)
        snprintf(call->wrong, sizeof call->wrong, "unknown order");
    return 0;
}

void path_scan(struct call *call, struct path_scan *out) {
    const json *args = call->args;
    struct piece stop_at_type = optional_text(args, "stopAtType"), stop_at_id = optional_text(args, "stopAtId");
    struct piece type = optional_text(args, "type"), custom_type = optional_text(args, "customType");
    pi_branch_scan_init(&out->scan, sizeof out->scan);
    out->scan.stop_at_type = stop_at_type.data;
    out->scan.stop_at_type_len = stop_at_type.len;
    out->scan.stop_at_id = stop_at_id.data;
    out->scan.stop_at_id_len = stop_at_id.len;
    out->scan.type = type.data;
    out->scan.type_len = type.len;
    out->scan.custom_type = custom_type.data;
    out->scan.custom_type_len = custom_type.len;
    out->scan.cursor = number(args, "cursor", &out->cursor);
    out->scan.limit = number(args, "limit", &out->limit);
    out->scan.order = order(call);
}

void session_query(struct call *call, struct session_query *out) {
    const json *args = call->args;
    struct piece type = optional_text(args, "type"), custom_type = optional_text(args, "customType");
    pi_entry_query_init(&out->query, sizeof out->query);
    out->query.type = type.data;
    out->query.type_len = type.len;
    out->query.custom_type = custom_type.data;
    out->query.custom_type_len = custom_type.len;
    out->query.from_seq = number(args, "fromSeq", &out->from_seq);
    out->query.to_seq = number(args, "toSeq", &out->to_seq);
    out->query.cursor = number(args, "cursor", &out->cursor);
    out->query.limit = number(args, "limit", &out->limit);
    out->query.order = order(call);
}

/* Results */

/* A JSON text that the library gave. */
const json *given(struct call *call, const char *data, size_t len) {
    size_t offset = 0;
    const json *value = data == NULL ? NULL : json_parse(data, len, &offset);
    if (value != NULL)
        return value;
    snprintf(call->wrong, sizeof call->wrong, "the library gave what is no JSON at byte %zu: %.100s", offset,
             data == NULL ? "(NULL)" : data);
    return json_null();
}

/* A payload: what it says, or its text where that was asked for. */
const json *stored(struct call *call, const char *data, size_t len) {
    return is_true(call->args, "text") && data != NULL ? json_text(data, len) : given(call, data, len);
}

void set_text(json *object, const char *name, const char *data, size_t len) {
    if (data != NULL)
        json_set(object, name, json_text(data, len));
}

const json *text_or_null(const char *data, size_t len) {
    return data == NULL ? json_null() : json_text(data, len);
}

/* A buffer of the library's, which is freed. */
const json *taken(pi_buf *buf) {
    const json *result = text_or_null(pi_buf_data(buf), pi_buf_len(buf));
    pi_buf_free(buf);
    return result;
}

const json *metadata_of(const pi_metadata *metadata) {
    json *result = json_object();
    set_text(result, "id", metadata->id, metadata->id_len);
    json_set(result, "createdAt", json_signed(metadata->created_at));
    json_set(result, "storageVersion", json_unsigned(metadata->storage_version));
    set_text(result, "cwd", metadata->cwd, metadata->cwd_len);
    set_text(result, "parentSessionId", metadata->parent_session_id, metadata->parent_session_id_len);
    return result;
}

const json *listing_of(const pi_session_info *info) {
    json *result = json_object();
    if (info->id != NULL) {
        set_text(result, "id", info->id, info->id_len);
        json_set(result, "createdAt", json_signed(info->created_at));
        json_set(result, "storageVersion", json_unsigned(info->storage_version));
        set_text(result, "cwd", info->cwd, info->cwd_len);
        set_text(result, "parentSessionId", info->parent_session_id, info->parent_session_id_len);
    }
    set_text(result, "name", info->name, info->name_len);
    if (info->message_count >= 0)
        json_set(result, "messageCount", json_signed(info->message_count));
    return result;
}

const json *stats_of(const pi_stats *stats) {
    json *result = json_object(), *usage = json_object(), *cost = json_object();
    json_set(cost, "input", json_double(stats->cost_input));
    json_set(cost, "output", json_double(stats->cost_output));
    json_set(cost, "cacheRead", json_double(stats->cost_cache_read));
    json_set(cost, "cacheWrite", json_double(stats->cost_cache_write));
    json_set(cost, "total", json_double(stats->cost_total));
    json_set(usage, "input", json_double(stats->input));
    json_set(usage, "output", json_double(stats->output));
    json_set(usage, "cacheRead", json_double(stats->cache_read));
    json_set(usage, "cacheWrite", json_double(stats->cache_write));
    if (stats->has_cache_write_1h)
        json_set(usage, "cacheWrite1h", json_double(stats->cache_write_1h));
    if (stats->has_reasoning)
        json_set(usage, "reasoning", json_double(stats->reasoning));
    json_set(usage, "totalTokens", json_double(stats->total_tokens));
    json_set(usage, "cost", cost);
    json_set(result, "messageCount", json_unsigned(stats->message_count));
    json_set(result, "usage", usage);
    return result;
}

/* The fields of a payload, beside those of what it belongs to. */
void set_fields(json *object, const json *payload) {
    size_t i;
    if (payload->kind == JSON_OBJECT)
        for (i = 0; i < payload->count; i++)
            json_set_named(object, payload->names[i], payload->items[i]);
}

static const json *entry_of(struct call *call, const pi_entry *entry) {
    json *result = json_object();
    set_text(result, "id", entry->id, entry->id_len);
    if (is_true(call->args, "text") && entry->payload != NULL) {
        set_text(result, "payload", entry->payload, entry->payload_len);
        return result;
    }
    json_set(result, "parentId", text_or_null(entry->parent_id, entry->parent_id_len));
    set_text(result, "type", entry->type, entry->type_len);
    set_text(result, "customType", entry->custom_type, entry->custom_type_len);
    if (entry->payload != NULL)
        set_fields(result, given(call, entry->payload, entry->payload_len));
    json_set(result, "seq", json_unsigned(entry->seq));
    json_set(result, "timestamp", json_signed(entry->timestamp));
    return result;
}

/* The set, which is freed, as an array. */
const json *entries_of(struct call *call, pi_entries *entries) {
    json *result = json_array();
    pi_entry entry;
    size_t i;
    for (i = 0; pi_entries_get(entries, i, &entry, sizeof entry) == PI_OK; i++)
        json_add(result, entry_of(call, &entry));
    pi_entries_free(entries);
    return result;
}

/* The one entry of the set, which is freed, or null. */
const json *entry_or_null(struct call *call, pi_entries *entries) {
    const json *all = entries_of(call, entries);
    if (all->count > 1)
        snprintf(call->wrong, sizeof call->wrong, "the library gave %zu entries in place of one", all->count);
    return all->count == 0 ? json_null() : all->items[0];
}

const json *result_of(pi_commit_result *committed) {
    json *result = json_object(), *seqs = json_array();
    pi_stats stats;
    size_t i;
    for (i = 0; i < pi_commit_result_count(committed); i++)
        json_add(seqs, json_unsigned(pi_commit_result_seqs(committed)[i]));
    (void)pi_commit_result_stats(committed, &stats, sizeof stats);
    json_set(result, "firstSeq", json_unsigned(pi_commit_result_first_seq(committed)));
    json_set(result, "seqs", seqs);
    json_set(result, "timestamp", json_signed(pi_commit_result_timestamp(committed)));
    json_set(result, "stats", stats_of(&stats));
    pi_commit_result_free(committed);
    return result;
}

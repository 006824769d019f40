/*
 * Between the cases' JSON and the C library: arguments on the way in, results on the way out.
 */
#ifndef CONFORMANCE_TRANSLATE_H
#define CONFORMANCE_TRANSLATE_H

#include "calls.h"

/* Arguments: `holder` is the object that has the field. */

struct piece {
    const char *data;
    size_t len;
};

/* A text as the library takes it. */
#define PASS(piece) (piece).data, (piece).len

/* A text: empty where it is absent, or NULL. */
struct piece text(const json *holder, const char *name);
struct piece optional_text(const json *holder, const char *name);

/* A payload as JSON text, what `nameText` spells or the value `name`: null where both are absent, or NULL. */
struct piece payload(const json *holder, const char *name);
struct piece optional_payload(const json *holder, const char *name);

/* A number, kept in *room; NULL where it is absent. */
const uint64_t *number(const json *holder, const char *name, uint64_t *room);

int is_true(const json *holder, const char *name);

/* The order the call asks for; 0 for the default. */
int64_t order(struct call *call);

/* A scan of a path, and the numbers it points to. */
struct path_scan {
    pi_branch_scan scan;
    uint64_t cursor, limit;
};

void path_scan(struct call *call, struct path_scan *out);

/* A query of the session's entries, and the numbers it points to. */
struct session_query {
    pi_entry_query query;
    uint64_t from_seq, to_seq, cursor, limit;
};

void session_query(struct call *call, struct session_query *out);

/* Results: sets and buffers are freed by what reads them whole. */

/* A JSON text that the library gave, read. */
const json *given(struct call *call, const char *data, size_t len);

/* A payload: what it says, or its text where the call asked for that. */
const json *stored(struct call *call, const char *data, size_t len);

const json *text_or_null(const char *data, size_t len);
const json *taken(pi_buf *buf);
const json *metadata_of(const pi_metadata *metadata);
const json *listing_of(const pi_session_info *info);
const json *stats_of(const pi_stats *stats);
const json *entries_of(struct call *call, pi_entries *entries);
const json *entry_or_null(struct call *call, pi_entries *entries);
const json *result_of(pi_commit_result *committed);

/* Sets a text that is not NULL. */
void set_text(json *object, const char *name, const char *data, size_t len);

/* Sets the fields of a payload beside those of what it belongs to. */
void set_fields(json *object, const json *payload);

#endif

/*
 * libpisession: durable sessions for AI agents.
 *
 * A session keeps an immutable tree of conversation entries with named branches, replaceable values,
 * append-only lists and a cost ledger, changed only by atomic commits along one mutation line.
 *
 *     pi_repository *repository;
 *     pi_session *session;
 *     pi_branch *branch;
 *     pi_error *error;
 *
 *     if (pi_repository_open("memory:", PI_NUL, NULL, &repository, NULL, &error) < 0 ||
 *         pi_session_create(repository, NULL, &session, NULL, &error) < 0 ||
 *         pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error) < 0 ||
 *         pi_branch_append_message(branch, "{\"role\":\"user\",\"content\":\"hi\"}", PI_NUL, NULL, NULL, &error) < 0) {
 *         fprintf(stderr, "%s\n", pi_error_message(error));
 *     }
 *
 * The contract, in short (whole in docs/c-contract.md):
 *
 * Results    int32_t: 0 is success, a negative PI_* number is failure. The last parameter, pi_error **error, may
 *            be NULL; else it is always written: NULL on success, an object on failure. Every other output is
 *            always written too: NULL or 0 on failure. "PI_X" in the text of a function names a failure to
 *            expect; arguments that are wrong by themselves give PI_INVALID_ARGUMENT, a wrong handle PI_MISUSE,
 *            any call that reaches storage what storage fails with.
 * Ownership  What a function hands out is freed once with the _free of its type; _free(NULL) does nothing. No
 *            function takes over an argument, none keeps one. Borrowed texts live until their owner is freed.
 *            Handles may be freed in any order: children keep what they need.
 * Handles    pi_repository, pi_session, pi_branch, pi_mutation, pi_context and pi_cursor are checked: one that
 *            was freed, of another type or foreign gives PI_MISUSE. Sets, buffers, errors and batches are plain
 *            pointers.
 * Texts      In: pointer and length, or PI_NUL as the length of a text that ends with a NUL; NULL where a text
 *            may be absent. Out: pointer and length, and a NUL that is not counted. UTF-8. JSON is text, and
 *            comes back exactly as it was stored.
 * Options    NULL for defaults; else filled by their _init function before anything is set.
 * Context    const pi_context *, before error: cancellation, deadline, trace parent. NULL for none.
 * Threads    Every handle may be used from any thread at once, cursors from one at a time. The library starts
 *            no thread. Callbacks run only inside the call they were given to, on its thread.
 * Waiting    A call that says so waits for its turn on the session's mutation line, until its context ends.
 * Fork       In a child of fork, handles of the parent and new ones give PI_FORKED.
 * Panics     A defect of the library comes back as PI_PANIC; the process goes on.
 */

#ifndef PISESSION_H
#define PISESSION_H

/* Made from the Rust sources by cbindgen; not to be edited. */

#include <stddef.h>
#include <stdint.h>

#define PI_VERSION_MAJOR 0
#define PI_VERSION_MINOR 1
#define PI_VERSION_PATCH 0
#define PI_VERSION_NUMBER (PI_VERSION_MAJOR * 1000000 + PI_VERSION_MINOR * 1000 + PI_VERSION_PATCH)

/* The length of a text that ends with a NUL. */
#define PI_NUL SIZE_MAX

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------------
 * Handles and objects
 * All of them are opaque.
 * ---------------------------------------------------------------------------------------------------- */

/* What failed, where, and what to do about it. To be freed with pi_error_free. */
typedef struct pi_error pi_error;

/* A text the caller owns. UTF-8; a NUL that is not counted follows it. To be freed with pi_buf_free. */
typedef struct pi_buf pi_buf;

/* A context. To be freed with pi_context_free, from any thread, also while a call uses it. */
typedef struct pi_context pi_context;

/* A repository. To be freed with pi_repository_free. */
typedef struct pi_repository pi_repository;

/* The sessions of a repository. To be freed with pi_sessions_free. */
typedef struct pi_sessions pi_sessions;

/* An open session. To be closed with pi_session_close and freed with pi_session_free. */
typedef struct pi_session pi_session;

/* What reading an old file found. To be freed with pi_legacy_free. */
typedef struct pi_legacy pi_legacy;

/* Elements of a list. To be freed with pi_elements_free. */
typedef struct pi_elements pi_elements;

/* Values a scan found. To be freed with pi_values_free. */
typedef struct pi_values pi_values;

/* Addresses that were found. To be freed with pi_addresses_free. */
typedef struct pi_addresses pi_addresses;

/* Entries one by one. Used by one thread at a time. To be freed with pi_cursor_free. */
typedef struct pi_cursor pi_cursor;

/* Entries a scan found. To be freed with pi_entries_free. */
typedef struct pi_entries pi_entries;

/* The ids of the entries that an append made, in their order. To be freed with pi_ids_free. */
typedef struct pi_ids pi_ids;

/* The entries of one append. To be freed with pi_nodes_free, after the append too. */
typedef struct pi_nodes pi_nodes;

/* A branch of an open session. To be freed with pi_branch_free. */
typedef struct pi_branch pi_branch;

/* The branches of a session. To be freed with pi_branches_free. */
typedef struct pi_branches pi_branches;

/* Rows of the ledger. To be freed with pi_usage_rows_free. */
typedef struct pi_usage_rows pi_usage_rows;

/* The writes of one commit. To be freed with pi_writes_free, after the commit too. */
typedef struct pi_writes pi_writes;

/* What a commit did. To be freed with pi_commit_result_free. */
typedef struct pi_commit_result pi_commit_result;

/* A begun mutation. To be ended with pi_mutation_end and freed with pi_mutation_free, unless it was given to
 * the function of pi_session_mutate, which does both. */
typedef struct pi_mutation pi_mutation;

/* The result of a query. To be freed with pi_rows_free. */
typedef struct pi_rows pi_rows;

/* What a check found. To be freed with pi_findings_free. */
typedef struct pi_findings pi_findings;

/* What became of the sessions of a repository. To be freed with pi_conversions_free. */
typedef struct pi_conversions pi_conversions;

/* What a repair did, or would do. To be freed with pi_repair_free. */
typedef struct pi_repair pi_repair;

/* ----------------------------------------------------------------------------------------------------
 * Versions
 * The header says what a program was compiled with, the functions say what it runs with.
 * ---------------------------------------------------------------------------------------------------- */

/* The version of the library, for example "0.1.0". Never NULL; static. */
const char *pi_version(void);

/* The version of the library as a number, to be compared with PI_VERSION_NUMBER of the header. */
int64_t pi_version_number(void);

/* The number in the name of the shared library, libpisession.so.N: programs of one number work together
 * with libraries of the same number and an equal or newer version. */
int64_t pi_abi_version(void);

/* The version of the SQLite inside the library, for example "3.54.1". Never NULL; static. */
const char *pi_sqlite_version(void);

/* ----------------------------------------------------------------------------------------------------
 * Errors
 * A function that can fail returns 0 or one of the numbers below, and takes a pi_error ** last. NULL is
 * allowed there; anything else is always written: NULL on success, an object on failure.
 * ---------------------------------------------------------------------------------------------------- */

/* Success. */
#define PI_OK 0

/* The operating system refused an operation; the source tells how. */
#define PI_IO -1

/* The disk is full or a size limit was reached. Nothing was written. */
#define PI_FULL -2

/* Another process holds the database's lock past the busy timeout. */
#define PI_BUSY -3

/* The session is open for writing elsewhere. */
#define PI_SESSION_BUSY -4

/* The call's context was cancelled. */
#define PI_CANCELLED -5

/* The call's deadline passed. */
#define PI_DEADLINE_EXCEEDED -6

/* The session or repository is closed. */
#define PI_CLOSED -7

/* The session was opened for reading only. */
#define PI_READ_ONLY -8

/* The session is a file of version 1 to 3, which is never written in place. */
#define PI_LEGACY_READ_ONLY -9

/* This backend cannot do that. */
#define PI_UNSUPPORTED -10

/* No session of that id, or its file is gone. */
#define PI_UNKNOWN_SESSION -11

/* A session of that id exists already. */
#define PI_SESSION_EXISTS -12

/* Two files claim that session id. */
#define PI_AMBIGUOUS_SESSION -13

/* No branch of that name. */
#define PI_UNKNOWN_BRANCH -14

/* No entry of that id. */
#define PI_UNKNOWN_ENTRY -15

/* A tip or branch point names an entry that does not exist. */
#define PI_UNKNOWN_TARGET -16

/* An entry names a parent that does not exist. */
#define PI_MISSING_PARENT -17

/* A branch of that name exists already. */
#define PI_BRANCH_EXISTS -18

/* An entry or usage row of that id exists already. */
#define PI_DUPLICATE_ID -19

/* The entry is not on the path of that branch. */
#define PI_ENTRY_NOT_ON_BRANCH -20

/* An id is empty, too long, or holds characters ids cannot have. */
#define PI_INVALID_ID -21

/* A namespace is empty, or a part of an address holds characters it cannot have. */
#define PI_INVALID_ADDRESS -22

/* A branch name is empty or holds characters it cannot have. */
#define PI_INVALID_BRANCH -23

/* A lane name is empty or holds characters it cannot have. */
#define PI_INVALID_LANE -24

/* A payload is not JSON as this library takes it. */
#define PI_INVALID_JSON -25

/* An argument has a value the call does not take. */
#define PI_INVALID_ARGUMENT -26

/* A payload, a commit or a count is over its limit. */
#define PI_TOO_LARGE -27

/* The address belongs to the library and is not declared. */
#define PI_RESERVED_ADDRESS -28

/* An assistant message that is still pending cannot be stored. */
#define PI_PENDING_ASSISTANT -29

/* The mutation has used its one commit. */
#define PI_COMMIT_ATTEMPTED -30

/* The mutation has ended. */
#define PI_MUTATION_ENDED -31

/* A writer was called from inside a mutation of the same session and would wait for itself. */
#define PI_NESTED_MUTATION -32

/* The file is not a session. */
#define PI_NOT_A_SESSION -33

/* The file was written by a newer version of the format. */
#define PI_UNSUPPORTED_VERSION -34

/* The file is damaged. */
#define PI_CORRUPT -35

/* Another program changed the file behind an open session. */
#define PI_FILE_CHANGED -36

/* Storage cannot prove its state after a failure; reopen the session. */
#define PI_STORAGE_FAULT -37

/* Another SQLite library in this process interfered with the database file. */
#define PI_FOREIGN_SQLITE -38

/* The handle was made before a fork and is used in the child. */
#define PI_FORKED -39

/* A handle was misused (freed, of another type, used concurrently where that is not allowed). */
#define PI_MISUSE -40

/* A panic was caught at the boundary of the library. Please report it. */
#define PI_PANIC -41

/* The number the failed function returned. PI_OK for NULL. */
int32_t pi_error_code(const struct pi_error *error);

/* The name of the kind, for example "SessionBusy"; "Application" for a number of the host's own. Borrowed
 * from the error. NULL for NULL. */
const char *pi_error_kind(const struct pi_error *error);

/* What failed, in a sentence; never empty. Borrowed from the error. NULL for NULL. */
const char *pi_error_message(const struct pi_error *error);

/* What to do about it; NULL where that is not known. Borrowed from the error. */
const char *pi_error_hint(const struct pi_error *error);

/* The file it is about, as the bytes of its name; NULL where there is none. Borrowed from the error. */
const char *pi_error_path(const struct pi_error *error);

/* The session, entry, branch or other id it is about; NULL where there is none. Borrowed from the error. */
const char *pi_error_id(const struct pi_error *error);

/* The line in the file, from 1; -1 where there is none. */
int64_t pi_error_line(const struct pi_error *error);

/* The byte in the file or in the text given (with a line: that of the line's start); -1 where there is none. */
int64_t pi_error_offset(const struct pi_error *error);

/* The operating system's error number, for PI_IO and PI_FULL; 0 where there is none. */
int64_t pi_error_errno(const struct pi_error *error);

/* 1 if the same call may succeed later without anything else being changed, else 0. */
int64_t pi_error_retryable(const struct pi_error *error);

/* Frees the error and what was borrowed from it. Nothing for NULL. */
void pi_error_free(struct pi_error *error);

/* ----------------------------------------------------------------------------------------------------
 * Owned texts
 * A pi_buf is a text that a function hands out: an id, a value, a name.
 * ---------------------------------------------------------------------------------------------------- */

/* The bytes of the buffer. Borrowed: valid until the buffer is freed. NULL for NULL. */
const char *pi_buf_data(const struct pi_buf *buf);

/* The number of bytes, without the NUL. 0 for NULL. */
size_t pi_buf_len(const struct pi_buf *buf);

/* Frees the buffer. Nothing for NULL. */
void pi_buf_free(struct pi_buf *buf);

/* ----------------------------------------------------------------------------------------------------
 * Contexts
 * A context is the authority of the calls it is given to: cancellation, deadline, trace parent. NULL in its
 * place is the background, which has none of them. Cancelling never undoes a commit that was admitted.
 * ---------------------------------------------------------------------------------------------------- */

/* A function that is told how much of a call is done, and how much it is in all (0 where that is not known). It is
 * called on the calling thread, inside the call, and may call the library; no C++ exception and no longjmp may
 * leave it. */
typedef void (*pi_progress_function)(uint64_t done, uint64_t all, void *user_data);

/* Makes a context without a deadline. *context is the caller's, to be freed with pi_context_free. */
int32_t pi_context_new(struct pi_context **context, pi_error **error);

/* Gives the context a deadline, so many milliseconds from now; an earlier one it has already stays. Holds
 * for calls made from now on; a call past the deadline fails with PI_DEADLINE_EXCEEDED. */
int32_t pi_context_set_timeout(struct pi_context *context, uint64_t milliseconds, pi_error **error);

/* Gives the context a W3C trace parent, the parent of the spans of its calls. PI_INVALID_ARGUMENT if the text
 * is none. */
int32_t pi_context_set_traceparent(struct pi_context *context,
                                   const char *traceparent,
                                   size_t traceparent_len,
                                   pi_error **error);

/* Cancels the context: calls that wait with it, in any thread, fail with PI_CANCELLED, and so do later ones. */
int32_t pi_context_cancel(struct pi_context *context, pi_error **error);

/* Frees the context; calls that use it go on. Nothing for NULL. PI_MISUSE if it is no live context. */
int32_t pi_context_free(struct pi_context *context);

/* ----------------------------------------------------------------------------------------------------
 * Repositories
 * A repository is a place where sessions are kept, named by a text: memory: (a new one each time),
 * sqlite:PATH or jsonl:PATH.
 * ---------------------------------------------------------------------------------------------------- */

/* A commit that was acknowledged survives power loss (the default). */
#define PI_DURABILITY_POWER 1

/* A commit that was acknowledged survives the end of the process, in whatever way. */
#define PI_DURABILITY_PROCESS 2

/* How a repository works. To be filled by pi_repository_options_init first; 0 is the default of each field. */
typedef struct pi_repository_options {
    /* Set by pi_repository_options_init. */
    size_t struct_size;
    /* PI_DURABILITY_POWER or PI_DURABILITY_PROCESS. */
    int64_t durability;
    /* How many milliseconds a commit waits for another process's lock on a shared database: 5000. */
    uint64_t busy_timeout_ms;
    /* How many bytes a payload may have: 256 MiB. */
    uint64_t max_payload;
} pi_repository_options;

/* What a listing looks up. To be filled by pi_list_options_init first; 0 is the default of each field. */
typedef struct pi_list_options {
    /* Set by pi_list_options_init. */
    size_t struct_size;
    /* 1: also name and number of messages, which cost an open of each session. */
    int64_t details;
} pi_list_options;

/* One session of a listing: views that are valid until the listing is freed. Absent texts are NULL. */
typedef struct pi_session_info {
    /* Its id; NULL if the session cannot be read, see problem. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* When it was made, Unix ms; -1 if it cannot be read. */
    int64_t created_at;
    /* Version of the stored form; 0 if it cannot be read. */
    uint64_t storage_version;
    /* The working folder it was made for. */
    const char *cwd;
    /* Bytes of cwd. */
    size_t cwd_len;
    /* The session it was forked or copied from. */
    const char *parent_session_id;
    /* Bytes of parent_session_id. */
    size_t parent_session_id_len;
    /* The file it is in, as the bytes of its name. */
    const char *path;
    /* Bytes of path. */
    size_t path_len;
    /* When it was last written, Unix ms; -1 where that is not known. */
    int64_t modified_at;
    /* How it is kept: "memory", "sqlite", "sqlite-container", "reference-sqlite", "jsonl-4", ... */
    const char *format;
    /* Bytes of format. */
    size_t format_len;
    /* Its name, when details were asked for. */
    const char *name;
    /* Bytes of name. */
    size_t name_len;
    /* How many messages it has, when details were asked for; else -1. */
    int64_t message_count;
    /* Why it cannot be read; NULL if it can. */
    const char *problem;
    /* Bytes of problem. */
    size_t problem_len;
    /* The number of that problem's kind; PI_OK if there is none. */
    int64_t problem_code;
} pi_session_info;

/* Fills options with defaults; size is sizeof *options. */
void pi_repository_options_init(struct pi_repository_options *options, size_t size);

/* Opens the repository that uri names. What is not there yet is made by the first pi_session_create.
 * options may be NULL. *repository is the caller's, to be freed with pi_repository_free.
 * PI_INVALID_ARGUMENT for a text that names none. */
int32_t pi_repository_open(const char *uri,
                           size_t uri_len,
                           const struct pi_repository_options *options,
                           struct pi_repository **repository,
                           const pi_context *context,
                           pi_error **error);

/* Closes the repository: it makes, opens, lists and deletes nothing any more (PI_CLOSED), and every session
 * that was opened through it is closed; waits for what has begun. The first error comes back, its message
 * names the others. May be called again. The repository is still to be freed. */
int32_t pi_repository_close(struct pi_repository *repository, const pi_context *context, pi_error **error);

/* Frees the repository; sessions opened through it go on. Nothing for NULL. PI_MISUSE if it is no live one. */
int32_t pi_repository_free(struct pi_repository *repository);

/* Deletes a session that is open nowhere. PI_SESSION_BUSY if it is open, PI_UNKNOWN_SESSION if there is none,
 * PI_AMBIGUOUS_SESSION if several files hold one of that id. */
int32_t pi_repository_delete(struct pi_repository *repository,
                             const char *id,
                             size_t id_len,
                             const pi_context *context,
                             pi_error **error);

/* pi_repository_delete for the session in the file at path, the bytes of its name as pi_session_info has it,
 * where several files hold a session of that id. */
int32_t pi_repository_delete_at(struct pi_repository *repository,
                                const char *id,
                                size_t id_len,
                                const char *path,
                                size_t path_len,
                                const pi_context *context,
                                pi_error **error);

/* Fills options with defaults; size is sizeof *options. */
void pi_list_options_init(struct pi_list_options *options, size_t size);

/* Lists the sessions, newest first; one bad file does not hide the others. options may be NULL. *sessions is
 * the caller's, to be freed with pi_sessions_free. PI_IO if the place itself cannot be read. */
int32_t pi_repository_list(const struct pi_repository *repository,
                           const struct pi_list_options *options,
                           struct pi_sessions **sessions,
                           const pi_context *context,
                           pi_error **error);

/* How many sessions were listed. 0 for NULL. */
size_t pi_sessions_count(const struct pi_sessions *sessions);

/* Fills *view with the session at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_sessions_get(const struct pi_sessions *sessions,
                        size_t index,
                        struct pi_session_info *view,
                        size_t size);

/* Frees the listing and what was borrowed from it. Nothing for NULL. */
void pi_sessions_free(struct pi_sessions *sessions);

/* ----------------------------------------------------------------------------------------------------
 * Sessions
 * A session holds global durable data (values, lists, entries, usage, name, labels) and one mutation line.
 * It has no branch of its own: "main" is an ordinary name. Reads see the newest applied commit and never
 * wait for a mutation.
 * ---------------------------------------------------------------------------------------------------- */

/* What a new session is. To be filled by pi_session_options_init first; NULL texts are absent. */
typedef struct pi_session_options {
    /* Set by pi_session_options_init. */
    size_t struct_size;
    /* Its id; NULL for a new one. */
    const char *id;
    /* Bytes of id, or PI_NUL, which is the default. */
    size_t id_len;
    /* The session it goes on from. */
    const char *parent_session_id;
    /* Bytes of parent_session_id, or PI_NUL, which is the default. */
    size_t parent_session_id_len;
    /* The working folder it is for. */
    const char *cwd;
    /* Bytes of cwd, or PI_NUL, which is the default. */
    size_t cwd_len;
    /* When it was made, Unix ms, for a session that comes from elsewhere; NULL for now. */
    const int64_t *created_at;
    /* The file of an old session it came from, where that has no id here. */
    const char *legacy_parent_session_path;
    /* Bytes of legacy_parent_session_path, or PI_NUL, which is the default. */
    size_t legacy_parent_session_path_len;
} pi_session_options;

/* What a session says of itself: views that are valid until the session is freed. Absent texts are NULL. */
typedef struct pi_metadata {
    /* Its id, unique in its repository. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* When it was made, Unix ms. */
    int64_t created_at;
    /* Version of the stored form. */
    uint64_t storage_version;
    /* The working folder it was made for. */
    const char *cwd;
    /* Bytes of cwd. */
    size_t cwd_len;
    /* The session it was forked or copied from. */
    const char *parent_session_id;
    /* Bytes of parent_session_id. */
    size_t parent_session_id_len;
    /* The file of an old session it came from, where that has no id here. */
    const char *legacy_parent_session_path;
    /* Bytes of legacy_parent_session_path. */
    size_t legacy_parent_session_path_len;
    /* The file it is kept in, as the bytes of its name. */
    const char *path;
    /* Bytes of path. */
    size_t path_len;
} pi_metadata;

/* Totals of a session. */
typedef struct pi_stats {
    /* Entries of type "message". */
    uint64_t message_count;
    /* Input tokens. This and the following are sums over the ledger. */
    double input;
    /* Output tokens. */
    double output;
    /* Tokens read from the provider's cache. */
    double cache_read;
    /* Tokens written to the provider's cache. */
    double cache_write;
    /* Of these, tokens written for an hour. */
    double cache_write_1h;
    /* Reasoning tokens. */
    double reasoning;
    /* All tokens. */
    double total_tokens;
    /* Cost of input tokens. */
    double cost_input;
    /* Cost of output tokens. */
    double cost_output;
    /* Cost of tokens read from the cache. */
    double cost_cache_read;
    /* Cost of tokens written to the cache. */
    double cost_cache_write;
    /* All costs. */
    double cost_total;
    /* 1 if any row had cache_write_1h. */
    int64_t has_cache_write_1h;
    /* 1 if any row had reasoning. */
    int64_t has_reasoning;
} pi_stats;

/* What pi_session_compact did. */
typedef struct pi_compaction {
    /* Bytes of the file before. */
    uint64_t before;
    /* Bytes of the file after. */
    uint64_t after;
} pi_compaction;

/* Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL, so that a text that ends
 * with a NUL needs no more than to be set. */
void pi_session_options_init(struct pi_session_options *options, size_t size);

/* Makes a session and opens it for writing. It holds nothing but its metadata: no branch, no value. options
 * may be NULL. *session is the caller's, to be closed and freed. PI_SESSION_EXISTS, PI_INVALID_ID.
 * PI_INVALID_ARGUMENT for a created_at before 1970 or after the year 9999. */
int32_t pi_session_create(pi_repository *repository,
                          const struct pi_session_options *options,
                          struct pi_session **session,
                          const pi_context *context,
                          pi_error **error);

/* Opens a session for writing; only one place at a time can. *session is the caller's, to be closed and
 * freed. PI_UNKNOWN_SESSION, PI_SESSION_BUSY, PI_AMBIGUOUS_SESSION, PI_CORRUPT, PI_UNSUPPORTED_VERSION. */
int32_t pi_session_open(pi_repository *repository,
                        const char *id,
                        size_t id_len,
                        struct pi_session **session,
                        const pi_context *context,
                        pi_error **error);

/* Opens a session for reading, beside whoever writes it. *session is the caller's, to be closed and freed.
 * As pi_session_open, but never PI_SESSION_BUSY; writing fails with PI_READ_ONLY. */
int32_t pi_session_open_read_only(pi_repository *repository,
                                  const char *id,
                                  size_t id_len,
                                  struct pi_session **session,
                                  const pi_context *context,
                                  pi_error **error);

/* Closes the session: refuses new mutations and reads, fails the mutations that wait with PI_CLOSED, waits for
 * what has begun to end, closes the storage. Afterwards every handle of it fails with PI_CLOSED; all are still
 * to be freed. May be called again. PI_DEADLINE_EXCEEDED or PI_CANCELLED while a mutation, read, query or
 * backup does not end: it takes no new work and keeps its lock until it is closed again. PI_NESTED_MUTATION
 * from inside a mutation. */
int32_t pi_session_close(struct pi_session *session, const pi_context *context, pi_error **error);

/* Frees the session. Not closed before, it is released as a crash would, without loss, once its branches,
 * mutations and cursors are freed too. Nothing for NULL. PI_MISUSE if it is no live one. */
int32_t pi_session_free(struct pi_session *session);

/* Fills *metadata with what the session says of itself; size is sizeof *metadata. The texts are borrowed from
 * the session. */
int32_t pi_session_metadata(const struct pi_session *session,
                            struct pi_metadata *metadata,
                            size_t size,
                            pi_error **error);

/* Makes a new id for an entry or a usage row. *id is the caller's, to be freed with pi_buf_free. */
int32_t pi_session_new_id(const struct pi_session *session, pi_buf **id, pi_error **error);

/* Fills *stats with the totals of the session; size is sizeof *stats. */
int32_t pi_session_stats(const struct pi_session *session,
                         struct pi_stats *stats,
                         size_t size,
                         const pi_context *context,
                         pi_error **error);

/* Reads the seq the next commit starts at. */
int32_t pi_session_next_seq(const struct pi_session *session,
                            uint64_t *seq,
                            const pi_context *context,
                            pi_error **error);

/* Reads everything the session holds as one JSON object, payloads as stored: two sessions that hold the same
 * give the same bytes, whatever keeps them. *dump is the caller's, to be freed with pi_buf_free. It is read in
 * pages, each of the newest commit: to dump a session that others write to, begin a mutation around it. */
int32_t pi_session_dump(const struct pi_session *session,
                        pi_buf **dump,
                        const pi_context *context,
                        pi_error **error);

/* Copies the session, as it is now, into a new SQLite file of its own at path, while it stays in use. Nothing is
 * left there on failure. PI_UNSUPPORTED where it is not kept in SQLite, PI_SESSION_EXISTS if there is a file at
 * path. */
int32_t pi_session_backup(const struct pi_session *session,
                          const char *path,
                          size_t path_len,
                          const pi_context *context,
                          pi_error **error);

/* Rewrites the session's file of JSON lines with what is alive. The old file stays until the new one is whole;
 * readers follow. Closing does it when more is dead than alive. Fills *compaction, which may be NULL; size is
 * sizeof *compaction. PI_UNSUPPORTED where the session is kept otherwise; PI_READ_ONLY; PI_FULL and PI_IO leave
 * the old file as it was. */
int32_t pi_session_compact(struct pi_session *session,
                           struct pi_compaction *compaction,
                           size_t size,
                           const pi_context *context,
                           pi_error **error);

/* Reads the session's name. *name is the caller's, to be freed with pi_buf_free; NULL when it has none. */
int32_t pi_session_name(const struct pi_session *session,
                        pi_buf **name,
                        const pi_context *context,
                        pi_error **error);

/* Sets the session's name; NULL deletes it. Waits for its turn on the mutation line. */
int32_t pi_session_set_name(struct pi_session *session,
                            const char *name,
                            size_t name_len,
                            const pi_context *context,
                            pi_error **error);

/* Reads the label of an entry. *label is the caller's, to be freed with pi_buf_free; NULL when it has none. */
int32_t pi_session_get_label(const struct pi_session *session,
                             const char *entry_id,
                             size_t entry_id_len,
                             pi_buf **label,
                             const pi_context *context,
                             pi_error **error);

/* Labels an entry, which need not exist; a NULL label deletes it. Waits for its turn on the mutation line.
 * PI_INVALID_ID. */
int32_t pi_session_set_label(struct pi_session *session,
                             const char *entry_id,
                             size_t entry_id_len,
                             const char *label,
                             size_t label_len,
                             const pi_context *context,
                             pi_error **error);

/* ----------------------------------------------------------------------------------------------------
 * Old files
 * What reading a session file of version 1 to 3 found: its warnings, its usage, the map of its ids. A session
 * that was opened from such a file has it, and what pi_repository_import gives.
 * ---------------------------------------------------------------------------------------------------- */

/* An old file in brief: views that are valid until the pi_legacy is freed. Absent texts are NULL. */
typedef struct pi_legacy_info {
    /* The version of the file; 1 where it says none. */
    uint64_t version;
    /* The session id in the file. */
    const char *session_id;
    /* Bytes of session_id. */
    size_t session_id_len;
    /* The usage in the file, summed: a JSON object. */
    const char *usage;
    /* Bytes of usage. */
    size_t usage_len;
    /* How many usage objects went into it. */
    uint64_t usage_rows;
    /* Where the file as it was is kept, if the call upgraded it; as the bytes of its name. */
    const char *backup;
    /* Bytes of backup. */
    size_t backup_len;
} pi_legacy_info;

/* One thing that reading an old file found: views that are valid until the pi_legacy is freed. */
typedef struct pi_legacy_warning {
    /* What it is about, for example "bad_line". */
    const char *kind;
    /* Bytes of kind. */
    size_t kind_len;
    /* What was found, in plain words. */
    const char *message;
    /* Bytes of message. */
    size_t message_len;
    /* The line, from 1. */
    uint64_t line;
    /* Which of the values on the line, from 0. */
    uint64_t value;
    /* Where the line starts in the file. */
    uint64_t offset;
    /* How many bytes the line has, without its end. */
    uint64_t length;
    /* 1: the file's structure is damaged there, and strict reading refuses it. */
    int64_t is_damage;
} pi_legacy_warning;

/* An id of an entry in an old file, and its id here: views that are valid until the pi_legacy is freed. */
typedef struct pi_legacy_id {
    /* The id in the file. */
    const char *old_id;
    /* Bytes of old_id. */
    size_t old_id_len;
    /* The id here. */
    const char *new_id;
    /* Bytes of new_id. */
    size_t new_id_len;
} pi_legacy_id;

/* What reading the file found from which the session was opened, copied or upgraded by the call that gave it.
 * NULL with PI_OK for any other session. *legacy is the caller's, to be freed with pi_legacy_free. */
int32_t pi_session_legacy(const pi_session *session, struct pi_legacy **legacy, pi_error **error);

/* Fills *info; size is sizeof *info. PI_INVALID_ARGUMENT for NULL. */
int32_t pi_legacy_get(const struct pi_legacy *legacy, struct pi_legacy_info *info, size_t size);

/* How many warnings there are, by line. 0 for NULL. */
size_t pi_legacy_warnings_count(const struct pi_legacy *legacy);

/* Fills *view with the warning at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_legacy_warnings_get(const struct pi_legacy *legacy,
                               size_t index,
                               struct pi_legacy_warning *view,
                               size_t size);

/* How many old ids there are, in stored order. Entries without one are not among them; one that the file uses
 * for several entries comes several times. 0 for NULL. */
size_t pi_legacy_ids_count(const struct pi_legacy *legacy);

/* Fills *view with the ids at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_legacy_ids_get(const struct pi_legacy *legacy,
                          size_t index,
                          struct pi_legacy_id *view,
                          size_t size);

/* Frees it and what was borrowed from it. Nothing for NULL. */
void pi_legacy_free(struct pi_legacy *legacy);

/* ----------------------------------------------------------------------------------------------------
 * Session files
 * Sessions opened with options, from a repository or by the path of their file, and import. Files of version 1
 * to 3 open too: what a write to such a session does is said when it is opened.
 * ---------------------------------------------------------------------------------------------------- */

/* A write to a session of version 1 to 3 fails with PI_LEGACY_READ_ONLY (the default). */
#define PI_LEGACY_POLICY_READ_ONLY 1

/* Opening makes a new session, whole, with a new id, and gives that one. The old file stays as it is. */
#define PI_LEGACY_POLICY_COPY 2

/* Opening rewrites the file as format 4, with its id, and keeps the old one as NAME.vN.bak. */
#define PI_LEGACY_POLICY_UPGRADE 3

/* How a session is opened. To be filled by pi_open_options_init first; 0 and NULL are defaults. */
typedef struct pi_open_options {
    /* Set by pi_open_options_init. */
    size_t struct_size;
    /* 1: for reading only. No file is written then, whatever legacy says. */
    int64_t read_only;
    /* What a write does if the session is a file of version 1 to 3: one of PI_LEGACY_POLICY_*. */
    int64_t legacy;
    /* Where PI_LEGACY_POLICY_COPY makes the new session; NULL for beside the file: in the same repository, or
     * in the file's folder if it is opened by its path. */
    pi_repository *copy_to;
    /* 1: go on although a file of JSON lines is damaged. One of format 4 is then open for reading only; of an
     * old one what can be read is copied or upgraded. */
    int64_t salvage;
    /* 1: refuse an old file whose structure is damaged, in place of warning of it. */
    int64_t strict;
    /* Which file is meant, as the bytes of its name that pi_session_info has, where several files of the
     * repository hold a session of that id. For pi_session_open_with only. */
    const char *path;
    /* Bytes of path, or PI_NUL, which is the default. */
    size_t path_len;
} pi_open_options;

/* How a file is imported. To be filled by pi_import_options_init first; 0 and NULL are defaults. */
typedef struct pi_import_options {
    /* Set by pi_import_options_init. */
    size_t struct_size;
    /* The id of the session; NULL for the file's. */
    const char *id;
    /* Bytes of id, or PI_NUL, which is the default. */
    size_t id_len;
    /* 1: import what can be read of a damaged file. */
    int64_t salvage;
    /* 1: refuse a file whose structure is damaged, at its first damage. */
    int64_t strict;
    /* Told how many bytes are done and how many in all, now and then; NULL for nobody. The file is gone through
     * three times, and each counts. */
    pi_progress_function progress;
    /* What progress gets. */
    void *user_data;
} pi_import_options;

/* Fills options with defaults; size is sizeof *options. path_len becomes PI_NUL. */
void pi_open_options_init(struct pi_open_options *options, size_t size);

/* Opens a session of the repository as options say; NULL is pi_session_open. *session is the caller's, to be
 * closed and freed. As pi_session_open; PI_CORRUPT, if a damaged old file is to be copied or upgraded without
 * salvage; PI_UNSUPPORTED_VERSION, if one of a version above 3 is; PI_FILE_CHANGED. */
int32_t pi_session_open_with(pi_repository *repository,
                             const char *id,
                             size_t id_len,
                             const struct pi_open_options *options,
                             pi_session **session,
                             const pi_context *context,
                             pi_error **error);

/* Opens the session file at path, whatever it is called, as options say; NULL is for writing, old files for
 * reading. path is the bytes of its name. *session is the caller's, to be closed and freed. As
 * pi_session_open_with; PI_NOT_A_SESSION for anything else, PI_UNSUPPORTED for SQLite databases. */
int32_t pi_session_open_file(const char *path,
                             size_t path_len,
                             const struct pi_open_options *options,
                             pi_session **session,
                             const pi_context *context,
                             pi_error **error);

/* Fills options with defaults; size is sizeof *options. id_len becomes PI_NUL. */
void pi_import_options_init(struct pi_import_options *options, size_t size);

/* Makes a session in the repository from the session file of version 1 to 3 at path, which is not written. A
 * session that came from this file, or from one that starts with it, is left as it is. options may be NULL, and
 * each output: *id is the session's id, to be freed with pi_buf_free; *added is 1, or 0 if it was there already;
 * *legacy is what was found, to be freed with pi_legacy_free. PI_SESSION_EXISTS if a session of that id is
 * something else; PI_CORRUPT for a damaged file without salvage; PI_UNSUPPORTED_VERSION; PI_FILE_CHANGED. */
int32_t pi_repository_import(pi_repository *repository,
                             const char *path,
                             size_t path_len,
                             const struct pi_import_options *options,
                             pi_buf **id,
                             uint64_t *added,
                             pi_legacy **legacy,
                             const pi_context *context,
                             pi_error **error);

/* ----------------------------------------------------------------------------------------------------
 * Forks
 * A fork is a new session that goes on from a point of another one, or has all of it.
 * ---------------------------------------------------------------------------------------------------- */

/* The path to one entry, as one branch (the default). */
#define PI_FORK_BRANCH 1

/* Every entry and every branch, and what applications keep beside them. */
#define PI_FORK_TREE 2

/* The entry is the new tip (the default). */
#define PI_FORK_AT 1

/* Its parent is; before a root the branch is empty. */
#define PI_FORK_BEFORE 2

/* What a fork is of. To be filled by pi_fork_options_init first; 0 is the default of each number, NULL texts
 * are absent. */
typedef struct pi_fork_options {
    /* Set by pi_fork_options_init. */
    size_t struct_size;
    /* PI_FORK_BRANCH or PI_FORK_TREE; with a tree branch, entry and position are absent. */
    int64_t scope;
    /* The branch whose path is taken; NULL for main, or with an entry for any path of the tree, which becomes main. */
    const char *branch;
    /* Bytes of branch, or PI_NUL, which is the default. */
    size_t branch_len;
    /* The entry on that path; NULL for the branch's tip. */
    const char *entry_id;
    /* Bytes of entry_id, or PI_NUL, which is the default. */
    size_t entry_id_len;
    /* PI_FORK_AT or PI_FORK_BEFORE. */
    int64_t position;
    /* The id of the new session; NULL for a new one. */
    const char *id;
    /* Bytes of id, or PI_NUL, which is the default. */
    size_t id_len;
    /* The working folder of the new session; NULL for the source's. */
    const char *cwd;
    /* Bytes of cwd, or PI_NUL, which is the default. */
    size_t cwd_len;
} pi_fork_options;

/* Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL. */
void pi_fork_options_init(struct pi_fork_options *options, size_t size);

/* Makes a new session in repository from source, which is open in whatever mode and repository, over one snapshot
 * of it: the commits that were made before. May be called inside a mutation. options may be NULL. *fork is the
 * caller's, to be closed and freed; *left_out, which may be NULL, too, to be freed with pi_buf_free: a JSON array
 * with the names of lanes whose configuration was left out, since the source holds it by half.
 * PI_UNKNOWN_BRANCH, PI_UNKNOWN_ENTRY, PI_ENTRY_NOT_ON_BRANCH, PI_CORRUPT, PI_RESERVED_ADDRESS,
 * PI_SESSION_EXISTS, PI_INVALID_ID: then there is no new session. */
int32_t pi_session_fork(pi_repository *repository,
                        pi_session *source,
                        const struct pi_fork_options *options,
                        pi_session **fork,
                        pi_buf **left_out,
                        const pi_context *context,
                        pi_error **error);

/* pi_session_fork of the session of that id in source, a repository, which may be the same; the session may be
 * open elsewhere, for writing too. path is the bytes of the name of its file, as pi_session_info has it, where
 * several files hold a session of that id, else NULL. As pi_session_fork, and as pi_session_open_read_only. */
int32_t pi_session_fork_stored(pi_repository *repository,
                               const pi_repository *source,
                               const char *id,
                               size_t id_len,
                               const char *path,
                               size_t path_len,
                               const struct pi_fork_options *options,
                               pi_session **fork,
                               pi_buf **left_out,
                               const pi_context *context,
                               pi_error **error);

/* ----------------------------------------------------------------------------------------------------
 * Values and lists
 * A value is one JSON text at an address (namespace and key), a list is JSON texts in the order they were
 * appended. Namespaces "pi" and "pi.*" are the library's own.
 * ---------------------------------------------------------------------------------------------------- */

/* Which elements of a list to read. To be filled by pi_list_read_init first; 0 and NULL are defaults. */
typedef struct pi_list_read {
    /* Set by pi_list_read_init. */
    size_t struct_size;
    /* PI_ASCENDING (default) or PI_DESCENDING. */
    int64_t order;
    /* Only elements after (descending: before) this seq; NULL for all. */
    const uint64_t *cursor;
    /* At most so many; must be positive; clamped to 10000. NULL for 1000. */
    const uint64_t *limit;
} pi_list_read;

/* One value: views that are valid until the set is freed. */
typedef struct pi_value {
    /* Its namespace. */
    const char *name_space;
    /* Bytes of name_space. */
    size_t name_space_len;
    /* Its key. */
    const char *key;
    /* Bytes of key. */
    size_t key_len;
    /* Its JSON, exactly as stored. */
    const char *value;
    /* Bytes of value. */
    size_t value_len;
    /* When it was set, in the session's order. */
    uint64_t seq;
} pi_value;

/* One element of a list: views that are valid until the set is freed. */
typedef struct pi_element {
    /* Its place in the session's order, and its cursor. */
    uint64_t seq;
    /* Its JSON, exactly as stored. */
    const char *value;
    /* Bytes of value. */
    size_t value_len;
} pi_element;

/* Fills read with defaults; size is sizeof *read. */
void pi_list_read_init(struct pi_list_read *read, size_t size);

/* Reads the value at an address. *value is its JSON as stored, the caller's, to be freed with pi_buf_free; NULL
 * when it is absent. *seq is when it was set; seq may be NULL. PI_INVALID_ADDRESS. */
int32_t pi_session_get_value(const pi_session *session,
                             const char *name_space,
                             size_t name_space_len,
                             const char *key,
                             size_t key_len,
                             pi_buf **value,
                             uint64_t *seq,
                             const pi_context *context,
                             pi_error **error);

/* Reads the values of a namespace whose key starts with key_prefix, keys ascending by code point. *values is
 * the caller's, to be freed with pi_values_free. PI_INVALID_ADDRESS. */
int32_t pi_session_scan_values(const pi_session *session,
                               const char *name_space,
                               size_t name_space_len,
                               const char *key_prefix,
                               size_t key_prefix_len,
                               struct pi_values **values,
                               const pi_context *context,
                               pi_error **error);

/* Reads elements of a list; none when it is absent. read may be NULL. *elements is the caller's, to be freed
 * with pi_elements_free. PI_INVALID_ADDRESS; PI_INVALID_ARGUMENT for a limit of 0. */
int32_t pi_session_read_list(const pi_session *session,
                             const char *name_space,
                             size_t name_space_len,
                             const char *key,
                             size_t key_len,
                             const struct pi_list_read *read,
                             struct pi_elements **elements,
                             const pi_context *context,
                             pi_error **error);

/* Sets or replaces a value. Waits for its turn on the mutation line. PI_INVALID_ADDRESS, PI_INVALID_JSON,
 * PI_RESERVED_ADDRESS, PI_TOO_LARGE; what a commit fails with. */
int32_t pi_session_set_value(pi_session *session,
                             const char *name_space,
                             size_t name_space_len,
                             const char *key,
                             size_t key_len,
                             const char *value,
                             size_t value_len,
                             const pi_context *context,
                             pi_error **error);

/* Deletes a value; fine when it is absent. Waits for its turn on the mutation line. */
int32_t pi_session_delete_value(pi_session *session,
                                const char *name_space,
                                size_t name_space_len,
                                const char *key,
                                size_t key_len,
                                const pi_context *context,
                                pi_error **error);

/* Appends an element to a list. Waits for its turn on the mutation line. Errors as pi_session_set_value. */
int32_t pi_session_append_list(pi_session *session,
                               const char *name_space,
                               size_t name_space_len,
                               const char *key,
                               size_t key_len,
                               const char *element,
                               size_t element_len,
                               const pi_context *context,
                               pi_error **error);

/* Deletes a whole list; fine when it is absent. Waits for its turn on the mutation line. */
int32_t pi_session_delete_list(pi_session *session,
                               const char *name_space,
                               size_t name_space_len,
                               const char *key,
                               size_t key_len,
                               const pi_context *context,
                               pi_error **error);

/* How many values were found. 0 for NULL. */
size_t pi_values_count(const struct pi_values *values);

/* Fills *view with the value at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_values_get(const struct pi_values *values, size_t index, struct pi_value *view, size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_values_free(struct pi_values *values);

/* How many elements were read. 0 for NULL. */
size_t pi_elements_count(const struct pi_elements *elements);

/* Fills *view with the element at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_elements_get(const struct pi_elements *elements,
                        size_t index,
                        struct pi_element *view,
                        size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_elements_free(struct pi_elements *elements);

/* ----------------------------------------------------------------------------------------------------
 * Addresses
 * Where the values and lists of a session stand, without what stands there: for tools that look through all of it.
 * ---------------------------------------------------------------------------------------------------- */

/* One address: views that are valid until the set is freed. */
typedef struct pi_address {
    /* Its namespace. */
    const char *name_space;
    /* Bytes of name_space. */
    size_t name_space_len;
    /* Its key. */
    const char *key;
    /* Bytes of key. */
    size_t key_len;
} pi_address;

/* Reads the addresses that hold a value, ascending by namespace and key, at most limit of them. They begin behind
 * the address name_space, key; both NULL: at the first. *addresses is the caller's, to be freed with
 * pi_addresses_free. PI_INVALID_ADDRESS. */
int32_t pi_session_value_addresses(const pi_session *session,
                                   const char *name_space,
                                   size_t name_space_len,
                                   const char *key,
                                   size_t key_len,
                                   size_t limit,
                                   struct pi_addresses **addresses,
                                   const pi_context *context,
                                   pi_error **error);

/* Reads the addresses that hold a list. As pi_session_value_addresses. */
int32_t pi_session_list_addresses(const pi_session *session,
                                  const char *name_space,
                                  size_t name_space_len,
                                  const char *key,
                                  size_t key_len,
                                  size_t limit,
                                  struct pi_addresses **addresses,
                                  const pi_context *context,
                                  pi_error **error);

/* How many addresses were found. 0 for NULL. */
size_t pi_addresses_count(const struct pi_addresses *addresses);

/* Fills *view with the address at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_addresses_get(const struct pi_addresses *addresses,
                         size_t index,
                         struct pi_address *view,
                         size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_addresses_free(struct pi_addresses *addresses);

/* ----------------------------------------------------------------------------------------------------
 * Entries
 * Entries are the nodes of the conversation tree, written once. A scan gives a set of them or, where there
 * may be many, a cursor.
 * ---------------------------------------------------------------------------------------------------- */

/* Oldest first. */
#define PI_ASCENDING 1

/* Newest first. */
#define PI_DESCENDING 2

/* Which entries of a session to find. To be filled by pi_entry_query_init first; 0 and NULL are defaults. */
typedef struct pi_entry_query {
    /* Set by pi_entry_query_init. */
    size_t struct_size;
    /* Only entries of this type: "message", "compaction", "branch_summary" or "custom"; NULL for all. */
    const char *type;
    /* Bytes of type, or PI_NUL, which is the default. */
    size_t type_len;
    /* Only custom entries of this type; NULL for all. */
    const char *custom_type;
    /* Bytes of custom_type, or PI_NUL, which is the default. */
    size_t custom_type_len;
    /* From this seq on, inclusive; NULL for all. */
    const uint64_t *from_seq;
    /* Up to this seq, inclusive; NULL for all. */
    const uint64_t *to_seq;
    /* Only entries beyond this seq: below it descending, above it ascending; NULL for all. */
    const uint64_t *cursor;
    /* At most so many; 0 gives none; NULL for all. */
    const uint64_t *limit;
    /* PI_DESCENDING (default) or PI_ASCENDING. */
    int64_t order;
} pi_entry_query;

/* Which entries of a path to give. Applied in this order: stop, filter, cursor, limit. To be filled by
 * pi_branch_scan_init first; 0 and NULL are defaults. */
typedef struct pi_branch_scan {
    /* Set by pi_branch_scan_init. */
    size_t struct_size;
    /* Stop at the first entry of this type, inclusively; NULL for none. */
    const char *stop_at_type;
    /* Bytes of stop_at_type, or PI_NUL, which is the default. */
    size_t stop_at_type_len;
    /* Stop at this entry, inclusively; NULL for none. */
    const char *stop_at_id;
    /* Bytes of stop_at_id, or PI_NUL, which is the default. */
    size_t stop_at_id_len;
    /* Only entries of this type; NULL for all. */
    const char *type;
    /* Bytes of type, or PI_NUL, which is the default. */
    size_t type_len;
    /* Only custom entries of this type; NULL for all. */
    const char *custom_type;
    /* Bytes of custom_type, or PI_NUL, which is the default. */
    size_t custom_type_len;
    /* Only entries beyond this seq: below it newest first, above it oldest first; NULL for all. */
    const uint64_t *cursor;
    /* At most so many; 0 gives none; NULL for all. */
    const uint64_t *limit;
    /* PI_DESCENDING, from the start to the root (default), or PI_ASCENDING, from the root to the start. */
    int64_t order;
} pi_branch_scan;

/* One entry: views that are valid until the set is freed, or until the cursor's next step. */
typedef struct pi_entry {
    /* Its id. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* Its parent's id; NULL for a root. */
    const char *parent_id;
    /* Bytes of parent_id. */
    size_t parent_id_len;
    /* Its place in the session's order. */
    uint64_t seq;
    /* When its commit was made, Unix ms. */
    int64_t timestamp;
    /* "message", "compaction", "branch_summary" or "custom". */
    const char *type;
    /* Bytes of type. */
    size_t type_len;
    /* Its custom type, for custom entries only; else NULL. */
    const char *custom_type;
    /* Bytes of custom_type. */
    size_t custom_type_len;
    /* The JSON object of the type's payload fields, exactly as stored: {"message":...} for a message,
     * {"data":...} or {} for a custom entry. NULL in a structure. */
    const char *payload;
    /* Bytes of payload. */
    size_t payload_len;
} pi_entry;

/* Fills query with defaults; size is sizeof *query. Each length becomes PI_NUL, so that a text that ends with a
 * NUL needs no more than to be set. */
void pi_entry_query_init(struct pi_entry_query *query, size_t size);

/* Fills scan with defaults; size is sizeof *scan. The lengths as with pi_entry_query_init. */
void pi_branch_scan_init(struct pi_branch_scan *scan, size_t size);

/* Reads the entry of that id. *entries holds it and is the caller's, to be freed with pi_entries_free; NULL
 * when there is none. */
int32_t pi_session_get_entry(const pi_session *session,
                             const char *id,
                             size_t id_len,
                             struct pi_entries **entries,
                             const pi_context *context,
                             pi_error **error);

/* Reads those of count ids that exist, in the order asked; an id asked for twice comes twice. id_lens may be
 * NULL if every id ends with a NUL. *entries is the caller's, to be freed with pi_entries_free. */
int32_t pi_session_get_entries(const pi_session *session,
                               const char *const *ids,
                               const size_t *id_lens,
                               size_t count,
                               struct pi_entries **entries,
                               const pi_context *context,
                               pi_error **error);

/* Finds entries of the whole session, newest first unless asked otherwise. query may be NULL. *entries is the
 * caller's, to be freed with pi_entries_free. Give a limit, or use pi_session_entries for a large session. */
int32_t pi_session_find_entries(const pi_session *session,
                                const struct pi_entry_query *query,
                                struct pi_entries **entries,
                                const pi_context *context,
                                pi_error **error);

/* Reads the entries on the path from the entry start to its root, newest first unless asked otherwise. scan
 * may be NULL. *entries is the caller's, to be freed with pi_entries_free. PI_UNKNOWN_ENTRY if there is no
 * entry start. */
int32_t pi_session_scan_branch(const pi_session *session,
                               const char *start,
                               size_t start_len,
                               const struct pi_branch_scan *scan,
                               struct pi_entries **entries,
                               const pi_context *context,
                               pi_error **error);

/* Where the entries of pi_session_scan_branch stand, without reading their payloads: payload is NULL in what
 * pi_entries_get fills. *entries as there, and so the errors. */
int32_t pi_session_scan_branch_structure(const pi_session *session,
                                         const char *start,
                                         size_t start_len,
                                         const struct pi_branch_scan *scan,
                                         struct pi_entries **entries,
                                         const pi_context *context,
                                         pi_error **error);

/* The entries of pi_session_find_entries one by one, read in pages. query may be NULL. *cursor is the caller's,
 * to be freed with pi_cursor_free. The context is looked at once per page. */
int32_t pi_session_entries(const pi_session *session,
                           const struct pi_entry_query *query,
                           struct pi_cursor **cursor,
                           const pi_context *context,
                           pi_error **error);

/* How many entries were found. 0 for NULL. */
size_t pi_entries_count(const struct pi_entries *entries);

/* Fills *view with the entry at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_entries_get(const struct pi_entries *entries, size_t index, struct pi_entry *view, size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_entries_free(struct pi_entries *entries);

/* Goes to the next entry and fills *view with it; size is sizeof *view. At the end view->id is NULL and the
 * call succeeds. The views of the step before are no longer valid. After an error the cursor is at its end.
 * PI_MISUSE while another thread uses the cursor. */
int32_t pi_cursor_next(struct pi_cursor *cursor, struct pi_entry *view, size_t size, pi_error **error);

/* Frees the cursor and what was borrowed from it. Nothing for NULL. PI_MISUSE if it is no live one. */
int32_t pi_cursor_free(struct pi_cursor *cursor);

/* ----------------------------------------------------------------------------------------------------
 * Nodes
 * Entries to be appended to a branch in one commit are collected in a pi_nodes, without ids and parents: these
 * come with pi_branch_append_many, which puts each under the one before.
 * ---------------------------------------------------------------------------------------------------- */

/* One id: a view that is valid until the set is freed. */
typedef struct pi_id {
    /* The id. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
} pi_id;

/* Makes an empty batch. *nodes is the caller's, to be freed with pi_nodes_free. */
int32_t pi_nodes_new(struct pi_nodes **nodes, pi_error **error);

/* Adds a message (a JSON object). PI_INVALID_JSON. The append refuses what else is wrong with it. */
int32_t pi_nodes_add_message(struct pi_nodes *nodes,
                             const char *message,
                             size_t message_len,
                             pi_error **error);

/* Adds an entry of the application's own type, with JSON data or without (data NULL). As pi_nodes_add_message. */
int32_t pi_nodes_add_custom_entry(struct pi_nodes *nodes,
                                  const char *custom_type,
                                  size_t custom_type_len,
                                  const char *data,
                                  size_t data_len,
                                  pi_error **error);

/* How many nodes were added. 0 for NULL. */
size_t pi_nodes_count(const struct pi_nodes *nodes);

/* Frees the batch. Nothing for NULL. */
void pi_nodes_free(struct pi_nodes *nodes);

/* How many ids there are. 0 for NULL. */
size_t pi_ids_count(const struct pi_ids *ids);

/* Fills *view with the id at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_ids_get(const struct pi_ids *ids, size_t index, struct pi_id *view, size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_ids_free(struct pi_ids *ids);

/* ----------------------------------------------------------------------------------------------------
 * Branches
 * A branch is one named path through the entry tree: its tip, queries along it, direct appends. It is a name
 * and holds no state; two handles of one name are equal.
 * ---------------------------------------------------------------------------------------------------- */

/* One branch of a set: views that are valid until the set is freed. */
typedef struct pi_branch_info {
    /* Its name. */
    const char *name;
    /* Bytes of name. */
    size_t name_len;
    /* The id of its tip; NULL for an empty branch. */
    const char *tip_id;
    /* Bytes of tip_id. */
    size_t tip_id_len;
} pi_branch_info;

/* Makes a branch at an entry (at NULL: an empty branch). *branch is the caller's, to be freed with
 * pi_branch_free. Waits for its turn on the mutation line. PI_INVALID_BRANCH, PI_BRANCH_EXISTS,
 * PI_UNKNOWN_TARGET; what a commit fails with. */
int32_t pi_branch_create(pi_session *session,
                         const char *name,
                         size_t name_len,
                         const char *at,
                         size_t at_len,
                         struct pi_branch **branch,
                         const pi_context *context,
                         pi_error **error);

/* Gets the branch of that name. *branch is the caller's, to be freed with pi_branch_free; NULL when there is
 * none. */
int32_t pi_branch_get(const pi_session *session,
                      const char *name,
                      size_t name_len,
                      struct pi_branch **branch,
                      const pi_context *context,
                      pi_error **error);

/* Frees the branch handle; the branch stays. Nothing for NULL. PI_MISUSE if it is no live one. */
int32_t pi_branch_free(struct pi_branch *branch);

/* The name of the branch. Borrowed: valid until the branch is freed. NULL for what is no live branch. */
const char *pi_branch_name(const struct pi_branch *branch);

/* Reads the tip of the branch. *id is the caller's, to be freed with pi_buf_free; NULL for an empty branch.
 * PI_UNKNOWN_BRANCH if the branch was deleted. */
int32_t pi_branch_tip_id(const struct pi_branch *branch,
                         pi_buf **id,
                         const pi_context *context,
                         pi_error **error);

/* Appends a message (a JSON object) under the tip and moves the tip, in one commit. *id is the new entry's id,
 * the caller's, to be freed with pi_buf_free; id may be NULL. Waits for its turn on the mutation line.
 * PI_INVALID_JSON, PI_PENDING_ASSISTANT, PI_UNKNOWN_BRANCH if the branch was deleted; what a commit fails with. */
int32_t pi_branch_append_message(struct pi_branch *branch,
                                 const char *message,
                                 size_t message_len,
                                 pi_buf **id,
                                 const pi_context *context,
                                 pi_error **error);

/* Appends an entry of the application's own type, with JSON data or without (data NULL), under the tip and
 * moves the tip, in one commit. *id as for pi_branch_append_message, and so the errors. */
int32_t pi_branch_append_custom_entry(struct pi_branch *branch,
                                      const char *custom_type,
                                      size_t custom_type_len,
                                      const char *data,
                                      size_t data_len,
                                      pi_buf **id,
                                      const pi_context *context,
                                      pi_error **error);

/* Appends the nodes, each under the one before and the first under the tip, and moves the tip, in one commit.
 * Nothing for no nodes, which NULL is too. *ids has the id of each, in their order; it is the caller's, to be
 * freed with pi_ids_free; ids may be NULL. The nodes are as they were. Waits for its turn on the mutation line.
 * Errors as pi_branch_append_message; then none of the nodes is appended. */
int32_t pi_branch_append_many(struct pi_branch *branch,
                              const pi_nodes *nodes,
                              pi_ids **ids,
                              const pi_context *context,
                              pi_error **error);

/* Finds entries on the branch's path, from its tip, newest first unless asked otherwise. scan may be NULL.
 * *entries is the caller's, to be freed with pi_entries_free. PI_UNKNOWN_BRANCH if the branch was deleted,
 * PI_UNKNOWN_ENTRY if its tip names no entry (a damaged file). */
int32_t pi_branch_find_entries(const struct pi_branch *branch,
                               const pi_branch_scan *scan,
                               pi_entries **entries,
                               const pi_context *context,
                               pi_error **error);

/* The entries of pi_branch_find_entries one by one, read in pages along the path of the tip the branch has
 * now, which does not change. *cursor is the caller's, to be freed with pi_cursor_free. The context is looked
 * at once per page. Errors as pi_branch_find_entries. */
int32_t pi_branch_entries(const struct pi_branch *branch,
                          const pi_branch_scan *scan,
                          pi_cursor **cursor,
                          const pi_context *context,
                          pi_error **error);

/* Reads all branches with their tips, names ascending. *branches is the caller's, to be freed with
 * pi_branches_free. */
int32_t pi_session_branches(const pi_session *session,
                            struct pi_branches **branches,
                            const pi_context *context,
                            pi_error **error);

/* How many branches there are. 0 for NULL. */
size_t pi_branches_count(const struct pi_branches *branches);

/* Fills *view with the branch at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_branches_get(const struct pi_branches *branches,
                        size_t index,
                        struct pi_branch_info *view,
                        size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_branches_free(struct pi_branches *branches);

/* ----------------------------------------------------------------------------------------------------
 * Usage
 * The ledger of a session: one row for every request that was paid for, and for every correction. Rows are
 * written with pi_writes_insert_usage; their sums are in pi_stats.
 * ---------------------------------------------------------------------------------------------------- */

/* Which rows of the ledger to read. To be filled by pi_usage_scan_init first; 0 and NULL are defaults. */
typedef struct pi_usage_scan {
    /* Set by pi_usage_scan_init. */
    size_t struct_size;
    /* From this seq on, inclusive; NULL for all. */
    const uint64_t *from_seq;
    /* Up to this seq, inclusive; NULL for all. */
    const uint64_t *to_seq;
    /* At most so many; 0 gives none; NULL for all. */
    const uint64_t *limit;
    /* PI_ASCENDING (default) or PI_DESCENDING. */
    int64_t order;
} pi_usage_scan;

/* One row of the ledger: views that are valid until the set is freed. */
typedef struct pi_usage_row {
    /* Its id. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* Its place in the session's order. */
    uint64_t seq;
    /* The JSON object of its other fields, exactly as stored: usage, adjustment, entryId?, details?, others. */
    const char *payload;
    /* Bytes of payload. */
    size_t payload_len;
} pi_usage_row;

/* Fills scan with defaults; size is sizeof *scan. */
void pi_usage_scan_init(struct pi_usage_scan *scan, size_t size);

/* Reads rows of the ledger, oldest first unless asked otherwise. scan may be NULL. *rows is the caller's, to be
 * freed with pi_usage_rows_free. */
int32_t pi_session_scan_usage(const pi_session *session,
                              const struct pi_usage_scan *scan,
                              struct pi_usage_rows **rows,
                              const pi_context *context,
                              pi_error **error);

/* How many rows were read. 0 for NULL. */
size_t pi_usage_rows_count(const struct pi_usage_rows *rows);

/* Fills *view with the row at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_usage_rows_get(const struct pi_usage_rows *rows,
                          size_t index,
                          struct pi_usage_row *view,
                          size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_usage_rows_free(struct pi_usage_rows *rows);

/* ----------------------------------------------------------------------------------------------------
 * Writes
 * The writes of one commit are collected in a pi_writes, in their order, and applied all or nothing by
 * pi_mutation_commit. What is wrong with a write by itself is said when it is added; a write that was refused
 * is not added.
 * ---------------------------------------------------------------------------------------------------- */

/* Makes an empty batch. *writes is the caller's, to be freed with pi_writes_free. */
int32_t pi_writes_new(struct pi_writes **writes, pi_error **error);

/* How many writes were added. 0 for NULL. */
size_t pi_writes_count(const struct pi_writes *writes);

/* Frees the batch. Nothing for NULL. */
void pi_writes_free(struct pi_writes *writes);

/* Adds an entry from its JSON object: id, parentId (null for a root), type, customType for custom entries, and
 * the type's payload fields. PI_INVALID_JSON, PI_INVALID_ID, PI_PENDING_ASSISTANT, PI_INVALID_ARGUMENT naming
 * the field. */
int32_t pi_writes_insert_entry(struct pi_writes *writes,
                               const char *entry,
                               size_t entry_len,
                               pi_error **error);

/* Adds a message (a JSON object) under the entry parent_id (NULL for a root). The tip of a branch does not move
 * with it: set the value ("pi.branch.tip", branch name) in the same commit. The commit refuses what is wrong
 * with it. */
int32_t pi_writes_insert_message(struct pi_writes *writes,
                                 const char *id,
                                 size_t id_len,
                                 const char *parent_id,
                                 size_t parent_id_len,
                                 const char *message,
                                 size_t message_len,
                                 pi_error **error);

/* Adds an entry of the application's own type, with JSON data or without (data NULL), under the entry parent_id
 * (NULL for a root). As pi_writes_insert_message. */
int32_t pi_writes_insert_custom_entry(struct pi_writes *writes,
                                      const char *id,
                                      size_t id_len,
                                      const char *parent_id,
                                      size_t parent_id_len,
                                      const char *custom_type,
                                      size_t custom_type_len,
                                      const char *data,
                                      size_t data_len,
                                      pi_error **error);

/* Adds a row of the ledger from its JSON object: id, usage, adjustment?, entryId?, details?, and others, which
 * are kept. PI_INVALID_JSON, PI_INVALID_ID, PI_INVALID_ARGUMENT naming the field. */
int32_t pi_writes_insert_usage(struct pi_writes *writes,
                               const char *usage,
                               size_t usage_len,
                               pi_error **error);

/* Adds the setting or replacing of a value. PI_INVALID_ADDRESS, PI_INVALID_JSON. */
int32_t pi_writes_set_value(struct pi_writes *writes,
                            const char *name_space,
                            size_t name_space_len,
                            const char *key,
                            size_t key_len,
                            const char *value,
                            size_t value_len,
                            pi_error **error);

/* Adds the deletion of a value, which may be absent. PI_INVALID_ADDRESS. */
int32_t pi_writes_delete_value(struct pi_writes *writes,
                               const char *name_space,
                               size_t name_space_len,
                               const char *key,
                               size_t key_len,
                               pi_error **error);

/* Adds the appending of an element to a list. PI_INVALID_ADDRESS, PI_INVALID_JSON. */
int32_t pi_writes_append_list(struct pi_writes *writes,
                              const char *name_space,
                              size_t name_space_len,
                              const char *key,
                              size_t key_len,
                              const char *element,
                              size_t element_len,
                              pi_error **error);

/* Adds the deletion of a whole list, which may be absent. PI_INVALID_ADDRESS. */
int32_t pi_writes_delete_list(struct pi_writes *writes,
                              const char *name_space,
                              size_t name_space_len,
                              const char *key,
                              size_t key_len,
                              pi_error **error);

/* ----------------------------------------------------------------------------------------------------
 * Mutations
 * A mutation is one turn of a session's mutation line: reads, at most one commit, end. Ordinary code uses
 * pi_session_mutate, which ends it on every path; whoever calls pi_mutation_begin ends it. Inside a mutation
 * never run a model request, a tool, a timer, another writer of the session, or unbounded work.
 * ---------------------------------------------------------------------------------------------------- */

/* A function that runs inside a mutation. It returns 0, or a negative number; error, which is not NULL and holds
 * NULL, may be handed on to the library's functions, so that what they fail with reaches the caller of
 * pi_session_mutate. Each of them overwrites *error: to go on after a failure, free *error and set it to NULL
 * before it is passed to another call. */
typedef int32_t (*pi_mutate_function)(struct pi_mutation *mutation,
                                      const pi_context *context,
                                      void *user_data,
                                      pi_error **error);

/* Takes leave of a host's user_data. */
typedef void (*pi_drop_function)(void *user_data);

/* Waits for its turn on the mutation line and begins a mutation. *mutation is the caller's, to be ended and
 * freed on every path. PI_CLOSED, PI_CANCELLED, PI_DEADLINE_EXCEEDED; PI_NESTED_MUTATION if this thread holds
 * the line itself. */
int32_t pi_mutation_begin(pi_session *session,
                          struct pi_mutation **mutation,
                          const pi_context *context,
                          pi_error **error);

/* Reads those of count ids that exist. As pi_session_get_entries; PI_MUTATION_ENDED. */
int32_t pi_mutation_get_entries(const struct pi_mutation *mutation,
                                const char *const *ids,
                                const size_t *id_lens,
                                size_t count,
                                pi_entries **entries,
                                const pi_context *context,
                                pi_error **error);

/* Reads the entries on the path from the entry start. As pi_session_scan_branch; PI_MUTATION_ENDED. */
int32_t pi_mutation_scan_branch(const struct pi_mutation *mutation,
                                const char *start,
                                size_t start_len,
                                const pi_branch_scan *scan,
                                pi_entries **entries,
                                const pi_context *context,
                                pi_error **error);

/* Reads where the entries on the path from the entry start stand. As pi_session_scan_branch_structure;
 * PI_MUTATION_ENDED. */
int32_t pi_mutation_scan_branch_structure(const struct pi_mutation *mutation,
                                          const char *start,
                                          size_t start_len,
                                          const pi_branch_scan *scan,
                                          pi_entries **entries,
                                          const pi_context *context,
                                          pi_error **error);

/* Fills *stats with the totals of the session. As pi_session_stats; PI_MUTATION_ENDED. */
int32_t pi_mutation_stats(const struct pi_mutation *mutation,
                          pi_stats *stats,
                          size_t size,
                          const pi_context *context,
                          pi_error **error);

/* Reads the value at an address. As pi_session_get_value; PI_MUTATION_ENDED. */
int32_t pi_mutation_get_value(const struct pi_mutation *mutation,
                              const char *name_space,
                              size_t name_space_len,
                              const char *key,
                              size_t key_len,
                              pi_buf **value,
                              uint64_t *seq,
                              const pi_context *context,
                              pi_error **error);

/* Reads the values of a namespace whose key starts with key_prefix. As pi_session_scan_values;
 * PI_MUTATION_ENDED. */
int32_t pi_mutation_scan_values(const struct pi_mutation *mutation,
                                const char *name_space,
                                size_t name_space_len,
                                const char *key_prefix,
                                size_t key_prefix_len,
                                pi_values **values,
                                const pi_context *context,
                                pi_error **error);

/* Reads elements of a list. As pi_session_read_list; PI_MUTATION_ENDED. */
int32_t pi_mutation_read_list(const struct pi_mutation *mutation,
                              const char *name_space,
                              size_t name_space_len,
                              const char *key,
                              size_t key_len,
                              const pi_list_read *read,
                              pi_elements **elements,
                              const pi_context *context,
                              pi_error **error);

/* Applies writes (NULL: none), all or nothing. Legal once; the line stays held until the mutation ends. *result
 * is the caller's, to be freed with pi_commit_result_free; result may be NULL. PI_COMMIT_ATTEMPTED the second
 * time, also after a failed first; PI_MUTATION_ENDED; PI_DUPLICATE_ID, PI_MISSING_PARENT, PI_UNKNOWN_TARGET,
 * PI_PENDING_ASSISTANT, PI_RESERVED_ADDRESS, PI_INVALID_ID, PI_TOO_LARGE, PI_READ_ONLY, ... with nothing
 * written. Returns when the commit is durable. */
int32_t pi_mutation_commit(struct pi_mutation *mutation,
                           const pi_writes *writes,
                           struct pi_commit_result **result,
                           const pi_context *context,
                           pi_error **error);

/* Waits for an admitted commit, ends the mutation and releases the line. May be called again, and without a
 * commit before. The mutation is still to be freed. */
int32_t pi_mutation_end(struct pi_mutation *mutation, pi_error **error);

/* Ends the mutation if need be, and frees it. Nothing for NULL. PI_MISUSE if it is no live one, or belongs to
 * pi_session_mutate. */
int32_t pi_mutation_free(struct pi_mutation *mutation);

/* Runs function on the mutation line, on the calling thread: begin, function, end, whatever function does. A
 * commit made before function failed stays. function reads, decides, commits at most once and returns 0; the
 * mutation it is given is dead when it returns, and not its to end or free. It must not let a C++ exception
 * or a longjmp leave it, nor wait for another writer of the session. drop (may be NULL) is called with
 * user_data exactly once before the call returns, also when it fails.
 * As pi_mutation_begin; if function returns a negative number, that number comes back, with the error it left
 * or one made of it. */
int32_t pi_session_mutate(pi_session *session,
                          pi_mutate_function function,
                          void *user_data,
                          pi_drop_function drop,
                          const pi_context *context,
                          pi_error **error);

/* The first seq of the commit; of an empty commit the next one. */
uint64_t pi_commit_result_first_seq(const struct pi_commit_result *result);

/* How many writes the commit had. 0 for NULL. */
size_t pi_commit_result_count(const struct pi_commit_result *result);

/* The seq of each write, in their order: pi_commit_result_count of them. Borrowed: valid until the result is
 * freed. NULL for NULL. */
const uint64_t *pi_commit_result_seqs(const struct pi_commit_result *result);

/* The one timestamp of all entries of the commit, Unix ms. */
int64_t pi_commit_result_timestamp(const struct pi_commit_result *result);

/* Fills *stats with the session's totals right after the commit; size is sizeof *stats. */
int32_t pi_commit_result_stats(const struct pi_commit_result *result, pi_stats *stats, size_t size);

/* Frees the result and what was borrowed from it. Nothing for NULL. */
void pi_commit_result_free(struct pi_commit_result *result);

/* ----------------------------------------------------------------------------------------------------
 * SQL
 * Read-only SQL over the documented views of one session that is kept in SQLite: session, entry, branch, value,
 * list_element and usage. What a query gives is a table of cells.
 * ---------------------------------------------------------------------------------------------------- */

/* NULL of SQL. */
#define PI_CELL_NULL 0

/* A 64-bit integer. */
#define PI_CELL_INTEGER 1

/* A double. */
#define PI_CELL_REAL 2

/* Text, UTF-8. */
#define PI_CELL_TEXT 3

/* Bytes. */
#define PI_CELL_BLOB 4

/* A cell of a result, or a parameter of a query. A zeroed one is NULL of SQL. */
typedef struct pi_cell {
    /* PI_CELL_NULL, PI_CELL_INTEGER, PI_CELL_REAL, PI_CELL_TEXT or PI_CELL_BLOB. */
    int64_t type;
    /* The integer. */
    int64_t integer;
    /* The double. */
    double real;
    /* The text, or the bytes. */
    const char *data;
    /* Bytes of data; in a parameter that is a text, PI_NUL says that it ends with a NUL. */
    size_t data_len;
} pi_cell;

/* Runs one statement that reads the session's views; ?1 stands for parameters[0], and so on. parameters may be
 * NULL when count is 0. *rows is the caller's, to be freed with pi_rows_free. The context interrupts it.
 * PI_UNSUPPORTED where the session is not kept in SQLite, PI_INVALID_ARGUMENT for SQL that is wrong or would
 * write. */
int32_t pi_session_query(const pi_session *session,
                         const char *sql,
                         size_t sql_len,
                         const struct pi_cell *parameters,
                         size_t count,
                         struct pi_rows **rows,
                         const pi_context *context,
                         pi_error **error);

/* How many rows came. 0 for NULL. */
size_t pi_rows_count(const struct pi_rows *rows);

/* How many columns each row has. 0 for NULL. */
size_t pi_rows_column_count(const struct pi_rows *rows);

/* The name of a column. Borrowed from the result. NULL beyond the last one. */
const char *pi_rows_column_name(const struct pi_rows *rows, size_t column);

/* Fills *view with a cell, whose data is borrowed from the result; size is sizeof *view. PI_INVALID_ARGUMENT
 * beyond the end. */
int32_t pi_rows_get(const struct pi_rows *rows, size_t row, size_t column, struct pi_cell *view, size_t size);

/* Frees the result and what was borrowed from it. Nothing for NULL. */
void pi_rows_free(struct pi_rows *rows);

/* ----------------------------------------------------------------------------------------------------
 * Export
 * A session as a session file of version 3, which coding agents open. Functions begin with pi_session, as
 * all that a session does.
 * ---------------------------------------------------------------------------------------------------- */

/* How a session is exported. To be filled by pi_export_options_init first; 0 and NULL are defaults. */
typedef struct pi_export_options {
    /* Set by pi_export_options_init. */
    size_t struct_size;
    /* Only the path to the tip of this branch; NULL for the whole tree, which opens at "main". */
    const char *branch;
    /* Bytes of branch, or PI_NUL, which is the default. */
    size_t branch_len;
    /* Not 0: a file that is there is replaced. */
    int64_t overwrite;
} pi_export_options;

/* Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL, so that a text that ends
 * with a NUL needs no more than to be set. */
void pi_export_options_init(struct pi_export_options *options, size_t size);

/* Writes the session as a session file of version 3 to path, the bytes of a file's name; the file appears whole,
 * and durably, or not at all. A session that came from such a file gives its lines again, and behind them what
 * came to it since. options may be NULL; so may report, which otherwise is the caller's, to be freed with
 * pi_buf_free: a JSON object with path, entries, lines, bytes and losses, what version 3 cannot hold, each with
 * kind, count, message and, where it has them, name, namespace, key and entryId. PI_SESSION_EXISTS where a file
 * is that may not be replaced, PI_UNKNOWN_BRANCH, PI_CORRUPT, PI_IO, PI_FULL. It reads and writes files and
 * waits for no mutation. */
int32_t pi_session_export(const pi_session *session,
                          const char *path,
                          size_t path_len,
                          const struct pi_export_options *options,
                          pi_buf **report,
                          const pi_context *context,
                          pi_error **error);

/* ----------------------------------------------------------------------------------------------------
 * Checks
 * A session is looked over, and what is wrong with it is named. Nothing is repaired and nothing is written.
 * ---------------------------------------------------------------------------------------------------- */

/* What costs little: the end of the file, tips, labels, lanes. */
#define PI_CHECK_BRIEF 1

/* Everything is read once (the default). */
#define PI_CHECK_QUICK 2

/* Also whether what was read fits together, and what the file says beside it: each line of a file of JSON lines is
 * read again; of a SQLite file, indexes are held against tables. */
#define PI_CHECK_FULL 3

/* How a session is checked. To be filled by pi_check_options_init first; 0 and NULL are defaults. */
typedef struct pi_check_options {
    /* Set by pi_check_options_init. */
    size_t struct_size;
    /* PI_CHECK_BRIEF, PI_CHECK_QUICK or PI_CHECK_FULL. */
    int64_t depth;
    /* 1: the file itself is not looked at, since it was, for another session in it. */
    int64_t skip_file;
    /* Told how many entries were read, now and then; NULL for nobody. */
    pi_progress_function progress;
    /* What progress gets. */
    void *user_data;
} pi_check_options;

/* One thing that is wrong: views that are valid until the set is freed. Absent texts are NULL. */
typedef struct pi_finding {
    /* What it is, for example "tip_of_nothing". */
    const char *kind;
    /* Bytes of kind. */
    size_t kind_len;
    /* It in a sentence. */
    const char *message;
    /* Bytes of message. */
    size_t message_len;
    /* The entry, branch or other id it is about. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* The line of the file it is in, from 1; -1 where there is none. */
    int64_t line;
    /* Where it begins in the file, in bytes; -1 where that is not known. */
    int64_t offset;
    /* How many bytes of the file it takes; -1 where that is not known. */
    int64_t length;
    /* What to do about it. */
    const char *hint;
    /* Bytes of hint. */
    size_t hint_len;
    /* The number of the error that reading ended with; PI_OK if there was none. */
    int64_t error_code;
} pi_finding;

/* Fills options with defaults; size is sizeof *options. */
void pi_check_options_init(struct pi_check_options *options, size_t size);

/* Looks the session over, while it stays in use. options may be NULL. *findings is what is wrong with it, none
 * for a sound one; the caller's, to be freed with pi_findings_free. What cannot be read is a finding too; the call
 * itself fails with PI_CLOSED, PI_CANCELLED and PI_DEADLINE_EXCEEDED. */
int32_t pi_session_check(const pi_session *session,
                         const struct pi_check_options *options,
                         struct pi_findings **findings,
                         const pi_context *context,
                         pi_error **error);

/* What reading went past in a file of JSON lines that was opened with salvage: each a "damaged_line" with its
 * place. None for any other session. *findings is the caller's, to be freed with pi_findings_free. */
int32_t pi_session_gaps(const pi_session *session, struct pi_findings **findings, pi_error **error);

/* How many findings there are. 0 for NULL. */
size_t pi_findings_count(const struct pi_findings *findings);

/* Fills *view with the finding at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_findings_get(const struct pi_findings *findings,
                        size_t index,
                        struct pi_finding *view,
                        size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_findings_free(struct pi_findings *findings);

/* ----------------------------------------------------------------------------------------------------
 * Repairing and moving
 * A damaged session gives a new one of all that can be read of it; sound ones go to other repositories as they
 * are. What is read is never written.
 * ---------------------------------------------------------------------------------------------------- */

/* How a session is repaired. To be filled by pi_repair_options_init first; 0 and NULL are defaults. */
typedef struct pi_repair_options {
    /* Set by pi_repair_options_init. */
    size_t struct_size;
    /* Where the new session is made; NULL to look only. */
    pi_repository *into;
    /* The id of the new session; NULL for the old one's. */
    const char *id;
    /* Bytes of id, or PI_NUL, which is the default. */
    size_t id_len;
    /* The id of the session that is meant, in a database that holds several. */
    const char *session;
    /* Bytes of session, or PI_NUL, which is the default. */
    size_t session_len;
    /* Told how many bytes of a file of JSON lines were read, now and then; NULL for nobody. */
    pi_progress_function progress;
    /* What progress gets. */
    void *user_data;
} pi_repair_options;

/* A repair in brief: views that are valid until the pi_repair is freed. Absent texts are NULL. */
typedef struct pi_repair_info {
    /* The id of the damaged session. */
    const char *source_id;
    /* Bytes of source_id. */
    size_t source_id_len;
    /* The id of the new session; NULL if there was only a look. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* The file of the new session, as the bytes of its name. */
    const char *path;
    /* Bytes of path. */
    size_t path_len;
    /* 1 if there was nothing to repair. */
    int64_t is_sound;
    /* Entries that were kept. */
    uint64_t entries;
    /* Of these, messages. */
    uint64_t messages;
    /* Values, the tips of branches included. */
    uint64_t values;
    /* Elements of lists. */
    uint64_t elements;
    /* Rows of the ledger. */
    uint64_t usage;
} pi_repair_info;

/* How sessions are converted. To be filled by pi_convert_options_init first; 0 and NULL are defaults. */
typedef struct pi_convert_options {
    /* Set by pi_convert_options_init. */
    size_t struct_size;
    /* Told how many records of a session were copied, now and then; NULL for nobody. */
    pi_progress_function progress;
    /* What progress gets. */
    void *user_data;
} pi_convert_options;

/* What became of one session: views that are valid until the set is freed. Absent texts are NULL. */
typedef struct pi_conversion {
    /* The session's id; NULL if it cannot be read. */
    const char *id;
    /* Bytes of id. */
    size_t id_len;
    /* The file it was in, as the bytes of its name. */
    const char *source_path;
    /* Bytes of source_path. */
    size_t source_path_len;
    /* The file it is in now, as the bytes of its name. */
    const char *path;
    /* Bytes of path. */
    size_t path_len;
    /* 1 if it was made; 0 if it was there already, or failed. */
    int64_t made;
    /* Why it failed; NULL if it did not. */
    const char *problem;
    /* Bytes of problem. */
    size_t problem_len;
    /* The number of that problem's kind; PI_OK if there is none. */
    int64_t problem_code;
} pi_conversion;

/* Fills options with defaults; size is sizeof *options. Each length becomes PI_NUL. */
void pi_repair_options_init(struct pi_repair_options *options, size_t size);

/* Makes a new session of what can be read of the one in the file at path (the bytes of its name): JSON lines of
 * any version, or SQLite. The file is only read. Ids, seqs and timestamps stay; the new session appears whole or
 * not at all, and is not open. options may be NULL: to look only. *repair tells what was kept and what was wrong;
 * it is the caller's, to be freed with pi_repair_free. PI_NOT_A_SESSION if nothing in the file is of a session;
 * PI_UNSUPPORTED_VERSION; PI_AMBIGUOUS_SESSION and PI_UNKNOWN_SESSION where a database holds several sessions, or
 * not the one that is meant; PI_FILE_CHANGED; what pi_session_create fails with. */
int32_t pi_repair_file(const char *path,
                       size_t path_len,
                       const struct pi_repair_options *options,
                       struct pi_repair **repair,
                       const pi_context *context,
                       pi_error **error);

/* Fills *info; size is sizeof *info. PI_INVALID_ARGUMENT for NULL. */
int32_t pi_repair_get(const struct pi_repair *repair, struct pi_repair_info *info, size_t size);

/* What was damaged, and what was changed or left out therefore. Borrowed from the repair. NULL for NULL. */
const pi_findings *pi_repair_findings(const struct pi_repair *repair);

/* How many warnings the reader of a file of version 1 to 3 had, by line. 0 for NULL. */
size_t pi_repair_warnings_count(const struct pi_repair *repair);

/* Fills *view with the warning at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_repair_warnings_get(const struct pi_repair *repair,
                               size_t index,
                               pi_legacy_warning *view,
                               size_t size);

/* Frees the repair and what was borrowed from it. Nothing for NULL. */
void pi_repair_free(struct pi_repair *repair);

/* Fills options with defaults; size is sizeof *options. */
void pi_convert_options_init(struct pi_convert_options *options, size_t size);

/* Copies the session into another repository as it is: entries, values, lists, ledger, ids, seqs, timestamps and
 * metadata. The copy appears whole or not at all, and is not open. One that is there already and holds the same is
 * left as it is. *made, which may be NULL, is 1, or 0 if it was there. options may be NULL. PI_SESSION_EXISTS if a
 * session of that id is something else; PI_CORRUPT for a damaged source; what pi_session_create fails with. */
int32_t pi_session_convert(const pi_session *session,
                           pi_repository *into,
                           const struct pi_convert_options *options,
                           uint64_t *made,
                           const pi_context *context,
                           pi_error **error);

/* pi_session_convert for every session of a repository, newest first. One that fails does not stop the others.
 * *conversions tells what became of each; it is the caller's, to be freed with pi_conversions_free. What listing
 * fails with, PI_CANCELLED and PI_DEADLINE_EXCEEDED. */
int32_t pi_repository_convert(const pi_repository *repository,
                              pi_repository *into,
                              const struct pi_convert_options *options,
                              struct pi_conversions **conversions,
                              const pi_context *context,
                              pi_error **error);

/* How many sessions there were. 0 for NULL. */
size_t pi_conversions_count(const struct pi_conversions *conversions);

/* Fills *view with what became of the session at index; size is sizeof *view. PI_INVALID_ARGUMENT beyond the end. */
int32_t pi_conversions_get(const struct pi_conversions *conversions,
                           size_t index,
                           struct pi_conversion *view,
                           size_t size);

/* Frees the set and what was borrowed from it. Nothing for NULL. */
void pi_conversions_free(struct pi_conversions *conversions);

/* ----------------------------------------------------------------------------------------------------
 * The log
 * What the library does, as lines for the host's own log: what went wrong without failing a call, and at
 * PI_LOG_DEBUG each open, commit and mutation with its duration. Ids and counts only, never content. Nothing is
 * written anywhere else.
 * ---------------------------------------------------------------------------------------------------- */

/* No lines. */
#define PI_LOG_OFF 0

/* What made a call fail that could not say so itself. */
#define PI_LOG_ERROR 1

/* What went wrong without failing a call. */
#define PI_LOG_WARN 2

/* What an operator wants to know. */
#define PI_LOG_INFO 3

/* Each open, commit and mutation, with its duration. */
#define PI_LOG_DEBUG 4

/* Everything there is. */
#define PI_LOG_TRACE 5

/* Gives the lines of the library to a function of the host, up to a level; level PI_LOG_OFF or a NULL function
 * ends that. There is one log for the whole process; a new one takes the place of the last.
 * 
 * The function gets the level, the line without its end (UTF-8, with a NUL that is not counted, valid during the
 * call) and user_data. It is called on the thread of the call that the line is about, from any thread and at
 * once from several; it must not use the library. drop(user_data), which may be NULL, runs once, when the log was
 * replaced and no thread is in the function any more, or if this call fails: until then the function may still
 * run, also after the call that replaced it. PI_INVALID_ARGUMENT. */
int32_t pi_set_log(int64_t level,
                   void (*function)(int64_t level, const char *line, size_t line_len, void *user_data),
                   void *user_data,
                   void (*drop)(void *user_data),
                   pi_error **error);

/* ----------------------------------------------------------------------------------------------------
 * For tests
 * What tests of a program and of the library itself look at.
 * ---------------------------------------------------------------------------------------------------- */

/* How many things the library handed out and has not got back: handles, sets, buffers, errors, batches. */
size_t pi_debug_live_handles(void);

/* Panics inside the library, in a call on session (NULL: in none), to show what a defect of the library would
 * do: PI_PANIC comes back, the session refuses every later call but close and free with PI_STORAGE_FAULT,
 * nothing else is touched. */
int32_t pi_debug_panic(const pi_session *session, pi_error **error);

#ifdef __cplusplus
}
#endif

#endif /* PISESSION_H */

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

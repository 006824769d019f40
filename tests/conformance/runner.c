/*
 * The conformance cases, run through the C library alone, on every kind of repository.
 *
 *     runner FOLDER CASES.json ...
 *
 * FOLDER is empty and takes what the repositories keep. An operation the C library does not have is a failure. The
 * last line is "N passed, N failed", a case being counted once for each kind of repository; the exit code is 0 if
 * none failed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"

/* The kinds of repositories. */
enum { MEMORY, LINES, FOLDER, CONTAINER, KINDS };

static const char *const KIND_NAMES[KINDS] = {"memory", "jsonl", "sqlite folder", "sqlite container"};

static void make_uri(char *uri, size_t size, int kind, const char *folder) {
    static int number;
    number++;
    if (kind == MEMORY)
        snprintf(uri, size, "memory:");
    else if (kind == LINES)
        snprintf(uri, size, "jsonl:%s/lines-%d", folder, number);
    else if (kind == FOLDER)
        snprintf(uri, size, "sqlite:%s/sessions-%d", folder, number);
    else
        snprintf(uri, size, "sqlite:%s/all-%d.sqlite", folder, number);
}

enum { HANDLES = 64 };

struct named {
    const json *name;
    struct handle handle;
};

/* One case on one kind of repository. */
struct run {
    struct handle repository;
    struct named handles[HANDLES];
    size_t handle_count;
    /* What was captured, by name. */
    json *results;
    char failure[4000];
};

static int fail(struct run *run, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->failure, sizeof run->failure, format, arguments);
    va_end(arguments);
    return 0;
}

/* Handles */

static struct handle *find_handle(struct run *run, const json *name) {
    size_t i;
    for (i = 0; i < run->handle_count; i++)
        if (json_is(name, run->handles[i].name->text))
            return &run->handles[i].handle;
    return NULL;
}

/* Keeps a handle under its name, in place of the one before; one without a name is freed. */
static int keep_handle(struct run *run, const json *name, struct handle handle) {
    struct handle *before = find_handle(run, name), old;
    if (name == NULL)
        return handle_free(handle) == PI_OK || fail(run, "the handle was not freed");
    if (before != NULL) {
        old = *before;
        *before = handle;
        return handle_free(old) == PI_OK || fail(run, "the handle before was not freed");
    }
    if (run->handle_count == HANDLES) {
        (void)handle_free(handle);
        return fail(run, "too many handles");
    }
    run->handles[run->handle_count].name = name;
    run->handles[run->handle_count].handle = handle;
    run->handle_count++;
    return 1;
}

/* References */

static const json *resolve(struct run *run, const json *value);

/* What `$name.path` stands for; `path` is without its $. */
static const json *captured(struct run *run, const char *path) {
    const json *found = run->results;
    const char *at = path;
    while (found != NULL && *at != '\0') {
        char step[100];
        size_t len = strcspn(at, ".[]");
        snprintf(step, sizeof step, "%.*s", (int)len, at);
        at += len + strspn(at + len, ".[]");
        if (found->kind == JSON_ARRAY) {
            unsigned long index = strtoul(step, NULL, 10);
            found = index < found->count ? found->items[index] : NULL;
        } else {
            found = json_get(found, step);
        }
    }
    if (found == NULL)
        fail(run, "nothing was captured as $%.100s", path);
    return found;
}

/* The items of an array, {"repeat": n, "write": w} being n times w, or the fields of an object. */
static const json *resolve_items(struct run *run, const json *value) {
    json *result = value->kind == JSON_ARRAY ? json_array() : json_object();
    size_t i;
    for (i = 0; i < value->count; i++) {
        const json *repeat = value->kind == JSON_ARRAY ? json_get(value->items[i], "repeat") : NULL;
        unsigned long times = repeat == NULL ? 1 : strtoul(repeat->text, NULL, 10);
        const json *item = resolve(run, repeat == NULL ? value->items[i] : json_get(value->items[i], "write"));
        if (item == NULL)
            return NULL;
        for (; times > 0; times--)
            json_set_named(result, value->names[i], item);
    }
    return result;
}

/* The value with what was captured put in; NULL if something was not. */
static const json *resolve(struct run *run, const json *value) {
    if (value == NULL)
        return NULL;
    if (value->kind == JSON_ARRAY || value->kind == JSON_OBJECT)
        return resolve_items(run, value);
    if (value->kind != JSON_TEXT || value->len == 0 || value->text[0] != '$' || json_is(value, "$any"))
        return value;
    if (value->text[1] == '$')
        return json_text(value->text + 1, value->len - 1);
    return captured(run, value->text + 1);
}

/* Steps */

/* The field of the result, or of each of its items. */
static const json *pick(struct run *run, const json *result, const char *name) {
    json *picked;
    size_t i;
    if (result->kind != JSON_ARRAY) {
        const json *field = json_get(result, name);
        if (field == NULL)
            fail(run, "no '%.40s' to pick in %.1000s", name, json_write(result)->text);
        return field;
    }
    picked = json_array();
    for (i = 0; i < result->count; i++) {
        const json *field = json_get(result->items[i], name);
        json_add(picked, field == NULL ? json_null() : field);
    }
    return picked;
}

/* Looks at what a step that succeeded gave. */
static int judge(struct run *run, const json *step, const json *result) {
    const json *as = json_get(step, "as"), *name = json_get(step, "pick");
    const json *count = json_get(step, "count"), *expected = json_get(step, "expect");
    const json *picked = name == NULL ? result : pick(run, result, name->text);
    if (picked == NULL)
        return 0;
    if (as != NULL) {
        /* The newest stands first. */
        json *results = json_object();
        size_t i;
        json_set_named(results, as, result);
        for (i = 0; i < run->results->count; i++)
            json_set_named(results, run->results->names[i], run->results->items[i]);
        run->results = results;
    }
    if (count != NULL && (picked->kind != JSON_ARRAY || picked->count != strtoul(count->text, NULL, 10)))
        return fail(run, "gave %zu items", picked->count);
    if (expected == NULL)
        return 1;
    if ((expected = resolve(run, expected)) == NULL)
        return 0;
    return json_equal(expected, picked) || fail(run, "\n    expected %.1500s\n    but got  %.1500s",
                                                json_write(expected)->text, json_write(picked)->text);
}

/* Whether the library refused as it should. The code, the kind and the message are there together. */
static int judge_refusal(struct run *run, const json *step, int32_t code, const pi_error *error) {
    const json *kind = json_get(step, "error");
    if (error == NULL || pi_error_code(error) != code || pi_error_message(error)[0] == '\0')
        return fail(run, "refused with %d, but without its error", (int)code);
    return json_is(kind, pi_error_kind(error)) ||
           fail(run, "refused with %s: %.1000s", pi_error_kind(error), pi_error_message(error));
}

/* The context that the step asks for; *context stays NULL for the background. */
static int make_context(struct run *run, const json *step, pi_context **context) {
    const json *ctx = json_get(step, "ctx");
    if (ctx == NULL)
        return 1;
    if (pi_context_new(context, NULL) != PI_OK)
        return fail(run, "no context");
    if (json_is(ctx, "cancelled"))
        return pi_context_cancel(*context, NULL) == PI_OK || fail(run, "not cancelled");
    if (json_is(ctx, "expired"))
        return pi_context_set_timeout(*context, 0, NULL) == PI_OK || fail(run, "no deadline");
    return fail(run, "unknown ctx '%.40s'", ctx->text);
}

/* What happens in two steps happens at two times. */
static void wait_for_the_clock(void) {
    struct timespec first, now;
    (void)timespec_get(&first, TIME_UTC);
    do {
        (void)timespec_get(&now, TIME_UTC);
    } while (now.tv_sec == first.tv_sec && now.tv_nsec / 1000000 == first.tv_nsec / 1000000);
}

static int perform(struct run *run, const json *step, const char *operation, struct call *call) {
    const json *as = json_get(step, "as");
    int32_t code = call_make(operation, call);
    int held = 1;
    if (call->wrong[0] != '\0')
        held = fail(run, "%s", call->wrong);
    else if (code != PI_OK)
        held = judge_refusal(run, step, code, call->error);
    else if (call->error != NULL)
        held = fail(run, "succeeded, with an error");
    else if (json_get(step, "error") != NULL)
        held = fail(run, "not refused, gave %.1000s", json_write(call->result)->text);
    else
        held = judge(run, step, call->result);
    pi_error_free(call->error);
    if (call->made.kind == NO_HANDLE)
        return held;
    if (call->made.kind == SESSION && as == NULL)
        as = json_text("session", strlen("session"));
    return keep_handle(run, as, call->made) && held;
}

static int run_step(struct run *run, const json *step) {
    static const char *const fields[] = {"op", "on", "args", "as", "ctx", "pick", "expect", "count", "error"};
    const json *operation = json_get(step, "op"), *on = json_get(step, "on"), *args = json_get(step, "args");
    struct call call;
    pi_context *context = NULL;
    size_t i, known = 0;
    int held;
    memset(&call, 0, sizeof call);
    for (i = 0; i < sizeof fields / sizeof *fields; i++)
        known += json_get(step, fields[i]) != NULL;
    if (operation == NULL || known != step->count)
        return fail(run, "a step has an op, and no other fields than the known ones");
    if ((call.args = args == NULL ? json_object() : resolve(run, args)) == NULL)
        return 0;
    call.on = run->repository;
    if (!call_is_of_repository(operation->text)) {
        const json *name = on == NULL ? json_text("session", strlen("session")) : on;
        const struct handle *handle = find_handle(run, name);
        if (handle == NULL)
            return fail(run, "no handle '%.40s'", name->text);
        call.on = *handle;
    }
    call.result = json_null();
    wait_for_the_clock();
    held = make_context(run, step, &context);
    call.context = context;
    held = held && perform(run, step, operation->text, &call);
    (void)pi_context_free(context);
    return held;
}

/* Cases */

static int open_repository(struct run *run, const json *test, const char *uri) {
    pi_repository_options options;
    pi_error *error = NULL;
    const json *limit = json_get(test, "maxPayload");
    pi_repository_options_init(&options, sizeof options);
    options.durability = PI_DURABILITY_PROCESS;
    if (limit != NULL)
        options.max_payload = strtoull(limit->text, NULL, 10);
    if (pi_repository_open(uri, PI_NUL, &options, &run->repository.repository, NULL, &error) != PI_OK) {
        fail(run, "%s", pi_error_message(error));
        pi_error_free(error);
        return 0;
    }
    run->repository.kind = REPOSITORY;
    return 1;
}

/* Closes and frees everything; then nothing of the library may be left. */
static int close_all(struct run *run) {
    pi_error *error = NULL;
    int held = 1;
    size_t i;
    for (i = 0; i < run->handle_count; i++)
        if (run->handles[i].handle.kind == MUTATION && pi_mutation_end(run->handles[i].handle.mutation, NULL) != PI_OK)
            held = fail(run, "a mutation did not end");
    if (pi_repository_close(run->repository.repository, NULL, &error) != PI_OK)
        held = fail(run, "the repository did not close: %s", pi_error_message(error));
    pi_error_free(error);
    for (i = 0; i < run->handle_count; i++)
        if (handle_free(run->handles[i].handle) != PI_OK)
            held = fail(run, "a handle was not freed");
    if (handle_free(run->repository) != PI_OK)
        held = fail(run, "the repository was not freed");
    if (pi_debug_live_handles() != 0)
        held = fail(run, "%zu things of the library were left", pi_debug_live_handles());
    return held;
}

static int run_case(const char *file, const json *test, const char *kind, const char *uri) {
    static struct run run;
    const json *steps = json_get(test, "steps"), *name = json_get(test, "name");
    size_t number = 0;
    int held;
    memset(&run, 0, sizeof run);
    run.results = json_object();
    if (!open_repository(&run, test, uri)) {
        printf("FAILED %s: %s [%s]: %s\n", file, name->text, kind, run.failure);
        return 0;
    }
    for (held = 1; held && number < steps->count; number++)
        held = run_step(&run, steps->items[number]);
    if (!held)
        printf("FAILED %s: %s [%s], step %zu: %s\n    %.2000s\n", file, name->text, kind, number, run.failure,
               json_write(steps->items[number - 1])->text);
    if (!close_all(&run) && held) {
        printf("FAILED %s: %s [%s], at the end: %s\n", file, name->text, kind, run.failure);
        held = 0;
    }
    return held;
}

struct counts {
    int passed, failed;
};

static void run_cases(const char *folder, const char *file, const json *cases, struct counts *counts) {
    size_t i;
    int kind;
    for (i = 0; i < cases->count; i++) {
        const json *test = cases->items[i];
        if (json_get(test, "name") == NULL || json_get(test, "steps") == NULL) {
            printf("FAILED %s: case %zu has no name or no steps\n", file, i + 1);
            counts->failed++;
            continue;
        }
        for (kind = 0; kind < KINDS; kind++) {
            char uri[1000];
            make_uri(uri, sizeof uri, kind, folder);
            if (run_case(file, test, KIND_NAMES[kind], uri))
                counts->passed++;
            else
                counts->failed++;
        }
    }
}

/* The text of a file, to be freed; NULL if it cannot be read. */
static char *read_file(const char *path, size_t *len) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *len = 0;
    while (file != NULL && !feof(file) && !ferror(file)) {
        char *longer = realloc(text, *len + 65536);
        if (longer == NULL)
            break;
        text = longer;
        *len += fread(text + *len, 1, 65536, file);
    }
    if (file != NULL && (ferror(file) || !feof(file))) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

static void run_file(const char *folder, const char *path, struct counts *counts) {
    const char *slash = strrchr(path, '/'), *file = slash == NULL ? path : slash + 1;
    size_t len, offset = 0;
    char *text = read_file(path, &len);
    const json *table = text == NULL ? NULL : json_parse(text, len, &offset);
    const json *cases = json_get(table, "cases");
    if (cases != NULL && cases->kind == JSON_ARRAY && cases->count > 0) {
        run_cases(folder, file, cases, counts);
    } else {
        printf("FAILED %s: %s, byte %zu\n", file, table == NULL ? "cannot be read as JSON" : "has no cases", offset);
        counts->failed++;
    }
    free(text);
    json_release();
}

int main(int argc, char **argv) {
    struct counts counts = {0, 0};
    int i;
    if (argc < 3) {
        fprintf(stderr, "usage: runner FOLDER CASES.json ...\n");
        return 2;
    }
    for (i = 2; i < argc; i++)
        run_file(argv[1], argv[i], &counts);
    printf("%d passed, %d failed\n", counts.passed, counts.failed);
    return counts.failed != 0;
}

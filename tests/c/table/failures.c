/*
 * Every function with every argument spoiled in turn, in sessions of several states. What fails is called again,
 * 20,000 times in all: it fails as it did, and nothing is left behind.
 */
#include <unistd.h>

#include "table.h"

enum { FAILURES = 20000, MOST = 20000, GROWTH = 1 << 20 };

/* The states of the session that a call is made in. */
enum { IN_MUTATION, IDLE, READING, CLOSED, STATES };

static struct live live[STATES], freed;
static pi_context *cancelled, *expired;

static int32_t given_pi_mutate_function(pi_mutation *mutation, const pi_context *context, void *user_data,
                                        pi_error **error) {
    (void)mutation, (void)context, (void)user_data, (void)error;
    return -2000;
}

static void given_pi_drop_function(void *user_data) { (void)user_data; }

static void given_pi_set_log_function(int64_t level, const char *line, size_t line_len, void *user_data) {
    (void)level, (void)line, (void)line_len, (void)user_data;
}

static void given_pi_set_log_drop(void *user_data) { (void)user_data; }

static void put(unsigned char *options, size_t offset, const void *value, size_t size) {
    memcpy(options + offset, value, size);
}

/* Options with one thing wrong; 0 when there is no such thing. */
static int spoil_options(const struct structure *structure, unsigned char *options, size_t spoil) {
    static const char *const not_utf8 = "\xff";
    const size_t sizes[] = {0, SIZE_MAX, structure->size + 8};
    const int64_t wrong = 99;
    const struct field *field;

    memset(options, 0, structure->size + 8);
    if (spoil < 3) {
        put(options, 0, &sizes[spoil], sizeof sizes[0]);
        options[structure->size] = (unsigned char)(spoil == 2);
        return 1;
    }
    put(options, 0, &structure->size, sizeof structure->size);
    if (spoil - 3 >= structure->count)
        return 0;
    field = &structure->fields[spoil - 3];
    if (field->kind == TEXT) {
        const size_t length = 1;
        put(options, field->offset, &not_utf8, sizeof not_utf8);
        put(options, field->offset + sizeof not_utf8, &length, sizeof length);
    } else if (field->kind == NUMBER) {
        put(options, field->offset, &wrong, sizeof wrong);
    } else if (field->kind == HANDLE) {
        put(options, field->offset, &freed.of[field->about], sizeof(void *));
    }
    return 1;
}

/* Spoils the argument in one more way; 0 when there is none. */
static int spoil(const struct function *function, size_t at, size_t way, union argument *arguments) {
    static const struct {
        const char *data;
        size_t length;
    } texts[] = {{NULL, 0}, {NULL, 5}, {"\xff", 1}, {"{}", SIZE_MAX - 1}, {"", 0}, {"a\0b", 3}, {"{", PI_NUL}, {"absent", PI_NUL}};
    static const char *none[1];
    static pi_cell cell;
    static unsigned char options[1024];
    const struct parameter *parameter = &function->parameters[at];
    const int is_close = ends_with(function->name, "_close");

    switch (parameter->kind) {
    case HANDLE:
        arguments[at].pointer = way == 1 ? NULL : freed.of[parameter->about];
        if (parameter->about == TYPE_pi_context && at > 0) {
            arguments[at].pointer = way == 0 ? freed.of[TYPE_pi_context] : way == 1 ? (void *)cancelled : (void *)expired;
            return way < (is_close ? 1 : 3);
        }
        return way < 2 && !(way == 1 && strcmp(function->name, "pi_debug_panic") == 0);
    case TEXT:
        if (way >= sizeof texts / sizeof texts[0])
            return 0;
        arguments[at].pointer = (void *)(uintptr_t)texts[way].data;
        arguments[at + 1].number = texts[way].length;
        return 1;
    case TEXTS:
        arguments[at].pointer = way == 0 ? NULL : none;
        arguments[at + 2].number = way == 2 ? SIZE_MAX / 4 : 1;
        return way < 3;
    case CELLS:
        memset(&cell, 0, sizeof cell);
        cell.type = way == 1 ? 99 : PI_CELL_TEXT;
        arguments[at].pointer = way == 0 ? NULL : &cell;
        arguments[at + 1].number = way == 3 ? SIZE_MAX / 2 : 1;
        return way < 4;
    case OPTIONS:
        arguments[at].pointer = options;
        return !ends_with(function->name, "_init") && spoil_options(&STRUCTURES[parameter->about], options, way);
    case OUT:
    case VIEW:
    case OUT_NUMBER:
        arguments[at].pointer = NULL;
        return way == 0 && !is_close;
    case OBJECT:
        arguments[at].pointer = NULL;
        return way == 0;
    case FUNCTION:
        arguments[at].number = 0;
        return way == 0;
    case NUMBER:
        arguments[at].number = 99;
        return way == 0 && strcmp(function->name, "pi_context_set_timeout") != 0;
    default:
        return 0;
    }
}

/* A call that fails. */
static struct attempt {
    const struct function *function;
    size_t at, way;
    int state;
    int64_t code;
} attempts[MOST];

static size_t attempts_count;

static int64_t try(const struct attempt *attempt, int with_error) {
    static struct room room;
    union argument arguments[MOST_PARAMETERS];
    const struct function *function = attempt->function;
    const size_t failure = function->count - 1;
    int64_t code;
    size_t at;

    good_arguments(function, &live[attempt->state], &room, arguments);
    if (attempt->at < function->count)
        spoil(function, attempt->at, attempt->way, arguments);
    if (!with_error)
        arguments[failure].pointer = NULL;
    code = function->call(arguments);
    if (code < 0) {
        check_failure(function, code, &room, arguments);
        return code;
    }
    for (at = 0; at < function->count; at++)
        if (function->parameters[at].kind == OUT && arguments[at].pointer != NULL)
            CHECK(TYPE[function->parameters[at].about].free(room.out[at]) == PI_OK);
    CHECK(code == PI_OK && (!with_error || room.out[failure] == NULL));
    return code;
}

static int note(struct attempt attempt) {
    attempt.code = try(&attempt, 1);
    CHECK(attempt.code != PI_PANIC);
    if (attempt.code == PI_OK)
        return 0;
    CHECK(attempts_count < MOST);
    attempts[attempts_count++] = attempt;
    return 1;
}

/* Finds what fails; every function that can must. */
static void find_failures(void) {
    size_t index;
    for (index = 0; index < FUNCTIONS_COUNT; index++) {
        const struct function *function = &FUNCTIONS[index];
        struct attempt attempt = {function, 0, 0, 0, 0};
        union argument arguments[MOST_PARAMETERS] = {{NULL}};
        int failed = 0;

        if (function->count == 0 || function->parameters[function->count - 1].kind != FAILURE)
            continue;
        for (attempt.state = 0; attempt.state < STATES; attempt.state++) {
            for (attempt.at = 0; attempt.at < function->count; attempt.at++)
                for (attempt.way = 0; spoil(function, attempt.at, attempt.way, arguments); attempt.way++)
                    failed += note(attempt);
            /* Nothing spoiled but the state. */
            if (attempt.state == CLOSED && !ends_with(function->name, "_close") &&
                strcmp(function->name, "pi_debug_panic") != 0 && strcmp(function->name, "pi_context_cancel") != 0 &&
                strcmp(function->name, "pi_context_set_timeout") != 0)
                failed += note(attempt);
        }
        if (failed == 0)
            fprintf(stderr, "no call of %s failed\n", function->name);
        CHECK(failed > 0);
    }
}

/* Drops what fails otherwise the second time: a cursor that failed has ended, a file is there that was not. */
static void settle(void) {
    size_t index, kept = 0;
    for (index = 0; index < attempts_count; index++)
        if (try(&attempts[index], 1) == attempts[index].code)
            attempts[kept++] = attempts[index];
    CHECK(kept > attempts_count * 9 / 10);
    attempts_count = kept;
}

static long resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, all = 0;
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static long repeat(long failures) {
    size_t index, before = pi_debug_live_handles();
    long done = 0;

    while (done < failures) {
        for (index = 0; index < attempts_count; index++) {
            const struct attempt *attempt = &attempts[index];
            int64_t code = try(attempt, (int)(done & 1));
            if (code != attempt->code)
                fprintf(stderr, "%s: %ld, and %ld before\n", attempt->function->name, (long)code, (long)attempt->code);
            CHECK(code == attempt->code);
            done++;
        }
    }
    CHECK(pi_debug_live_handles() == before);
    return done;
}

int main(int argc, char **argv) {
    pi_session *reader = NULL;
    pi_error *log_error = NULL;
    long before;
    int state;

    CHECK(argc == 2);
    freed = make_live(argv[1], "freed");
    free_live(&freed);
    live[IN_MUTATION] = make_live(argv[1], "in a mutation");
    live[IDLE] = make_live(argv[1], "idle");
    live[READING] = make_live(argv[1], "read");
    live[CLOSED] = make_live(argv[1], "closed");
    for (state = IDLE; state < STATES; state++) {
        CHECK(pi_mutation_free(live[state].of[TYPE_pi_mutation]) == PI_OK);
        live[state].of[TYPE_pi_mutation] = freed.of[TYPE_pi_mutation];
    }
    OK(pi_session_open_read_only(live[READING].of[TYPE_pi_repository], "read", PI_NUL, &reader, NULL, &error));
    CHECK(pi_session_free(live[READING].of[TYPE_pi_session]) == PI_OK);
    live[READING].of[TYPE_pi_session] = reader;
    OK(pi_session_close(live[CLOSED].of[TYPE_pi_session], NULL, &error));
    OK(pi_context_new(&cancelled, &error));
    OK(pi_context_cancel(cancelled, &error));
    OK(pi_context_new(&expired, &error));
    OK(pi_context_set_timeout(expired, 0, &error));

    find_failures();
    settle();
    repeat(FAILURES / 4);
    before = resident();
    CHECK(repeat(FAILURES) >= FAILURES);
    if (resident() - before > GROWTH)
        fprintf(stderr, "%ld bytes came in %d failing calls\n", resident() - before, FAILURES);
    CHECK(resident() - before <= GROWTH);

    CHECK(pi_set_log(PI_LOG_OFF, NULL, NULL, NULL, &log_error) == PI_OK);
    CHECK(pi_context_free(cancelled) == PI_OK && pi_context_free(expired) == PI_OK);
    for (state = 0; state < STATES; state++) {
        if (state != IN_MUTATION)
            live[state].of[TYPE_pi_mutation] = NULL;
        free_live(&live[state]);
    }
    CHECK(pi_debug_live_handles() == 0);
    return 0;
}

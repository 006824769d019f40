/*
 * Calls every function in any order with arguments of any kind that the contract says are checked: texts, lengths,
 * JSON, ids, options of every size, handles that are any number. No call crashes, hangs or panics, every output is
 * written, and nothing is left at the end.
 *
 * Takes a seed and a number of calls; one seed is one run. Works in the current folder.
 */
#include <unistd.h>

#include "table.h"

enum { POOL = 6, OBJECTS = 4 };

static uint64_t state;

/* xorshift64*, of S. Vigna. */
static uint64_t draw(uint64_t below) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * UINT64_C(2685821657736338717) >> 11) % below;
}

/* Handles that were given out, alive or not; plain pointers that are alive. */
static void *pool[TYPES][POOL];
static long drops, given;

/* What one call is given is kept in blocks of exactly its size, so that reading past one is found. */
static void *blocks[256];
static size_t blocks_count;

static void *block(const void *data, size_t size) {
    void *made = malloc(size == 0 ? 1 : size);
    CHECK(made != NULL && blocks_count < sizeof blocks / sizeof blocks[0]);
    if (data != NULL)
        memcpy(made, data, size);
    else
        memset(made, 0, size);
    return blocks[blocks_count++] = made;
}

static void free_blocks(size_t down_to) {
    while (blocks_count > down_to)
        free(blocks[--blocks_count]);
}

/* No text leads out of the current folder: there is no slash, and no dot but in the middle of these. */
static const char *const WORDS[] = {
    "", "x", "main", "app", "count", "{}", "[]", "1", "null", "\"text\"", "1e999", "{\"role\":\"user\"}",
    "{\"role\":\"assistant\",\"stopReason\":\"pending\"}", "{\"role\":", "{\"a\":1,\"a\":2}", "\"\\ud800\"",
    "message", "custom", "compaction", "branch_summary", "pi", "pi.branch.tip", "pi.session.name", "pi.entry.label",
    "pi.lane.config", "\xff\xfe", "\xed\xa0\x80", "\xf4\x90\x80\x80", "memory:", "memory:x", "sqlite:files",
    "sqlite:all.sqlite", "jsonl:lines", "jsonl:", "SELECT 1", "SELECT * FROM entry", "SELECT ?1, ?2", "DROP TABLE entry",
    "SELECT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "{\"id\":\"e\",\"parentId\":null,\"type\":\"message\",\"message\":{\"role\":\"user\"}}",
    "{\"usage\":{\"input\":1,\"output\":1},\"adjustment\":true}", "a.jsonl", "b.sqlite"};

/* What a parameter of that name, or whose name ends so, takes. */
static const struct {
    const char *name;
    const char *words[4];
} FITTING[] = {
    {"name_space", {"app", "app", "x", "pi.branch.tip"}},
    {"key", {"count", "count", "", "main"}},
    {"key_prefix", {"", "c", "count", "m"}},
    {"uri", {"memory:", "sqlite:files", "sqlite:all.sqlite", "jsonl:lines"}},
    {"path", {"a.jsonl", "b.sqlite", "c.jsonl", "d.sqlite"}},
    {"sql", {"SELECT 1", "SELECT * FROM entry", "SELECT key, value FROM value", "SELECT ?1"}},
    {"traceparent", {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-1-2-3", "", "x"}},
    {"message", {"{\"role\":\"user\"}", "{\"role\":\"assistant\",\"stopReason\":\"stop\"}", "{}", "[]"}},
    {"value", {"1", "{\"a\":[1,2]}", "null", "\"main\""}},
    {"element", {"1", "{\"a\":[1,2]}", "null", "\"main\""}},
    {"data", {"1", "{\"a\":[1,2]}", "null", "\"main\""}},
    {"entry", {"{\"id\":\"e\",\"parentId\":null,\"type\":\"message\",\"message\":{\"role\":\"user\"}}",
               "{\"id\":\"f\",\"parentId\":\"e\",\"type\":\"custom\",\"customType\":\"x\"}",
               "{\"id\":\"g\",\"parentId\":\"e\",\"type\":\"message\",\"message\":{}}", "{}"}},
    {"row", {"{\"id\":\"u\",\"usage\":{\"input\":1,\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":2,\"cost\":"
             "{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0}},\"adjustment\":true}",
             "{\"id\":\"v\",\"usage\":{},\"adjustment\":true}", "{}", "[]"}},
    {"type", {"message", "custom", "compaction", "branch_summary"}},
    {"custom_type", {"x", "y", "note", "count"}},
    {"branch", {"main", "main", "x", "other"}},
    {"name", {"main", "x", "other", "main"}}};

/* A word that fits, or the id of a session or entry that is there. */
static void fitting_text(const char *name, char *text, size_t *size) {
    const pi_entries *entries = pool[TYPE_pi_entries][draw(OBJECTS)];
    const char *word = "";
    pi_metadata metadata;
    pi_entry entry;
    size_t at;

    for (at = 0; at < sizeof FITTING / sizeof FITTING[0]; at++)
        if (strcmp(name, FITTING[at].name) == 0)
            word = FITTING[at].words[draw(4)];
    if (*word == '\0' && draw(2) && pi_entries_get(entries, draw(3), &entry, sizeof entry) == PI_OK)
        word = entry.id;
    else if (*word == '\0' && draw(2) &&
             pi_session_metadata(pool[TYPE_pi_session][draw(POOL)], &metadata, sizeof metadata, NULL) == PI_OK)
        word = metadata.id;
    *size = strlen(word) < 1024 ? strlen(word) : 1024;
    memcpy(text, word, *size);
}

static void *any_text(const char *name, uint64_t *length) {
    char text[4096];
    size_t size = 0, at;
    const char *word;

    switch (draw(16)) {
    case 0: /* any bytes */
        size = draw(40);
        for (at = 0; at < size; at++)
            text[at] = (char)draw(256);
        break;
    case 1: /* long, or deep */
        size = draw(sizeof text - 1);
        memset(text, draw(2) ? '[' : 'a', size);
        break;
    case 2:
    case 3:
        word = WORDS[draw(sizeof WORDS / sizeof WORDS[0])];
        size = strlen(word);
        memcpy(text, word, size);
        if (size > 0 && draw(3) == 0)
            text[draw(size)] = (char)draw(256);
        break;
    default:
        fitting_text(name, text, &size);
    }
    for (at = 0; at < size; at++)
        if (text[at] == '/' || (text[at] == '.' && (at == 0 || at + 1 == size || text[at + 1] == '.')))
            text[at] = '_';
    switch (draw(24)) {
    case 0: /* none */
        *length = draw(2) ? 0 : draw(2) ? PI_NUL : size;
        return NULL;
    case 1: /* a length that no text has */
        *length = UINT64_MAX - 1 - draw(1000);
        return block(text, size);
    case 2: /* shorter than it is */
        *length = draw(size + 1);
        return block(text, size);
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        text[size] = '\0';
        *length = PI_NUL;
        return block(text, size + 1);
    default:
        *length = size;
        return block(text, size);
    }
}

static uint64_t any_number(void) {
    static const uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 10, 1000, 99, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    return numbers[draw(draw(3) ? 4 : sizeof numbers / sizeof numbers[0])];
}

static void *any_handle(int type) {
    switch (draw(48)) {
    case 0: return NULL;
    case 1: return (void *)(uintptr_t)any_number();
    case 2: return (void *)(uintptr_t)(draw(UINT64_C(1) << 53) * 2048 + draw(2048));
    case 3: /* of another type */
        do
            type = (int)draw(TYPES);
        while (!TYPE[type].is_handle);
        return pool[type][draw(POOL)];
    case 4: /* near one */
        return (void *)((uintptr_t)pool[type][draw(POOL)] ^ (uintptr_t)1 << draw(64));
    default: return pool[type][draw(POOL)];
    }
}

static void tell(uint64_t done, uint64_t all, void *user_data) {
    CHECK(user_data == NULL && (all == 0 || done <= all));
}

static const pi_progress_function progress = tell;

static void *any_options(const struct structure *structure) {
    unsigned char *options, *made;
    size_t size = structure->size, at;
    uint64_t length, number;

    if (draw(3) == 0)
        return NULL;
    options = block(NULL, structure->size + 64);
    for (at = 0; at < structure->count; at++) {
        const struct field *field = &structure->fields[at];
        void *pointer;
        if (draw(2) == 0)
            continue;
        switch (field->kind) {
        case TEXT:
            pointer = any_text(field->name, &length);
            memcpy(options + field->offset, &pointer, sizeof pointer);
            memcpy(options + field->offset + sizeof pointer, &length, sizeof length);
            break;
        case NUMBER:
            number = draw(4) ? draw(3) : any_number();
            memcpy(options + field->offset, &number, sizeof number);
            break;
        case NUMBER_OR_NULL:
            number = any_number();
            pointer = draw(2) ? block(&number, sizeof number) : NULL;
            memcpy(options + field->offset, &pointer, sizeof pointer);
            break;
        case HANDLE:
            pointer = any_handle(field->about);
            memcpy(options + field->offset, &pointer, sizeof pointer);
            break;
        case FUNCTION:
            /* The one kind of callback that options have. */
            memcpy(options + field->offset, &progress, sizeof progress);
            break;
        default:
            break;
        }
    }
    switch (draw(16)) {
    case 0: size = draw(structure->size + 1); break;
    case 1: size = structure->size + draw(64); break;
    case 2: size = structure->size + 8; options[structure->size + draw(8)] = 1; break;
    default: break;
    }
    number = draw(30) == 0 ? (draw(2) ? UINT64_MAX : (uint64_t)INT64_MAX + 1 + draw(9)) : size;
    memcpy(options, &number, sizeof number);
    /* A block of the size that is told, which is never less than the size itself. */
    made = block(NULL, size < sizeof number ? sizeof number : size);
    memcpy(made, options, size < sizeof number ? sizeof number : size);
    return made;
}

static void *any_texts(uint64_t *count, void **lengths) {
    void *texts[3];
    uint64_t lens[3], at, size = draw(4);

    for (at = 0; at < size; at++) {
        texts[at] = any_text("id", &lens[at]);
        if (lens[at] == PI_NUL && texts[at] == NULL)
            lens[at] = 0;
    }
    *count = draw(10) == 0 ? UINT64_MAX / 8 + draw(2) : size;
    *lengths = block(lens, size * sizeof lens[0]);
    return draw(10) == 0 ? NULL : block(texts, size * sizeof texts[0]);
}

static void *any_cells(uint64_t *count) {
    pi_cell cells[3];
    uint64_t at, length, size = draw(4);

    memset(cells, 0, sizeof cells);
    for (at = 0; at < size; at++) {
        cells[at].type = (int64_t)draw(6);
        cells[at].integer = (int64_t)any_number();
        cells[at].data = any_text("key", &length);
        cells[at].data_len = (size_t)length;
    }
    *count = draw(10) == 0 ? UINT64_MAX / sizeof cells[0] + draw(2) : size;
    return draw(10) == 0 ? NULL : block(cells, size * sizeof cells[0]);
}

static void keep(int type, void *pointer) {
    void **slot = &pool[type][draw(TYPE[type].is_handle ? POOL : OBJECTS)];
    /* The number of what is freed here comes again in later calls. */
    int32_t code = TYPE[type].free(*slot);
    CHECK(code == PI_OK || code == PI_MISUSE);
    *slot = pointer;
}

static int depth;

/* How often each function was right. */
static long right[FUNCTIONS_COUNT];

static void one_call(void) {
    const size_t number = draw(FUNCTIONS_COUNT);
    const struct function *function = &FUNCTIONS[number];
    union argument arguments[MOST_PARAMETERS];
    struct room *room;
    size_t at, blocks_before = blocks_count;
    int64_t result;
    void *lengths = NULL;

    /* A plain pointer is freed once, by the pool. */
    if (ends_with(function->name, "_free") && !TYPE[function->parameters[0].about].is_handle)
        return;
    /* These leave nothing to work on; some will do. */
    if ((ends_with(function->name, "_close") || strcmp(function->name, "pi_debug_panic") == 0) && draw(20) != 0)
        return;
    if (ends_with(function->name, "_free") && draw(4) != 0)
        return;
    room = block(NULL, sizeof *room);
    memset(room, 0xA5, sizeof *room);
    memset(arguments, 0, sizeof arguments);
    for (at = 0; at < function->count; at++) {
        const struct parameter *parameter = &function->parameters[at];
        switch (parameter->kind) {
        case HANDLE:
            arguments[at].pointer = parameter->about == TYPE_pi_context && at > 0 && draw(10) ? NULL : any_handle(parameter->about);
            break;
        case OBJECT:
            arguments[at].pointer = draw(20) == 0 ? NULL : pool[parameter->about][draw(OBJECTS)];
            break;
        case OUT:
        case FAILURE:
            arguments[at].pointer = draw(30) == 0 ? NULL : &room->out[at];
            break;
        case OUT_NUMBER:
            arguments[at].pointer = draw(30) == 0 ? NULL : &room->number[at];
            break;
        case TEXT:
            arguments[at].pointer = any_text(parameter->name, &arguments[at + 1].number);
            break;
        case TEXTS:
            arguments[at].pointer = any_texts(&arguments[at + 2].number, &lengths);
            arguments[at + 1].pointer = lengths;
            break;
        case CELLS:
            arguments[at].pointer = any_cells(&arguments[at + 1].number);
            break;
        case OPTIONS:
            if (ends_with(function->name, "_init"))
                arguments[at].pointer = draw(8) == 0 ? NULL : room->view[at];
            else
                arguments[at].pointer = any_options(&STRUCTURES[parameter->about]);
            break;
        case VIEW:
            arguments[at].pointer = draw(30) == 0 ? NULL : room->view[at];
            break;
        case SIZE:
            arguments[at].number = arguments[at - 1].pointer == NULL ? any_number() : draw(3) ? sizeof room->view[at] : draw(sizeof room->view[at] + 1);
            break;
        case NUMBER:
            arguments[at].number = any_number();
            break;
        case FUNCTION:
            arguments[at].number = draw(8) != 0;
            given += arguments[at].number && strstr(parameter->name, "drop") != NULL;
            break;
        default:
            break;
        }
    }

    result = function->call(arguments);
    right[number] += function->result != CODE || result == PI_OK;

    if (function->result == CODE && result == PI_PANIC)
        CHECK(strcmp(function->name, "pi_debug_panic") == 0);
    if (function->result == CODE && result < 0 && function->count > 0 &&
        function->parameters[function->count - 1].kind == FAILURE) {
        check_failure(function, result, room, arguments);
    } else {
        for (at = 0; at < function->count; at++) {
            const struct parameter *parameter = &function->parameters[at];
            if (arguments[at].pointer == NULL)
                continue;
            if (parameter->kind == FAILURE)
                CHECK(room->out[at] == NULL);
            if (parameter->kind == OUT && room->out[at] != NULL)
                keep(parameter->about, room->out[at]);
        }
    }
    free_blocks(blocks_before);
}

/* Keeps something alive to work on. */
static void replenish(void) {
    static const char *const uris[] = {"memory:", "sqlite:files", "sqlite:all.sqlite", "jsonl:lines"};
    pi_repository *repository = NULL;
    pi_session *session = NULL;
    pi_branch *branch = NULL;
    pi_context *context = NULL;
    pi_entries *entries = NULL;

    repository = open_quick(uris[draw(4)]);
    OK(pi_session_create(repository, NULL, &session, NULL, &error));
    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_branch_append_message(branch, "{\"role\":\"user\"}", PI_NUL, NULL, NULL, &error));
    OK(pi_branch_find_entries(branch, NULL, &entries, NULL, &error));
    OK(pi_session_set_value(session, "app", 3, "count", 5, "1", 1, NULL, &error));
    OK(pi_session_append_list(session, "app", 3, "count", 5, "1", 1, NULL, &error));
    OK(pi_context_new(&context, &error));
    keep(TYPE_pi_entries, entries);
    keep(TYPE_pi_repository, repository);
    keep(TYPE_pi_session, session);
    keep(TYPE_pi_branch, branch);
    keep(TYPE_pi_context, context);
    /* An open mutation makes every writer of its session on this thread fail. */
    keep(TYPE_pi_mutation, NULL);
}

static int32_t given_pi_mutate_function(pi_mutation *mutation, const pi_context *context, void *user_data,
                                        pi_error **error) {
    uint64_t calls = depth == 0 ? draw(8) : 0;
    (void)mutation, (void)context, (void)user_data;
    CHECK(error != NULL && *error == NULL);
    depth++;
    while (calls-- > 0)
        one_call();
    depth--;
    return draw(3) ? PI_OK : draw(2) ? -2000 : 1;
}

static void given_pi_drop_function(void *user_data) {
    CHECK(user_data == NULL);
    drops++;
}

static void given_pi_set_log_function(int64_t level, const char *line, size_t line_len, void *user_data) {
    (void)user_data;
    CHECK(level > PI_LOG_OFF && level <= PI_LOG_TRACE && strlen(line) <= line_len);
}

static void given_pi_set_log_drop(void *user_data) {
    CHECK(user_data == NULL);
    drops++;
}

int main(int argc, char **argv) {
    size_t function, worked = 0;
    long call, calls;
    int type, slot;

    CHECK(argc == 3);
    state = strtoull(argv[1], NULL, 10) * 2 + 1;
    calls = atol(argv[2]);
    /* A hang is a failure too. */
    alarm(60 + (unsigned)(calls / 200));
    for (call = 0; call < calls; call++) {
        if (call % 32 == 0)
            replenish();
        one_call();
    }
    OK(pi_set_log(PI_LOG_OFF, NULL, NULL, NULL, &error));
    CHECK(drops == given);
    /* Arguments are not all refused: most functions did what they are for, too. */
    for (function = 0; function < FUNCTIONS_COUNT; function++)
        worked += right[function] > 0;
    CHECK(calls < 3000 || worked > (size_t)FUNCTIONS_COUNT / 2);
    for (type = 0; type < TYPES; type++)
        for (slot = 0; slot < POOL; slot++) {
            int32_t code = TYPE[type].free(pool[type][slot]);
            CHECK(code == PI_OK || code == PI_MISUSE);
        }
    /* What a call gave and the pool did not keep was freed by number. */
    CHECK(pi_debug_live_handles() == 0);
    return 0;
}

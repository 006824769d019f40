/*
 * Every function, at each place where it takes a handle, with everything that is no live handle of that type:
 * PI_MISUSE, outputs cleared, nothing done.
 */
#include "table.h"

static int32_t given_pi_mutate_function(pi_mutation *mutation, const pi_context *context, void *user_data,
                                        pi_error **error) {
    (void)mutation, (void)context, (void)user_data, (void)error;
    CHECK(!"a function ran in a mutation that was refused");
    return PI_OK;
}

static void given_pi_drop_function(void *user_data) { (void)user_data; }

static void given_pi_set_log_function(int64_t level, const char *line, size_t line_len, void *user_data) {
    (void)level, (void)line, (void)line_len, (void)user_data;
}

static void given_pi_set_log_drop(void *user_data) { (void)user_data; }

static long calls;

static void refuses(const struct function *function, size_t at, const struct live *live, void *wrong) {
    union argument arguments[MOST_PARAMETERS];
    struct room room;
    int64_t result;
    size_t before = pi_debug_live_handles();

    good_arguments(function, live, &room, arguments);
    arguments[at].pointer = wrong;
    result = function->call(arguments);
    calls++;
    if (function->result == CODE) {
        if (result != PI_MISUSE)
            fprintf(stderr, "%s, parameter %s, %p: %ld\n", function->name, function->parameters[at].name, wrong,
                    (long)result);
        CHECK(result == PI_MISUSE);
        check_failure(function, result, &room, arguments);
    } else {
        CHECK(function->result == BORROWED && result == 0);
    }
    CHECK(pi_debug_live_handles() == before);
}

/* NULL is a context, the session of a panic in none, and what _free does nothing for. */
static int may_be_null(const struct function *function, const struct parameter *parameter) {
    return parameter->about == TYPE_pi_context ? !(function->parameters == parameter)
                                               : strcmp(function->name, "pi_debug_panic") == 0;
}

static void every_place(const struct function *function, const struct live *live, const struct live *freed) {
    static const uint64_t numbers[] = {1, 8, 4096, UINT64_MAX, UINT64_C(0xD700000000000000), UINT64_C(0xD7FFFFFFFFFFFFFF)};
    size_t at, number;
    int type;

    for (at = 0; at < function->count; at++) {
        const struct parameter *parameter = &function->parameters[at];
        if (parameter->kind != HANDLE)
            continue;
        if (!ends_with(function->name, "_free") && !may_be_null(function, parameter))
            refuses(function, at, live, NULL);
        for (type = 0; type < TYPES; type++) {
            if (TYPE[type].is_handle && type != parameter->about)
                refuses(function, at, live, live->of[type]);
            if (TYPE[type].is_handle)
                refuses(function, at, live, freed->of[type]);
        }
        for (number = 0; number < sizeof numbers / sizeof numbers[0] - 2; number++)
            refuses(function, at, live, (void *)(uintptr_t)numbers[number]);
        /* The form of a handle, of a generation that no slot has reached. */
        refuses(function, at, live, (void *)(uintptr_t)(numbers[4] | UINT64_C(0x7FFFFFFF) << 24));
        refuses(function, at, live, (void *)(uintptr_t)numbers[5]);
        /* A plain pointer, and one into a handle's neighbourhood. */
        refuses(function, at, live, live->of[TYPE_pi_buf]);
        refuses(function, at, live, (void *)((uintptr_t)live->of[parameter->about] ^ 1 << 20));
    }
}

/* What is left alive works still. */
static void still_works(const struct live *live) {
    pi_buf *id = NULL;
    pi_metadata metadata;
    pi_stats stats;

    OK(pi_branch_tip_id(live->of[TYPE_pi_branch], &id, live->of[TYPE_pi_context], &error));
    CHECK(id != NULL);
    pi_buf_free(id);
    OK(pi_session_metadata(live->of[TYPE_pi_session], &metadata, sizeof metadata, &error));
    OK(pi_mutation_stats(live->of[TYPE_pi_mutation], &stats, sizeof stats, NULL, &error));
    CHECK(stats.message_count == 1);
}

int main(int argc, char **argv) {
    struct live freed, live;
    size_t function;

    CHECK(argc == 2);
    freed = make_live(argv[1], "freed");
    free_live(&freed);
    CHECK(pi_debug_live_handles() == 0);
    live = make_live(argv[1], "live");
    for (function = 0; function < FUNCTIONS_COUNT; function++)
        every_place(&FUNCTIONS[function], &live, &freed);
    still_works(&live);
    free_live(&live);
    CHECK(pi_debug_live_handles() == 0);
    CHECK(calls > 2000);
    return 0;
}

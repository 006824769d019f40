/* A damaged file gives a sound session, and sessions go to another repository as they are, once. */
#include <unistd.h>

#include "check.h"

static char path[] = "/tmp/pisession-care-XXXXXX";

static uint64_t told;

static void tell(uint64_t done, uint64_t all, void *user_data) {
    (void)all;
    CHECK(user_data == &told);
    told += done > 0;
}

static void close_and_free(pi_session *session) {
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
}

static void sessions_are_converted_once(pi_repository *repository, pi_session *session) {
    pi_repository *into = open_quick("memory:"), *all = open_quick("memory:");
    pi_convert_options options;
    pi_conversions *conversions = DIRTY;
    pi_conversion conversion;
    pi_session *copy = NULL;
    uint64_t made = 7;
    int64_t round;

    pi_convert_options_init(&options, sizeof options);
    options.progress = tell;
    options.user_data = &told;
    OK(pi_session_convert(session, into, &options, &made, NULL, &error));
    CHECK(made == 1);
    OK(pi_session_convert(session, into, NULL, &made, NULL, &error));
    CHECK(made == 0);
    OK(pi_session_set_name(session, "another", PI_NUL, NULL, &error));
    made = 7;
    FAILS(PI_SESSION_EXISTS, pi_session_convert(session, into, NULL, &made, NULL, &error));
    CHECK(made == 0);
    OK(pi_session_open(into, "care", PI_NUL, &copy, NULL, &error));
    close_and_free(copy);

    OK(pi_session_close(session, NULL, &error));
    for (round = 1; round >= 0; round--) {
        OK(pi_repository_convert(repository, all, &options, &conversions, NULL, &error));
        CHECK(pi_conversions_count(conversions) == 1);
        CHECK(pi_conversions_get(conversions, 0, &conversion, sizeof conversion) == PI_OK);
        CHECK_TEXT(conversion.id, "care");
        CHECK(conversion.made == round && conversion.problem == NULL && conversion.problem_code == PI_OK);
        CHECK(pi_conversions_get(conversions, 1, &conversion, sizeof conversion) == PI_INVALID_ARGUMENT);
        CHECK(conversion.id == NULL);
        pi_conversions_free(conversions);
    }
    OK(pi_repository_convert(repository, into, NULL, &conversions, NULL, &error));
    CHECK(pi_conversions_get(conversions, 0, &conversion, sizeof conversion) == PI_OK);
    CHECK(conversion.made == 0 && conversion.problem_code == PI_SESSION_EXISTS && conversion.problem_len > 0);
    pi_conversions_free(conversions);
    CHECK(pi_repository_free(into) == PI_OK && pi_repository_free(all) == PI_OK);
}

static void write_file(const char *last_line) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fprintf(file,
                  "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/\"}\n"
                  "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2026-01-02T03:04:06.000Z\","
                  "\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n%s",
                  last_line) > 0);
    CHECK(fclose(file) == 0);
}

static void a_damaged_file_is_repaired(pi_repository *repository) {
    pi_repair_options options;
    pi_repair *repair = DIRTY;
    pi_repair_info info;
    pi_legacy_warning warning;
    pi_finding finding;
    pi_session *session = NULL;

    write_file("{\"type\":\"message\",\"id\":\"b\"");
    OK(pi_repair_file(path, PI_NUL, NULL, &repair, NULL, &error));
    CHECK(pi_repair_get(repair, &info, sizeof info) == PI_OK);
    CHECK_TEXT(info.source_id, "old");
    CHECK(info.id == NULL && info.path == NULL && info.is_sound == 0);
    CHECK(info.entries == 1 && info.messages == 1);
    CHECK(pi_repair_warnings_count(repair) == 1);
    CHECK(pi_repair_warnings_get(repair, 0, &warning, sizeof warning) == PI_OK);
    CHECK_TEXT(warning.kind, "torn_tail");
    CHECK(pi_repair_warnings_get(repair, 1, &warning, sizeof warning) == PI_INVALID_ARGUMENT);
    CHECK(pi_findings_get(pi_repair_findings(repair), pi_findings_count(pi_repair_findings(repair)), &finding,
                          sizeof finding) == PI_INVALID_ARGUMENT);
    pi_repair_free(repair);

    pi_repair_options_init(&options, sizeof options);
    options.into = repository;
    options.id = "mended";
    options.progress = tell;
    options.user_data = &told;
    OK(pi_repair_file(path, PI_NUL, &options, &repair, NULL, &error));
    CHECK(pi_repair_get(repair, &info, sizeof info) == PI_OK);
    CHECK_TEXT(info.id, "mended");
    pi_repair_free(repair);
    OK(pi_session_open(repository, "mended", PI_NUL, &session, NULL, &error));
    close_and_free(session);
    FAILS(PI_IO, pi_repair_file("/nowhere/at/all", PI_NUL, &options, &repair, NULL, &error));
    CHECK(repair == NULL && pi_repair_findings(NULL) == NULL && pi_repair_warnings_count(NULL) == 0);
    CHECK(pi_repair_get(NULL, &info, sizeof info) == PI_INVALID_ARGUMENT);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "care");
    int file = mkstemp(path);

    CHECK(file >= 0 && close(file) == 0);
    OK(pi_session_set_value(session, "app", PI_NUL, "a", PI_NUL, "1", PI_NUL, NULL, &error));
    sessions_are_converted_once(repository, session);
    a_damaged_file_is_repaired(repository);
    CHECK(unlink(path) == 0);
    finish(repository, session);
    return 0;
}

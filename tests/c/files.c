/* Session files of version 3 are opened, copied, upgraded and imported. */
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static const char *HEADER =
    "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/\"}\n";
static const char *MESSAGE =
    "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2026-01-02T03:04:06.000Z\","
    "\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";
static const char *TORN = "{\"type\":\"message\",\"id\":\"b\"";

static char folder[64];
static char path[128];
static char backup[160];

static void write_file(const char *last_line) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fprintf(file, "%s%s%s", HEADER, MESSAGE, last_line) > 0);
    CHECK(fclose(file) == 0);
}

static size_t size_of(const char *name) {
    struct stat found;
    return stat(name, &found) == 0 ? (size_t)found.st_size : 0;
}

static void close_and_free(pi_session *session) {
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
}

static void a_file_is_read_with_its_warnings(void) {
    pi_session *session = NULL;
    pi_legacy *legacy = NULL;
    pi_legacy_info info;
    pi_legacy_warning warning;
    pi_legacy_id id;
    pi_open_options options;

    write_file(TORN);
    OK(pi_session_open_file(path, PI_NUL, NULL, &session, NULL, &error));
    FAILS(PI_LEGACY_READ_ONLY, pi_session_set_name(session, "no", PI_NUL, NULL, &error));
    OK(pi_session_legacy(session, &legacy, &error));
    CHECK(pi_legacy_get(legacy, &info, sizeof info) == PI_OK);
    CHECK(info.version == 3 && info.usage_rows == 0 && info.backup == NULL);
    CHECK_TEXT(info.session_id, "old");
    CHECK(strstr(info.usage, "\"totalTokens\":0") != NULL && info.usage_len == strlen(info.usage));
    CHECK(pi_legacy_warnings_count(legacy) == 1);
    CHECK(pi_legacy_warnings_get(legacy, 0, &warning, sizeof warning) == PI_OK);
    CHECK_TEXT(warning.kind, "torn_tail");
    CHECK(warning.line == 3 && warning.value == 0 && warning.is_damage == 1 && warning.message_len > 0);
    CHECK(warning.offset == strlen(HEADER) + strlen(MESSAGE) && warning.length == strlen(TORN));
    CHECK(pi_legacy_warnings_get(legacy, 1, &warning, sizeof warning) == PI_INVALID_ARGUMENT);
    CHECK(pi_legacy_ids_count(legacy) == 1);
    CHECK(pi_legacy_ids_get(legacy, 0, &id, sizeof id) == PI_OK);
    CHECK_TEXT(id.old_id, "a");
    CHECK(id.new_id_len == 36);
    CHECK(pi_legacy_ids_get(legacy, 1, &id, sizeof id) == PI_INVALID_ARGUMENT);
    pi_legacy_free(legacy);
    close_and_free(session);

    pi_open_options_init(&options, sizeof options);
    options.strict = 1;
    FAILS(PI_CORRUPT, pi_session_open_file(path, strlen(path), &options, &session, NULL, &error));
    CHECK(session == NULL);
    CHECK(pi_legacy_get(NULL, &info, sizeof info) == PI_INVALID_ARGUMENT);
    CHECK(pi_legacy_warnings_count(NULL) == 0 && pi_legacy_ids_count(NULL) == 0);
    pi_legacy_free(NULL);
}

static void a_file_is_copied(pi_repository *repository) {
    pi_session *session = NULL;
    pi_metadata metadata;
    pi_open_options options;

    write_file("");
    pi_open_options_init(&options, sizeof options);
    options.legacy = PI_LEGACY_POLICY_COPY;
    options.copy_to = repository;
    OK(pi_session_open_file(path, PI_NUL, &options, &session, NULL, &error));
    OK(pi_session_set_name(session, "copied", PI_NUL, NULL, &error));
    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.parent_session_id, "old");
    CHECK(size_of(path) == strlen(HEADER) + strlen(MESSAGE));
    close_and_free(session);

    /* Nothing is copied where nothing is to be written. */
    options.read_only = 1;
    OK(pi_session_open_file(path, PI_NUL, &options, &session, NULL, &error));
    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.id, "old");
    close_and_free(session);
    options.legacy = PI_LEGACY_POLICY_UPGRADE;
    FAILS(PI_INVALID_ARGUMENT, pi_session_open_file(path, PI_NUL, &options, &session, NULL, &error));
    options.legacy = 99;
    FAILS(PI_INVALID_ARGUMENT, pi_session_open_file(path, PI_NUL, &options, &session, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_open_file("", PI_NUL, NULL, &session, NULL, &error));
    FAILS(PI_INVALID_ARGUMENT, pi_session_open_file(NULL, 0, NULL, &session, NULL, &error));
    FAILS(PI_IO, pi_session_open_file("/absent/file", PI_NUL, NULL, &session, NULL, &error));
    FAILS(PI_NOT_A_SESSION, pi_session_open_file(folder, PI_NUL, NULL, &session, NULL, &error));
}

static void a_file_is_upgraded_in_its_repository(void) {
    char uri[96];
    pi_repository *repository = NULL;
    pi_session *session = NULL;
    pi_legacy *legacy = NULL;
    pi_legacy_info info;
    pi_open_options options;

    write_file(TORN);
    snprintf(uri, sizeof uri, "jsonl:%s", folder);
    repository = open_quick(uri);
    pi_open_options_init(&options, sizeof options);
    options.legacy = PI_LEGACY_POLICY_UPGRADE;
    FAILS(PI_CORRUPT, pi_session_open_with(repository, "old", PI_NUL, &options, &session, NULL, &error));
    options.salvage = 1;
    OK(pi_session_open_with(repository, "old", PI_NUL, &options, &session, NULL, &error));
    OK(pi_session_legacy(session, &legacy, &error));
    CHECK(pi_legacy_get(legacy, &info, sizeof info) == PI_OK);
    CHECK_TEXT(info.backup, backup);
    CHECK(size_of(backup) == strlen(HEADER) + strlen(MESSAGE) + strlen(TORN));
    pi_legacy_free(legacy);
    OK(pi_session_set_name(session, "goes on", PI_NUL, NULL, &error));
    close_and_free(session);

    OK(pi_session_open_with(repository, "old", PI_NUL, NULL, &session, NULL, &error));
    OK(pi_session_legacy(session, &legacy, &error));
    CHECK(legacy == NULL);
    close_and_free(session);
    FAILS(PI_UNKNOWN_SESSION, pi_session_open_with(repository, "no", PI_NUL, NULL, &session, NULL, &error));
    OK(pi_repository_close(repository, NULL, &error));
    CHECK(pi_repository_free(repository) == PI_OK);
}

static void a_file_is_imported_once(pi_repository *repository) {
    pi_buf *id = NULL;
    pi_legacy *legacy = NULL;
    pi_import_options options;
    uint64_t added = 7;

    write_file(TORN);
    FAILS(PI_CORRUPT, pi_repository_import(repository, path, PI_NUL, NULL, &id, &added, &legacy, NULL, &error));
    CHECK(id == NULL && added == 0 && legacy == NULL);
    pi_import_options_init(&options, sizeof options);
    options.salvage = 1;
    options.id = "mine";
    OK(pi_repository_import(repository, path, PI_NUL, &options, &id, &added, &legacy, NULL, &error));
    CHECK_TEXT(pi_buf_data(id), "mine");
    CHECK(added == 1 && pi_legacy_warnings_count(legacy) == 1 && pi_legacy_ids_count(legacy) == 1);
    pi_buf_free(id);
    pi_legacy_free(legacy);
    OK(pi_repository_import(repository, path, PI_NUL, &options, NULL, &added, NULL, NULL, &error));
    CHECK(added == 0);
    options.strict = 1;
    FAILS(PI_CORRUPT, pi_repository_import(repository, path, PI_NUL, &options, NULL, NULL, NULL, NULL, &error));
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "files");

    strcpy(folder, "/tmp/pisession-files-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/old.jsonl", folder);
    snprintf(backup, sizeof backup, "%s.v3.bak", path);
    a_file_is_read_with_its_warnings();
    a_file_is_copied(repository);
    a_file_is_imported_once(repository);
    a_file_is_upgraded_in_its_repository();
    CHECK(unlink(path) == 0 && unlink(backup) == 0 && rmdir(folder) == 0);
    finish(repository, session);
    return 0;
}

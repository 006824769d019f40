/* A session is looked over; what cannot be read of a damaged file is passed and named; who waits is told. */
#include <unistd.h>

#include "check.h"

/* Enough that a check tells of its progress. */
enum { ENTRIES = 300 };

static uint64_t told;

static void tell(uint64_t done, uint64_t all, void *user_data) {
    CHECK(user_data == &told && done >= told && (all == 0 || done <= all));
    told = done;
}

static void close_and_free(pi_session *session) {
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
}

static void a_sound_session_has_no_finding(pi_session *session) {
    pi_check_options options;
    pi_findings *findings = DIRTY;
    pi_finding finding;
    int64_t depth;

    OK(pi_session_check(session, NULL, &findings, NULL, &error));
    CHECK(pi_findings_count(findings) == 0);
    CHECK(pi_findings_get(findings, 0, &finding, sizeof finding) == PI_INVALID_ARGUMENT && finding.kind == NULL);
    pi_findings_free(findings);
    pi_check_options_init(&options, sizeof options);
    for (depth = 0; depth <= PI_CHECK_FULL; depth++) {
        options.depth = depth;
        options.progress = tell;
        options.user_data = &told;
        told = 0;
        OK(pi_session_check(session, &options, &findings, NULL, &error));
        CHECK((told > 0 || depth == PI_CHECK_BRIEF) && pi_findings_count(findings) == 0);
        pi_findings_free(findings);
    }
    options.depth = 99;
    FAILS(PI_INVALID_ARGUMENT, pi_session_check(session, &options, &findings, NULL, &error));
    CHECK(findings == NULL);
    OK(pi_session_gaps(session, &findings, &error));
    CHECK(pi_findings_count(findings) == 0);
    pi_findings_free(findings);
}

static void a_label_of_nothing_is_found(pi_session *session) {
    pi_findings *findings = NULL;
    pi_finding finding;

    OK(pi_session_set_label(session, "nothing", PI_NUL, "here", PI_NUL, NULL, &error));
    OK(pi_session_check(session, NULL, &findings, NULL, &error));
    CHECK(pi_findings_count(findings) == 1);
    CHECK(pi_findings_get(findings, 0, &finding, sizeof finding) == PI_OK);
    CHECK_TEXT(finding.kind, "label_of_nothing");
    CHECK_TEXT(finding.id, "nothing");
    CHECK(finding.message_len > 0 && finding.line == -1 && finding.offset == -1 && finding.length == -1);
    CHECK(finding.error_code == PI_OK);
    pi_findings_free(findings);
    OK(pi_session_set_label(session, "nothing", PI_NUL, NULL, 0, NULL, &error));
}

/* Spoils the second line of a file of JSON lines. */
static void spoil(const char *path) {
    FILE *file = fopen(path, "r+b");
    int letter;

    CHECK(file != NULL);
    do
        letter = fgetc(file);
    while (letter != '\n' && letter != EOF);
    CHECK(letter == '\n' && fseek(file, 0, SEEK_CUR) == 0 && fputc('#', file) == '#' && fclose(file) == 0);
}

static void salvage_names_what_it_passed(pi_repository *repository, pi_session *session) {
    pi_open_options options;
    pi_findings *findings = NULL;
    pi_finding finding;
    pi_metadata metadata;
    pi_session *opened = DIRTY;

    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    OK(pi_session_close(session, NULL, &error));
    spoil(metadata.path);
    FAILS(PI_CORRUPT, pi_session_open(repository, "check", PI_NUL, &opened, NULL, &error));
    CHECK(opened == NULL);
    pi_open_options_init(&options, sizeof options);
    options.salvage = 1;
    OK(pi_session_open_with(repository, "check", PI_NUL, &options, &opened, NULL, &error));
    OK(pi_session_gaps(opened, &findings, &error));
    CHECK(pi_findings_count(findings) > 0);
    CHECK(pi_findings_get(findings, 0, &finding, sizeof finding) == PI_OK);
    CHECK_TEXT(finding.kind, "damaged_line");
    CHECK(finding.line == 2 && finding.offset > 0 && finding.length > 0 && finding.message_len > 0);
    pi_findings_free(findings);
    close_and_free(opened);
}

/* An import tells how far it is. */
static void an_import_is_told_of(pi_repository *repository) {
    static const char lines[] =
        "{\"type\":\"session\",\"version\":3,\"id\":\"old\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/\"}\n"
        "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"2026-01-02T03:04:06.000Z\","
        "\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";
    char path[] = "/tmp/pisession-check-XXXXXX";
    pi_import_options options;
    int file = mkstemp(path);

    CHECK(file >= 0 && write(file, lines, sizeof lines - 1) == (ssize_t)(sizeof lines - 1) && close(file) == 0);
    pi_import_options_init(&options, sizeof options);
    options.progress = tell;
    options.user_data = &told;
    told = 0;
    OK(pi_repository_import(repository, path, PI_NUL, &options, NULL, NULL, NULL, NULL, &error));
    CHECK(told > 0);
    CHECK(unlink(path) == 0);
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "check");
    pi_branch *branch = NULL;
    pi_nodes *nodes = NULL;
    int index;

    OK(pi_branch_create(session, "main", PI_NUL, NULL, 0, &branch, NULL, &error));
    OK(pi_nodes_new(&nodes, &error));
    for (index = 0; index < ENTRIES; index++)
        OK(pi_nodes_add_message(nodes, "{\"role\":\"user\"}", PI_NUL, &error));
    OK(pi_branch_append_many(branch, nodes, NULL, NULL, &error));
    pi_nodes_free(nodes);
    CHECK(pi_branch_free(branch) == PI_OK);
    a_sound_session_has_no_finding(session);
    a_label_of_nothing_is_found(session);
    an_import_is_told_of(repository);
    if (strncmp(argv[1], "jsonl:", 6) == 0)
        salvage_names_what_it_passed(repository, session);
    finish(repository, session);
    return 0;
}

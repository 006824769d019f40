/* Where things are: addresses of values and lists, the file that is meant, forks of stored sessions. */
#include "check.h"

static void close_and_free(pi_session *session) {
    OK(pi_session_close(session, NULL, &error));
    CHECK(pi_session_free(session) == PI_OK);
}

static void check_addresses(pi_addresses *addresses, size_t count, const char *const *keys) {
    pi_address address;
    size_t index;

    CHECK(pi_addresses_count(addresses) == count);
    for (index = 0; index < count; index++) {
        CHECK(pi_addresses_get(addresses, index, &address, sizeof address) == PI_OK);
        CHECK_TEXT(address.name_space, "app");
        CHECK_TEXT(address.key, keys[index]);
        CHECK(address.name_space_len == 3 && address.key_len == strlen(keys[index]));
    }
    CHECK(pi_addresses_get(addresses, count, &address, sizeof address) == PI_INVALID_ARGUMENT);
    CHECK(address.key == NULL);
    pi_addresses_free(addresses);
}

static void addresses_come_in_order_and_in_pages(pi_session *session) {
    static const char *const values[] = {"", "a", "b"};
    static const char *const lists[] = {"log"};
    pi_addresses *found = DIRTY;
    size_t index;

    for (index = 3; index-- > 0;)
        OK(pi_session_set_value(session, "app", PI_NUL, values[index], PI_NUL, "1", PI_NUL, NULL, &error));
    OK(pi_session_append_list(session, "app", PI_NUL, "log", PI_NUL, "1", PI_NUL, NULL, &error));

    OK(pi_session_value_addresses(session, NULL, 0, NULL, 0, 10, &found, NULL, &error));
    check_addresses(found, 3, values);
    OK(pi_session_value_addresses(session, NULL, 0, NULL, 0, 2, &found, NULL, &error));
    check_addresses(found, 2, values);
    OK(pi_session_value_addresses(session, "app", PI_NUL, "a", PI_NUL, SIZE_MAX, &found, NULL, &error));
    check_addresses(found, 1, values + 2);
    OK(pi_session_value_addresses(session, NULL, 0, NULL, 0, 0, &found, NULL, &error));
    check_addresses(found, 0, values);
    OK(pi_session_list_addresses(session, NULL, 0, NULL, 0, 10, &found, NULL, &error));
    check_addresses(found, 1, lists);
    OK(pi_session_list_addresses(session, "app", PI_NUL, "log", PI_NUL, 10, &found, NULL, &error));
    check_addresses(found, 0, lists);

    FAILS(PI_INVALID_ADDRESS, pi_session_value_addresses(session, "", 0, "", 0, 1, &found, NULL, &error));
    CHECK(found == NULL && pi_addresses_count(found) == 0);
    FAILS(PI_INVALID_ARGUMENT, pi_session_list_addresses(session, NULL, 0, "a", 1, 1, &found, NULL, &error));
    pi_addresses_free(NULL);
}

static void a_session_from_elsewhere_keeps_its_time(pi_repository *repository) {
    const int64_t made = 1600000000000, never = -1;
    pi_session_options options;
    pi_metadata metadata;
    pi_session *session = DIRTY;

    pi_session_options_init(&options, sizeof options);
    options.created_at = &made;
    options.legacy_parent_session_path = "/old/session.jsonl";
    OK(pi_session_create(repository, &options, &session, NULL, &error));
    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    CHECK(metadata.created_at == made);
    CHECK_TEXT(metadata.legacy_parent_session_path, "/old/session.jsonl");
    close_and_free(session);
    options.created_at = &never;
    FAILS(PI_INVALID_ARGUMENT, pi_session_create(repository, &options, &session, NULL, &error));
    CHECK(session == NULL);
}

/* The file of a session, by the listing; 0 where it is in none. */
static int file_of(pi_repository *repository, const char *id, char *path, size_t size) {
    pi_sessions *sessions = NULL;
    pi_session_info info;
    size_t index;
    int found = 0;

    OK(pi_repository_list(repository, NULL, &sessions, NULL, &error));
    for (index = 0; index < pi_sessions_count(sessions); index++) {
        CHECK(pi_sessions_get(sessions, index, &info, sizeof info) == PI_OK);
        if (info.id != NULL && strcmp(info.id, id) == 0 && info.path != NULL) {
            CHECK(info.path_len < size);
            memcpy(path, info.path, info.path_len + 1);
            found = 1;
        }
    }
    pi_sessions_free(sessions);
    return found;
}

static void copy_file(const char *from, const char *to) {
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t size;

    CHECK(in != NULL && out != NULL);
    size = fread(bytes, 1, sizeof bytes, in);
    CHECK(size < sizeof bytes && fwrite(bytes, 1, size, out) == size);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

static void a_stored_session_forks(pi_repository *repository) {
    pi_repository *elsewhere = open_quick("memory:");
    pi_fork_options options;
    pi_session *fork = DIRTY;
    pi_buf *left_out = DIRTY;
    pi_metadata metadata;

    pi_fork_options_init(&options, sizeof options);
    options.scope = PI_FORK_TREE;
    OK(pi_session_fork_stored(elsewhere, repository, "places", PI_NUL, NULL, 0, &options, &fork, &left_out, NULL,
                              &error));
    CHECK_TEXT(pi_buf_data(left_out), "[]");
    pi_buf_free(left_out);
    OK(pi_session_metadata(fork, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.parent_session_id, "places");
    close_and_free(fork);
    FAILS(PI_UNKNOWN_SESSION, pi_session_fork_stored(elsewhere, repository, "absent", PI_NUL, NULL, 0, &options, &fork,
                                                     NULL, NULL, &error));
    CHECK(fork == NULL);
    CHECK(pi_repository_free(elsewhere) == PI_OK);
}

/* Two files of JSON lines hold a session of one id: the path says which is meant. */
static void the_file_that_is_meant(pi_repository *repository) {
    static char path[4096], copy[4200];
    const char *name;
    pi_open_options options;
    pi_fork_options fork_options;
    pi_session *session = DIRTY, *fork = DIRTY;
    pi_metadata metadata;

    CHECK(file_of(repository, "places", path, sizeof path));
    name = strrchr(path, '/') + 1;
    snprintf(copy, sizeof copy, "%.*scopy-%s", (int)(name - path), path, name);
    copy_file(path, copy);
    FAILS(PI_AMBIGUOUS_SESSION, pi_session_open(repository, "places", PI_NUL, &session, NULL, &error));
    FAILS(PI_AMBIGUOUS_SESSION, pi_repository_delete(repository, "places", PI_NUL, NULL, &error));

    pi_open_options_init(&options, sizeof options);
    options.path = copy;
    OK(pi_session_open_with(repository, "places", PI_NUL, &options, &session, NULL, &error));
    OK(pi_session_metadata(session, &metadata, sizeof metadata, &error));
    CHECK_TEXT(metadata.path, copy);
    close_and_free(session);
    FAILS(PI_INVALID_ARGUMENT, pi_session_open_file(copy, PI_NUL, &options, &session, NULL, &error));
    pi_fork_options_init(&fork_options, sizeof fork_options);
    fork_options.scope = PI_FORK_TREE;
    fork_options.id = "fork";
    OK(pi_session_fork_stored(repository, repository, "places", PI_NUL, copy, PI_NUL, &fork_options, &fork, NULL, NULL,
                              &error));
    close_and_free(fork);

    OK(pi_repository_delete_at(repository, "places", PI_NUL, copy, PI_NUL, NULL, &error));
    FAILS(PI_UNKNOWN_SESSION, pi_repository_delete_at(repository, "places", PI_NUL, copy, PI_NUL, NULL, &error));
    OK(pi_session_open(repository, "places", PI_NUL, &session, NULL, &error));
    close_and_free(session);
    OK(pi_repository_delete_at(repository, "places", PI_NUL, path, PI_NUL, NULL, &error));
    FAILS(PI_UNKNOWN_SESSION, pi_session_open(repository, "places", PI_NUL, &session, NULL, &error));
}

int main(int argc, char **argv) {
    pi_repository *repository = open_repository(argc, argv);
    pi_session *session = create_session(repository, "places");

    addresses_come_in_order_and_in_pages(session);
    a_stored_session_forks(repository);
    a_session_from_elsewhere_keeps_its_time(repository);
    OK(pi_session_close(session, NULL, &error));
    if (strncmp(argv[1], "jsonl:", 6) == 0)
        the_file_that_is_meant(repository);
    else
        OK(pi_repository_delete_at(repository, "places", PI_NUL, NULL, 0, NULL, &error));
    finish(repository, session);
    return 0;
}

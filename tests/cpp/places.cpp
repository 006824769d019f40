// Where things are: addresses of values and lists, the file that is meant, forks of stored sessions.
#include <vector>

#include "check.hpp"

namespace fs = std::filesystem;

static void addresses_come_in_order_and_in_pages(pi::Repository &repository) {
    pi::Session session = session_of(repository, "addresses");
    for (const char *key : {"b", "a", ""}) session.set_value("app", key, "1");
    session.append_list("app", "log", "1");

    std::vector<std::string> keys;
    std::optional<pi::AddressView> last;
    for (pi::Addresses page = session.value_addresses(last, 2); !page.empty();) {
        for (const pi::AddressView &address : page) {
            CHECK(address.name_space == "app");
            keys.emplace_back(address.key);
        }
        pi::Addresses next = session.value_addresses(page.back(), 2);
        page = std::move(next);
    }
    CHECK((keys == std::vector<std::string>{"", "a", "b"}));
    CHECK(session.value_addresses().size() == 3 && session.value_addresses(std::nullopt, 0).empty());
    const pi::Addresses lists = session.list_addresses();
    CHECK(lists.size() == 1 && lists[0].key == "log" && session.list_addresses(lists[0]).empty());
    FAILS(InvalidAddress, session.value_addresses(pi::AddressView{"", ""}));
    FAILS(InvalidAddress, session.list_addresses(pi::AddressView{}));
}

static void a_session_from_elsewhere_keeps_its_time(pi::Repository &repository) {
    pi::SessionOptions options;
    options.created_at = 1600000000000;
    options.legacy_parent_session_path = "/old/session.jsonl";
    const pi::Metadata metadata = repository.create(options).metadata();
    CHECK(metadata.created_at == 1600000000000 && metadata.legacy_parent_session_path == "/old/session.jsonl");
    options.created_at = -1;
    FAILS(InvalidArgument, repository.create(options));
}

static void a_stored_session_forks(pi::Repository &repository) {
    pi::Session source = session_of(repository, "stored"); // and stays open
    source.create_branch("main").append_message(user("one"));
    pi::Repository elsewhere = pi::open_repository("memory:");
    pi::ForkOptions options;
    options.scope = pi::ForkScope::Tree;
    const pi::Fork fork = elsewhere.fork_stored(repository, "stored", options);
    CHECK(fork.left_out == "[]" && fork.session.stats().message_count == 1);
    CHECK(fork.session.metadata().parent_session_id == "stored");
    CHECK(repository.fork_stored(repository, "stored").session.stats().message_count == 1);
    CHECK(throws<pi::UnknownSessionError>(
        [&] { static_cast<void>(elsewhere.fork_stored(repository, "nobody", options)); }));
}

/// Two files of JSON lines hold a session of one id: the path says which is meant.
static void the_file_that_is_meant(pi::Repository &repository) {
    pi::Session session = session_of(repository, "twice");
    const fs::path path = *session.metadata().path;
    session.close();
    const fs::path copy = path.parent_path() / ("copy-" + path.filename().string());
    fs::copy_file(path, copy);
    FAILS(AmbiguousSession, repository.open("twice"));
    FAILS(AmbiguousSession, repository.fork_stored(repository, "twice"));
    FAILS(AmbiguousSession, repository.delete_session("twice"));

    pi::OpenOptions options;
    options.path = copy.native();
    CHECK(repository.open("twice", options).metadata().path == copy.native());
    FAILS(InvalidArgument, pi::open_file(copy, options));
    pi::ForkOptions tree;
    tree.scope = pi::ForkScope::Tree;
    const pi::Fork fork = repository.fork_stored(repository, "twice", tree, copy.native());
    CHECK(fork.session.metadata().parent_session_id == "twice");
    repository.delete_session_at("twice", copy);
    CHECK(!fs::exists(copy) && fs::exists(path));
    CHECK(throws<pi::UnknownSessionError>([&] { repository.delete_session_at("twice", copy); }));
    CHECK(repository.open("twice").metadata().path == path.native());
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        addresses_come_in_order_and_in_pages(repository);
        a_session_from_elsewhere_keeps_its_time(repository);
        a_stored_session_forks(repository);
        if (std::string(argv[1]).rfind("jsonl:", 0) == 0) the_file_that_is_meant(repository);
    }
    CHECK(pi_debug_live_handles() == 0);
}

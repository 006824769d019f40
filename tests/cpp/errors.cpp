// Errors are exceptions that say all that C says, and a failed call leaves nothing behind.
#include "check.hpp"

static void an_error_says_everything(pi::Repository &repository) {
    const pi::Error error = failure_of([&] { static_cast<void>(repository.open("nobody")); });
    CHECK(error.kind() == pi::ErrorKind::UnknownSession && error.code() == PI_UNKNOWN_SESSION);
    CHECK(error.name() == "UnknownSession" && error.id() == "nobody" && *error.what() != '\0');
    CHECK(!error.line() && !error.offset() && error.os_error() == 0 && !error.retryable());
    const std::runtime_error &base = error;
    CHECK(base.what() == std::string(error.what()));
    static_assert(std::is_nothrow_copy_constructible_v<pi::Error>, "or throwing it could end the program");

    const pi::Error json = failure_of([&] { pi::Nodes().add_message("{\"a\":}"); });
    CHECK(json.kind() == pi::ErrorKind::InvalidJson && json.offset() && *json.offset() > 0);
    const pi::Error uri = failure_of([&] { static_cast<void>(pi::open_repository("nothing")); });
    CHECK(uri.kind() == pi::ErrorKind::InvalidArgument && uri.hint() && !uri.path());
}

static void a_file_and_its_line_are_named(const std::string &uri) {
    if (uri.rfind("jsonl:", 0) != 0) return;
    const std::string path = uri.substr(6) + "-nothing/there.jsonl";
    const pi::Error error = failure_of([&] { static_cast<void>(pi::open_file(path)); });
    CHECK(error.path() && error.path()->find("there.jsonl") != std::string::npos);
    CHECK(error.kind() == pi::ErrorKind::UnknownSession || error.os_error() != 0);
}

static void some_kinds_are_classes(pi::Repository &repository) {
    const pi::Session session = session_of(repository, "s1");
    CHECK(throws<pi::UnknownSessionError>([&] { static_cast<void>(repository.open("nobody")); }));
    CHECK(throws<pi::SessionBusyError>([&] { static_cast<void>(repository.open("s1")); }));
    CHECK(throws<pi::SessionExistsError>([&] { session_of(repository, "s1"); }));
    pi::Context context;
    context.cancel();
    CHECK(throws<pi::CancelledError>([&] { static_cast<void>(session.stats(context)); }));
    const pi::Context late(std::chrono::milliseconds(0));
    CHECK(throws<pi::DeadlineExceededError>([&] { static_cast<void>(session.stats(late)); }));
    CHECK(failure_of([&] { static_cast<void>(repository.open("s1")); }).retryable());
}

static void texts_are_checked(pi::Repository &repository) {
    pi::Session session = session_of(repository, "texts");
    FAILS(InvalidArgument, session.set_name("\xff"));
    FAILS(InvalidJson, session.set_value("app", "key", std::string_view()));
    session.set_value("app", "", "1"); // an empty text, also one without an address, is a text
    session.set_value("app", std::string_view(), "2");
    CHECK(session.get_value("app", "") == "2");
    FAILS(InvalidAddress, session.set_value("app", std::string_view("a\0b", 3), "3"));
    session.set_name("");
    CHECK(!session.name() || session.name()->empty());
}

static void failures_leave_nothing_behind(pi::Repository &repository) {
    pi::Session session = session_of(repository, "failing");
    const std::size_t before = pi_debug_live_handles();
    for (int i = 0; i < 1000; i++) {
        FAILS(UnknownSession, repository.open("nobody"));
        FAILS(UnknownEntry, session.scan_branch("nobody"));
        CHECK(throws<int>([&] { session.mutate([](auto &) { throw 1; }); }));
        FAILS(NestedMutation, session.mutate([&](auto &) { session.set_name("no"); }));
    }
    CHECK(pi_debug_live_handles() == before);
}

static void a_panic_is_an_error(pi::Repository &repository) {
    const pi::Session session = session_of(repository, "panics");
    FAILS(Panic, pi::detail::call(pi_debug_panic, session.handle()));
    FAILS(StorageFault, session.stats());
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        an_error_says_everything(repository);
        a_file_and_its_line_are_named(argv[1]);
        some_kinds_are_classes(repository);
        texts_are_checked(repository);
        failures_leave_nothing_behind(repository);
        a_panic_is_an_error(repository);
    }
    CHECK(pi_debug_live_handles() == 0);
}

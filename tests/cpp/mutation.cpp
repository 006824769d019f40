// Mutations: what the function returns and throws comes out, one commit, the line, contexts.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "check.hpp"

static void what_the_function_returns_comes_out(pi::Session &session) {
    const auto nothing = [](pi::Mutation &) {};
    static_assert(std::is_void_v<decltype(session.mutate(nothing))>);
    session.mutate(nothing);
    CHECK(session.mutate([](auto &) { return 7; }) == 7);
    // What can only be moved, and what has no default.
    CHECK(*session.mutate([](auto &) { return std::make_unique<int>(8); }) == 8);
    struct NoDefault {
        explicit NoDefault(int start) : number(start) {}
        int number;
    };
    CHECK(session.mutate([](auto &) { return NoDefault(9); }).number == 9);
    const auto function = [](const pi::Mutation &m) { return m.stats().message_count; };
    CHECK(session.mutate(function) == 0);
    int called = 0;
    struct OnceMovable {
        std::unique_ptr<int> owned;
        int *called;
        void operator()(pi::Mutation &) { ++*called; }
    };
    session.mutate(OnceMovable{nullptr, &called});
    CHECK(called == 1);
}

static void what_the_function_throws_comes_out(pi::Session &session) {
    CHECK(throws<int>([&] { session.mutate([](auto &) { throw 5; }); }));
    try {
        session.mutate([](auto &) -> int { throw std::logic_error("mine"); });
        CHECK(false);
    } catch (const std::logic_error &error) {
        CHECK(error.what() == std::string("mine"));
    }
    // A commit that was made before stays, and the line is free.
    CHECK(throws<int>([&] {
        session.mutate([](auto &m) {
            m.commit(pi::Writes().set_value("app", "stays", "1"));
            throw 6;
        });
    }));
    CHECK(session.get_value("app", "stays") == "1");
    // Errors of the library too, with all they have.
    FAILS(InvalidAddress, session.mutate([](auto &m) { return m.get_value("", "key"); }));
    CHECK(failure_of([&] { session.mutate([&](auto &) { session.set_value("app", "key", "1"); }); }).kind() ==
          pi::ErrorKind::NestedMutation);
}

static void a_mutation_reads_decides_and_commits(pi::Session &session) {
    const std::string root = session.new_id(), note = session.new_id(), raw = session.new_id();
    const pi::CommitResult result = session.mutate([&](pi::Mutation &m) {
        pi::Writes writes;
        writes.insert_message(root, std::nullopt, user("hi"))
            .insert_custom_entry(note, root, "note", "{}")
            .insert_entry(R"({"type":"custom","customType":"x","id":")" + raw + R"(","parentId":")" + note + "\"}")
            .set_value("pi.branch.tip", "main", "\"" + raw + "\"")
            .set_value("app", "gone", "1")
            .delete_value("app", "gone")
            .append_list("app", "list", "1")
            .append_list("app", "list", "2")
            .delete_list("app", "none")
            .insert_custom_entry(session.new_id(), std::nullopt, "no-data");
        CHECK(writes.size() == 10);
        return m.commit(writes);
    });
    CHECK(result.seqs.size() == 10 && result.seqs[0] == result.first_seq && result.seqs[9] == result.first_seq + 9);
    CHECK(result.timestamp > 0 && result.stats.message_count == 1);
    CHECK(session.branch("main")->tip_id() == raw && !session.get_value("app", "gone"));

    session.mutate([&](const pi::Mutation &m) {
        CHECK(m.get_entries({note, "nobody"})[0].parent_id == root);
        CHECK(m.get_entries(std::vector<std::string>()).empty());
        CHECK(m.scan_branch(raw).size() == 3 && m.scan_branch_structure(raw)[2].payload.empty());
        CHECK(m.stats().message_count == 1 && m.get_value("app", "stays") == "1");
        CHECK(m.get_stored_value("app", "stays")->seq > 0 && !m.get_value("app", "none"));
        CHECK(m.scan_values("app", "st").size() == 1 && m.read_list("app", "list").size() == 2);
        pi::ListRead read;
        read.limit = 1;
        CHECK(m.read_list("app", "list", read)[0].value == "1");
    });
    FAILS(InvalidJson, pi::Writes().set_value("app", "a", "{"));
    FAILS(InvalidId, pi::Writes().insert_entry("{}"));
    FAILS(InvalidJson, pi::Nodes().add_message("["));
}

static void a_mutation_that_was_begun_holds_the_line(pi::Session &session) {
    pi::Mutation m = session.begin_mutation();
    FAILS(NestedMutation, session.set_value("app", "key", "1"));
    FAILS(NestedMutation, session.begin_mutation());
    FAILS(NestedMutation, session.close());
    CHECK(m.commit(pi::Writes()).seqs.empty());
    FAILS(CommitAttempted, m.commit(pi::Writes()));
    m.end();
    m.end();
    FAILS(MutationEnded, m.stats());
    // One that goes out of scope, also by an exception, lets the line go.
    CHECK(throws<int>([&] {
        const pi::Mutation other = session.begin_mutation();
        throw 1;
    }));
    session.set_value("app", "key", "2");
    pi::Mutation third = session.begin_mutation();
    pi::Mutation moved = std::move(third);
    FAILS(Misuse, third.stats());
    CHECK(moved.get_value("app", "key") == "2");
}

static void a_mutation_dies_with_its_function(pi::Session &session) {
    std::optional<pi::Mutation> kept;
    session.mutate([&](pi::Mutation &m) { kept = std::move(m); });
    FAILS(Misuse, kept->stats());
    FAILS(Misuse, kept->commit(pi::Writes()));
}

static void no_count_is_lost_between_threads(pi::Session &session) {
    const auto count = [&] {
        for (int i = 0; i < 50; i++) {
            session.mutate([](auto &m) {
                const auto stored = m.get_value("app", "counter");
                m.commit(pi::Writes().set_value("app", "counter", std::to_string(stored ? std::stoi(*stored) + 1 : 1)));
            });
        }
    };
    std::thread other(count);
    count();
    other.join();
    CHECK(session.get_value("app", "counter") == "100");
}

static void contexts_end_the_waiting(pi::Session &session) {
    pi::Context context;
    context.set_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    FAILS(InvalidArgument, context.set_traceparent("none"));
    session.set_value("app", "traced", "1", context);
    std::atomic<bool> begins = false;
    std::thread waiter;
    {
        const pi::Mutation held = session.begin_mutation();
        waiter = std::thread([&] {
            begins = true;
            FAILS(Cancelled, session.set_value("app", "late", "1", context));
            const pi::Context short_one(std::chrono::milliseconds(5));
            CHECK(throws<pi::DeadlineExceededError>([&] { session.mutate([](auto &) {}, short_one); }));
        });
        while (!begins) std::this_thread::yield();
        context.cancel();
        waiter.join();
    }
    CHECK(throws<pi::CancelledError>([&] { session.set_value("app", "later", "1", context); }));
    FAILS(DeadlineExceeded, session.stats(pi::Context(std::chrono::seconds(-1))));
    FAILS(Cancelled, session.mutate([](auto &) { CHECK(false); }, context));
    session.set_value("app", "background", "1", pi::Context::background());
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        pi::Session session = session_of(repository, "s1");
        what_the_function_returns_comes_out(session);
        what_the_function_throws_comes_out(session);
        a_mutation_reads_decides_and_commits(session);
        a_mutation_that_was_begun_holds_the_line(session);
        a_mutation_dies_with_its_function(session);
        no_count_is_lost_between_threads(session);
        contexts_end_the_waiting(session);
        session.close();
        FAILS(Closed, session.mutate([](auto &) { CHECK(false); }));
        FAILS(Closed, session.begin_mutation());
    }
    CHECK(pi_debug_live_handles() == 0);
}

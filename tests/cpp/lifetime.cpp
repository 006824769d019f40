// Objects can be moved, are destroyed in any order, and answer also when they were moved from. Two translation units
// include the header.
#include <algorithm>
#include <numeric>

#include "check.hpp"

std::string message_by_the_other_unit(pi::Session &session); // lifetime_other.cpp

template <class T>
constexpr bool is_move_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                              !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;

static_assert(is_move_only<pi::Repository> && is_move_only<pi::Session> && is_move_only<pi::Branch>);
static_assert(is_move_only<pi::Mutation> && is_move_only<pi::Context> && is_move_only<pi::EntryCursor>);
static_assert(is_move_only<pi::Entries> && is_move_only<pi::Values> && is_move_only<pi::Elements>);
static_assert(is_move_only<pi::Branches> && is_move_only<pi::UsageRows> && is_move_only<pi::Ids>);
static_assert(is_move_only<pi::Sessions> && is_move_only<pi::Rows> && is_move_only<pi::Legacy>);
static_assert(is_move_only<pi::Writes> && is_move_only<pi::Nodes>);
static_assert(is_move_only<pi::Addresses> && is_move_only<pi::Findings> && is_move_only<pi::Conversions>);
static_assert(is_move_only<pi::Repair>);

/// Everything that a session hands out.
struct Everything {
    explicit Everything(pi::Repository &repository, std::string_view id)
        : session(session_of(repository, id)), branch(session->create_branch("main")) {
        ids = branch->append_many(std::move(pi::Nodes().add_message(user("one")).add_custom_entry("note")));
        session->set_value("app", "a", "1");
        session->append_list("app", "list", "1");
        entries = branch->find_entries();
        cursor = branch->entries();
        values = session->scan_values("app");
        elements = session->read_list("app", "list");
        branches = session->branches();
        usage = session->scan_usage();
        mutation = session->begin_mutation();
    }

    std::optional<pi::Session> session;
    std::optional<pi::Branch> branch;
    std::optional<pi::Ids> ids;
    std::optional<pi::Entries> entries;
    std::optional<pi::EntryCursor> cursor;
    std::optional<pi::Values> values;
    std::optional<pi::Elements> elements;
    std::optional<pi::Branches> branches;
    std::optional<pi::UsageRows> usage;
    std::optional<pi::Mutation> mutation;
};

static void any_order_of_destruction_is_right(int argc, char **argv) {
    for (int order = 0; order < 20; order++) {
        std::optional<pi::Repository> repository = repository_of(argc, argv);
        Everything all(*repository, "order-" + std::to_string(order));
        const auto drop = [&](int which) {
            switch (which) {
            case 0: repository.reset(); break;
            case 1: all.session.reset(); break;
            case 2: all.branch.reset(); break;
            case 3: all.mutation.reset(); break;
            case 4: all.cursor.reset(); break;
            case 5: all.entries.reset(); break;
            default: all.values.reset(), all.elements.reset(), all.branches.reset(), all.usage.reset(), all.ids.reset();
            }
        };
        // Rotations, forwards and backwards; 7 and 20 have no common divisor that would repeat one.
        for (int step = 0; step < 7; step++) drop(order % 2 == 0 ? (order + step) % 7 : (order + 7 - step) % 7);
        CHECK(pi_debug_live_handles() == 0);
    }
}

static void children_keep_what_they_need(int argc, char **argv) {
    std::optional<pi::Branch> branch;
    {
        pi::Repository repository = repository_of(argc, argv);
        pi::Session session = session_of(repository, "gone");
        branch = session.create_branch("main");
    }
    branch->append_message(user("still here"));
    CHECK(branch->find_entries().size() == 1);
}

static void what_was_moved_from_answers(pi::Repository &repository) {
    Everything all(repository, "moved");
    pi::Mutation mutation = *std::move(all.mutation);
    FAILS(Misuse, all.mutation->stats());
    FAILS(Misuse, all.mutation->end());
    FAILS(Misuse, all.mutation->commit(pi::Writes()));
    mutation.end();

    pi::Session session = *std::move(all.session);
    CHECK(session && !*all.session && all.session->handle() == nullptr);
    FAILS(Misuse, all.session->metadata());
    FAILS(Misuse, all.session->set_name("no"));
    FAILS(Misuse, all.session->mutate([](auto &) {}));
    FAILS(Misuse, all.session->legacy());
    FAILS(Misuse, all.session->close());

    pi::Branch branch = *std::move(all.branch);
    CHECK(all.branch->name().empty() && branch.name() == "main");
    FAILS(Misuse, all.branch->tip_id());

    // The views and iterators of a set stay valid when it moves.
    auto at = all.entries->begin();
    const pi::EntryView newest = *at;
    pi::Entries entries = *std::move(all.entries);
    CHECK(newest.id == entries[0].id && at->id == newest.id && std::distance(at, entries.end()) == 2);
    CHECK(all.entries->empty() && all.entries->begin() == all.entries->end());
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(all.entries->front()); }));

    pi::EntryCursor cursor = *std::move(all.cursor);
    FAILS(Misuse, all.cursor->next());
    FAILS(Misuse, all.cursor->begin());
    CHECK(cursor.next()->id == newest.id);

    pi::Context context;
    const pi::Context taken = std::move(context);
    FAILS(Misuse, context.cancel());
    CHECK(session.stats(taken).message_count == 1);

    pi::Writes writes;
    writes.set_value("app", "b", "2");
    const pi::Writes moved = std::move(writes);
    CHECK(writes.size() == 0 && moved.size() == 1);
    FAILS(InvalidArgument, writes.set_value("app", "c", "3"));
    // No writes are an empty commit, as in C.
    CHECK(session.mutate([&](auto &m) { return m.commit(writes).seqs.empty(); }));
    pi::Nodes nodes;
    const pi::Nodes kept = std::move(nodes);
    CHECK(nodes.size() == 0 && kept.size() == 0 && branch.append_many(nodes).empty());
    FAILS(InvalidArgument, nodes.add_custom_entry("note"));

    // Assignment frees what was there.
    session = session_of(repository, "assigned");
    CHECK(session.metadata().id == "assigned");
    pi::Repository other = std::move(repository);
    FAILS(Misuse, repository.create());
    FAILS(Misuse, repository.list());
    FAILS(Misuse, repository.close());
    repository = std::move(other);
}

static void handles_of_c_come_and_go(pi::Repository &repository) {
    pi_session *raw = session_of(repository, "raw").release();
    pi::Session session(raw);
    CHECK(session.handle() == raw && session.metadata().id == "raw");
    pi::Repository empty(nullptr);
    CHECK(!empty);
}

static void sets_are_ranges(pi::Repository &repository) {
    pi::Session session = session_of(repository, "ranges");
    for (const char *element : {"3", "1", "2"}) session.append_list("app", "list", element);
    const pi::Elements elements = session.read_list("app", "list");
    const auto number = [](const pi::ElementView &element) { return element.value[0] - '0'; };
    CHECK(std::accumulate(elements.begin(), elements.end(), 0,
                          [&](int sum, const pi::ElementView &element) { return sum + number(element); }) == 6);
    const auto two = std::find_if(elements.begin(), elements.end(),
                                  [&](const pi::ElementView &element) { return number(element) == 2; });
    CHECK(two != elements.end() && two - elements.begin() == 2 && two->value == "2" && two[-1].value == "1");
    CHECK(elements.front().value == "3" && elements.back().value == "2" && !elements.empty());
    auto at = elements.begin();
    CHECK((*at++).value == "3" && (*++at).value == "2" && (*at--).value == "2" && (*--at).value == "3");
    CHECK((at += 2) == elements.end() - 1 && 1 + at == elements.end() && (at -= 1) < elements.end());
    CHECK(at > elements.begin() && at <= at && at >= at && at != elements.end());
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(elements[3]); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(session.scan_values("none").back()); }));
#if __cplusplus >= 202002L
    static_assert(std::ranges::random_access_range<pi::Entries> && std::ranges::sized_range<pi::Entries>);
    static_assert(std::ranges::random_access_range<pi::Rows> && std::ranges::random_access_range<pi::Row>);
    static_assert(std::ranges::random_access_range<decltype(std::declval<pi::Repair>().findings())>);
    static_assert(std::ranges::random_access_range<decltype(std::declval<pi::Repair>().warnings())>);
    static_assert(std::ranges::input_range<pi::EntryCursor>);
    CHECK(std::ranges::count_if(elements, [&](const pi::ElementView &element) { return number(element) > 1; }) == 2);
    CHECK(session.read_list("app", "list", {.order = pi::Order::Descending, .limit = 1})[0].value == "2");
#endif
}

static void cursors_are_ranges(pi::Repository &repository) {
    pi::Session session = session_of(repository, "cursors");
    pi::Branch branch = session.create_branch("main");
    pi::Nodes nodes;
    for (int i = 0; i < 2500; i++) nodes.add_custom_entry("note", std::to_string(i));
    branch.append_many(nodes);
    std::size_t count = 0;
    std::string last;
    for (const pi::EntryView &entry : branch.entries()) {
        CHECK(entry.type == "custom");
        last = entry.payload;
        count++;
    }
    CHECK(count == 2500 && last == R"({"data":0})");
    pi::EntryQuery query;
    query.order = pi::Order::Ascending;
    query.limit = 2;
    pi::EntryCursor cursor = session.entries(query);
    const std::string first(cursor.next()->id);
    CHECK(first == session.find_entries(query)[0].id);
    auto at = cursor.begin();
    CHECK(at != cursor.end() && at->payload == R"({"data":1})");
    at++;
    CHECK(at == cursor.end() && !cursor.next() && !cursor.next());
}

int main(int argc, char **argv) {
    any_order_of_destruction_is_right(argc, argv);
    children_keep_what_they_need(argc, argv);
    {
        pi::Repository repository = repository_of(argc, argv);
        what_was_moved_from_answers(repository);
        handles_of_c_come_and_go(repository);
        sets_are_ranges(repository);
        cursors_are_ranges(repository);
        pi::Session session = session_of(repository, "units");
        const std::string id = message_by_the_other_unit(session);
        CHECK(session.branch("other")->tip_id() == id);
    }
    CHECK(pi_debug_live_handles() == 0);
}

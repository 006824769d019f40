// Repositories, sessions and branches: what is written comes back, in every form it can be read.
#include "check.hpp"

static void a_repository_makes_opens_lists_and_deletes(pi::Repository &repository) {
    pi::SessionOptions options;
    options.id = "listed";
    options.cwd = "/work";
    options.parent_session_id = "parent";
    pi::Session session = repository.create(options);
    session.set_name("a name");
    session.create_branch("main").append_message(user("hi"));
    const pi::Metadata metadata = session.metadata();
    CHECK(metadata.id == "listed" && metadata.cwd == "/work" && metadata.parent_session_id == "parent");
    CHECK(metadata.created_at > 0 && metadata.storage_version > 0 && !metadata.legacy_parent_session_path);
    const bool is_memory = !metadata.path;

    FAILS(SessionExists, repository.create(options));
    FAILS(SessionBusy, repository.open("listed"));
    FAILS(SessionBusy, repository.delete_session("listed"));
    session.close();
    session.close();
    FAILS(Closed, session.stats());

    if (!is_memory) {
        pi::Session again = repository.open("listed");
        pi::Session reader = repository.open_read_only("listed");
        CHECK(reader.name() == "a name");
        FAILS(ReadOnly, reader.set_name("no"));
        pi::OpenOptions read_only;
        read_only.read_only = true;
        FAILS(ReadOnly, repository.open("listed", read_only).set_name("no"));
        again.close();
    }

    pi::ListOptions details;
    details.details = true;
    const pi::Sessions plain = repository.list();
    const pi::Sessions detailed = repository.list(details);
    CHECK(plain.size() == 1 && detailed.size() == 1);
    CHECK(plain[0].id == "listed" && !plain[0].name && !plain[0].message_count && !plain[0].problem);
    CHECK(detailed[0].name == "a name" && detailed[0].message_count == 1u && !detailed[0].problem_kind);
    CHECK(plain[0].cwd == "/work" && plain[0].parent_session_id == "parent" && !plain[0].format.empty());
    CHECK(plain[0].created_at == metadata.created_at && plain[0].storage_version == metadata.storage_version);
    CHECK(plain[0].path.has_value() == !is_memory && (is_memory || plain[0].modified_at));
    repository.delete_session("listed");
    CHECK(repository.list().empty());
    FAILS(UnknownSession, repository.delete_session("listed"));
}

static void entries_come_back(pi::Session &session) {
    pi::Branch main = session.create_branch("main");
    CHECK(main.name() == "main" && !main.tip_id());
    const std::string first = main.append_message(user("one"));
    const std::string second = main.append_custom_entry("note", R"({"n":1})");
    const std::string third = main.append_custom_entry("mark");
    pi::Nodes nodes;
    nodes.add_message(user("two")).add_custom_entry("note", "[1]").add_custom_entry("mark");
    CHECK(nodes.size() == 3);
    const pi::Ids ids = main.append_many(nodes);
    CHECK(ids.size() == 3 && main.tip_id() == ids[2] && main.append_many(pi::Nodes()).empty());

    const std::optional<pi::Entry> entry = session.get_entry(second);
    CHECK(entry && entry->id == second && entry->parent_id == first && entry->type == "custom");
    CHECK(entry->custom_type == "note" && entry->payload == R"({"data":{"n":1}})");
    CHECK(entry->seq > 0 && entry->timestamp > 0 && !session.get_entry("nobody"));
    CHECK(!session.get_entry(first)->parent_id && !session.get_entry(first)->custom_type);

    CHECK(session.get_entries({third, "nobody", first, third}).size() == 3);
    CHECK(session.get_entries(std::vector<std::string>{third, first})[1].id == first);
    CHECK(session.get_entries({}).empty());

    CHECK(main.find_entries().size() == 6 && main.find_entries()[0].id == ids[2]);
    pi::BranchScan scan;
    scan.order = pi::Order::Ascending;
    scan.type = "custom";
    scan.custom_type = "note";
    scan.limit = 1;
    CHECK(main.find_entries(scan).size() == 1 && main.find_entries(scan)[0].id == second);
    scan.cursor = main.find_entries(scan)[0].seq;
    CHECK(main.find_entries(scan)[0].id == ids[1]);
    pi::BranchScan stop;
    stop.stop_at_id = third;
    CHECK(main.find_entries(stop).back().id == third && main.find_entries(stop).size() == 4);
    pi::BranchScan stop_type;
    stop_type.stop_at_type = "message";
    CHECK(main.find_entries(stop_type).size() == 3);

    CHECK(session.scan_branch(third).size() == 3 && session.scan_branch(third, scan).empty());
    const pi::Entries structure = session.scan_branch_structure(third);
    CHECK(structure.size() == 3 && structure[0].id == third && structure[0].payload.empty());
    FAILS(UnknownEntry, session.scan_branch("nobody"));
    FAILS(UnknownEntry, session.scan_branch_structure("nobody"));

    pi::EntryQuery query;
    query.type = "custom";
    query.custom_type = "mark";
    query.order = pi::Order::Ascending;
    CHECK(session.find_entries(query).size() == 2 && session.find_entries(query)[0].id == third);
    query.cursor = session.find_entries(query)[0].seq;
    CHECK(session.find_entries(query).size() == 1);
    pi::EntryQuery range;
    range.from_seq = entry->seq;
    range.to_seq = entry->seq;
    CHECK(session.find_entries(range).size() == 1 && session.find_entries(range)[0].id == second);
    range.limit = 0;
    CHECK(session.find_entries(range).empty() && session.find_entries().size() == 6);
}

static void branches_come_back(pi::Session &session) {
    const std::string at = session.branch("main")->find_entries().back().id.data();
    pi::Branch side = session.create_branch("side", at);
    CHECK(side.tip_id() == at && session.branch("side")->name() == "side" && !session.branch("nobody"));
    side.append_message(user("aside"));
    session.create_branch("empty");
    const pi::Branches branches = session.branches();
    CHECK(branches.size() == 3 && branches[0].name == "empty" && !branches[0].tip_id);
    CHECK(branches[1].name == "main" && branches[2].name == "side" && branches[2].tip_id == side.tip_id());
    FAILS(BranchExists, session.create_branch("side"));
    FAILS(UnknownTarget, session.create_branch("other", "nobody"));
    FAILS(InvalidBranch, session.create_branch(""));
    session.delete_value("pi.branch.tip", "side");
    FAILS(UnknownBranch, side.tip_id());
    FAILS(UnknownBranch, side.find_entries());
    FAILS(UnknownBranch, side.entries());
    FAILS(UnknownBranch, side.append_message(user("gone")));
    FAILS(UnknownBranch, side.append_custom_entry("note"));
    FAILS(UnknownBranch, side.append_many(std::move(pi::Nodes().add_custom_entry("note"))));
}

static void values_and_lists_come_back(pi::Session &session) {
    CHECK(!session.get_value("app", "a") && !session.get_stored_value("app", "a"));
    session.set_value("app", "a", "1");
    session.set_value("app", "ab", R"( {"x" : 1} )");
    session.set_value("app", "b", "3");
    CHECK(session.get_value("app", "a") == "1" && session.get_stored_value("app", "ab")->value == R"( {"x" : 1} )");
    CHECK(session.get_stored_value("app", "b")->seq > session.get_stored_value("app", "a")->seq);
    const pi::Values values = session.scan_values("app", "a");
    CHECK(values.size() == 2 && session.scan_values("app").size() == 3 && session.scan_values("none").empty());
    CHECK(values[1].name_space == "app" && values[1].key == "ab" && values[1].value == R"( {"x" : 1} )");
    CHECK(values[0].seq == session.get_stored_value("app", "a")->seq);
    session.delete_value("app", "a");
    session.delete_value("app", "a");
    CHECK(!session.get_value("app", "a"));
    FAILS(InvalidJson, session.set_value("app", "a", "{"));
    FAILS(InvalidAddress, session.set_value("", "a", "1"));
    FAILS(ReservedAddress, session.set_value("pi.none", "a", "1"));

    for (const char *element : {"1", "2", "3"}) session.append_list("app", "list", element);
    const pi::Elements elements = session.read_list("app", "list");
    CHECK(elements.size() == 3 && elements[0].value == "1" && elements[2].value == "3");
    pi::ListRead read;
    read.order = pi::Order::Descending;
    read.cursor = elements[2].seq;
    read.limit = 1;
    CHECK(session.read_list("app", "list", read).size() == 1 && session.read_list("app", "list", read)[0].value == "2");
    read.limit = 0;
    FAILS(InvalidArgument, session.read_list("app", "list", read));
    session.delete_list("app", "list");
    CHECK(session.read_list("app", "list").empty());
}

static void names_and_labels_come_back(pi::Session &session) {
    CHECK(!session.name());
    session.set_name("notebook");
    CHECK(session.name() == "notebook");
    session.set_name(std::nullopt);
    CHECK(!session.name() && !session.get_label("e"));
    session.set_label("e", "a label");
    CHECK(session.get_label("e") == "a label");
    session.set_label("e", std::nullopt);
    CHECK(!session.get_label("e") && session.new_id() != session.new_id());
}

static void the_ledger_comes_back(pi::Session &session) {
    CHECK(!session.stats().reasoning && !session.stats().cache_write_1h);
    const auto row = [](std::string_view id, std::string_view more) {
        return "{\"id\":\"" + std::string(id) + R"(","usage":{"input":3,"output":4,"cacheRead":1,"cacheWrite":2,)" +
               std::string(more) + R"("totalTokens":10,"cost":{"input":0.5,"output":1,"cacheRead":0.25,)" +
               R"("cacheWrite":0.125,"total":1.875}},"adjustment":false})";
    };
    const pi::CommitResult result = session.mutate([&](pi::Mutation &m) {
        pi::Writes writes;
        writes.insert_usage(row("u1", "")).insert_usage(row("u2", R"("cacheWrite1h":1,"reasoning":2,)"));
        return m.commit(writes);
    });
    const pi::Stats stats = session.stats();
    CHECK(stats.input == 6 && stats.output == 8 && stats.cache_read == 2 && stats.cache_write == 4);
    CHECK(stats.total_tokens == 20 && stats.cost_input == 1 && stats.cost_output == 2 && stats.cost_total == 3.75);
    CHECK(stats.cost_cache_read == 0.5 && stats.cost_cache_write == 0.25);
    CHECK(stats.cache_write_1h == 1.0 && stats.reasoning == 2.0);
    CHECK(result.stats.cost_total == stats.cost_total && result.stats.message_count == stats.message_count);
    const pi::UsageRows rows = session.scan_usage();
    CHECK(rows.size() == 2 && rows[0].id == "u1" && rows[0].seq == result.first_seq);
    CHECK(rows[1].payload.find("reasoning") != std::string_view::npos);
    pi::UsageScan scan;
    scan.from_seq = rows[0].seq;
    scan.to_seq = rows[1].seq;
    scan.limit = 1;
    scan.order = pi::Order::Descending;
    CHECK(session.scan_usage(scan).size() == 1 && session.scan_usage(scan)[0].id == "u2");
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        a_repository_makes_opens_lists_and_deletes(repository);
        pi::Session session = session_of(repository, "s1");
        entries_come_back(session);
        branches_come_back(session);
        values_and_lists_come_back(session);
        names_and_labels_come_back(session);
        the_ledger_comes_back(session);
        CHECK(session.next_seq() > 10 && session.stats().message_count == 3);
        CHECK(session.dump().find("\"u2\"") != std::string::npos);
        CHECK(!pi::version().empty() && !pi::sqlite_version().empty());
        repository.close();
        repository.close();
        FAILS(Closed, session.dump());
        FAILS(Closed, repository.list());
    }
    CHECK(pi_debug_live_handles() == 0);
}

// SQL, backup, compaction and the log.
#include <mutex>

#include "check.hpp"

static void cells_come_as_they_are(const pi::Session &session) {
    const std::string text = "t\xc3\xa9xt";
    const std::vector<pi::Cell> parameters = {nullptr, std::numeric_limits<std::int64_t>::min(), 0.1, text,
                                              pi::Blob{std::string_view("\0\xff", 2)}};
    const pi::Rows rows = session.query("SELECT ?1 AS a, ?2, ?3, ?4, ?5 UNION ALL SELECT 1, 2, 3, 4, 5", parameters);
    CHECK(rows.size() == 2 && !rows.empty() && rows.column_count() == 5 && rows.column_name(0) == "a");
    const pi::Row row = rows[0];
    CHECK(row.size() == 5 && row[0].is_null() && row[1].integer() == std::numeric_limits<std::int64_t>::min());
    CHECK(row[2].real() == 0.1 && row[3].text() == text && row[4].blob() == std::string_view("\0\xff", 2));
    CHECK(row[1].is_integer() && row[2].is_real() && row[3].is_text() && row[4].is_blob() && !row[4].is_text());
    std::int64_t sum = 0;
    for (const pi::Cell &cell : rows[1]) sum += cell.integer();
    CHECK(sum == 15 && rows.begin()->front().is_null() && rows.end() - rows.begin() == 2);
    CHECK(throws<std::bad_variant_access>([&] { static_cast<void>(row[0].integer()); }));
    CHECK(throws<std::bad_variant_access>([&] { static_cast<void>(row[1].text()); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(row[5]); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(rows[2]); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(rows.column_name(5)); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(pi::Cell(std::numeric_limits<std::uint64_t>::max())); }));
    const std::uint64_t seq = 7;
    CHECK(session.query("SELECT ?1 + ?2, ?3", {seq, 1, "x"})[0][0].integer() == 8);
    CHECK(session.query("SELECT 1 WHERE 0").empty());
}

static void a_query_reads_this_session_and_writes_nothing(const pi::Session &session) {
    CHECK(session.query("SELECT custom_type FROM entry WHERE type = ?1", {"custom"})[0][0].text() == "note");
    FAILS(InvalidArgument, session.query("DELETE FROM entry"));
    FAILS(InvalidArgument, session.query("SELECT ?1"));
    const pi::Context soon(std::chrono::milliseconds(20));
    FAILS(DeadlineExceeded, session.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                                          "SELECT count(*) FROM n", {}, soon));
}

static void a_copy_is_a_session_of_its_own(const pi::Session &session, const std::string &uri) {
    const std::filesystem::path path = uri.substr(uri.find(':') + 1) + ".copy.sqlite";
    session.backup_to(path);
    FAILS(SessionExists, session.backup_to(path));
    pi::Repository copies = pi::open_repository("sqlite:" + path.string());
    CHECK(copies.open("s1").dump() == session.dump());
}

static void a_compaction_drops_what_is_dead(pi::Session &session) {
    for (int i = 0; i < 100; i++) session.set_value("app", "state", "\"overwritten again and again\"");
    const pi::Compaction compaction = session.compact();
    CHECK(compaction.before > compaction.after + 5000 && compaction.after > 100);
}

static void the_log_reaches_a_lambda(pi::Session &session) {
    struct Lines {
        std::mutex mutex;
        int commits = 0, others = 0;
    };
    const auto lines = std::make_shared<Lines>();
    pi::set_log(pi::LogLevel::Debug, [lines](pi::LogLevel level, std::string_view line) {
        const std::lock_guard guard(lines->mutex);
        const bool is_commit = level == pi::LogLevel::Debug && line.find("pisession.commit") != std::string_view::npos;
        (is_commit ? lines->commits : lines->others)++;
        if (!is_commit) throw std::runtime_error("nobody hears of this");
    });
    session.set_value("app", "logged", "1");
    CHECK(lines->commits == 1 && lines.use_count() == 2);
    pi::end_log();
    CHECK(lines.use_count() == 1);
    session.set_value("app", "logged", "2");
    CHECK(lines->commits == 1);
    FAILS(InvalidArgument, pi::set_log(static_cast<pi::LogLevel>(9), [lines](pi::LogLevel, std::string_view) {}));
    CHECK(lines.use_count() == 1);
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        pi::Session session = session_of(repository, "s1");
        session.create_branch("main").append_custom_entry("note", R"({"n":1})");
        const std::string uri = argv[1];
        if (uri.rfind("sqlite:", 0) == 0) {
            cells_come_as_they_are(session);
            a_query_reads_this_session_and_writes_nothing(session);
            a_copy_is_a_session_of_its_own(session, uri);
        } else {
            FAILS(Unsupported, session.query("SELECT 1"));
            FAILS(Unsupported, session.backup_to("copy.sqlite"));
        }
        if (uri.rfind("jsonl:", 0) == 0)
            a_compaction_drops_what_is_dead(session);
        else
            FAILS(Unsupported, session.compact());
        the_log_reaches_a_lambda(session);
        session.close();
    }
    CHECK(pi_debug_live_handles() == 0);
}

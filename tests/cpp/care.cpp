// A session is looked over, a damaged file gives a sound one, and sessions go to another repository as they are, once.
#include <fstream>

#include "check.hpp"

namespace fs = std::filesystem;

static const std::string damaged =
    R"({"type":"session","version":3,"id":"old","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/"})"
    "\n"
    R"({"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z",)"
    R"("message":{"role":"user","content":"hello"}})"
    "\n"
    R"({"type":"message","id":"b")";

/// A file in a folder that goes with it.
struct File {
    explicit File(const std::string &text) {
        std::string name = (fs::temp_directory_path() / "pisession-XXXXXX").string();
        CHECK(mkdtemp(name.data()) != nullptr);
        folder = name;
        path = folder / "old.jsonl";
        std::ofstream(path) << text;
    }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File() { fs::remove_all(folder); }

    fs::path folder, path;
};

/// A session so large that a check tells of its progress.
static pi::Session large_session(pi::Repository &repository, std::string_view id) {
    pi::Session session = session_of(repository, id);
    pi::Nodes nodes;
    for (int i = 0; i < 300; i++) nodes.add_message(user("one of many"));
    session.create_branch("main").append_many(nodes);
    return session;
}

static void a_check_names_what_is_wrong(pi::Repository &repository) {
    pi::Session session = large_session(repository, "checked");
    CHECK(session.check().empty() && session.gaps().empty());
    for (const auto depth : {pi::CheckDepth::Brief, pi::CheckDepth::Quick, pi::CheckDepth::Full}) {
        std::uint64_t told = 0;
        pi::CheckOptions options;
        options.depth = depth;
        options.progress = [&](std::uint64_t done, std::uint64_t) { told = done; };
        CHECK(session.check(options).empty() && (told > 0 || depth == pi::CheckDepth::Brief));
        options.skip_file = true;
        CHECK(session.check(options).empty());
    }
    session.set_label("nothing", "here");
    const pi::Findings findings = session.check();
    CHECK(findings.size() == 1);
    for (const pi::FindingView &finding : findings) {
        CHECK(finding.kind == "label_of_nothing" && finding.id == "nothing" && !finding.message.empty());
        CHECK(!finding.line && !finding.offset && !finding.length && !finding.error_kind);
    }
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(findings[1]); }));
    session.close();
    FAILS(Closed, session.check());
}

static void progress_may_end_a_call_and_may_throw(pi::Repository &repository) {
    const pi::Session session = large_session(repository, "told");
    pi::Context context;
    pi::CheckOptions options;
    options.progress = [&](std::uint64_t, std::uint64_t) { context.cancel(); };
    CHECK(throws<pi::CancelledError>([&] { static_cast<void>(session.check(options, context)); }));

    // What it throws goes before the error of the call, and it is not called again.
    struct Thrown {};
    const std::size_t before = pi_debug_live_handles();
    int calls = 0;
    options.progress = [&](std::uint64_t, std::uint64_t) {
        calls++;
        throw Thrown();
    };
    CHECK(throws<Thrown>([&] { static_cast<void>(session.check(options)); }) && calls == 1);
    pi::Repository into = pi::open_repository("memory:");
    pi::ConvertOptions convert;
    convert.progress = [&](std::uint64_t, std::uint64_t) {
        context.cancel();
        throw Thrown();
    };
    context = pi::Context();
    CHECK(throws<Thrown>([&] { session.convert(into, convert, context); }));
    into = pi::open_repository("memory:");
    CHECK(pi_debug_live_handles() == before + 1);
}

static void salvage_names_what_it_passed(pi::Repository &repository) {
    pi::Session session = large_session(repository, "spoiled");
    const fs::path path = *session.metadata().path;
    session.close();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::string first_line;
    CHECK(std::getline(file, first_line) && file.seekp(file.tellg()) && file.put('#'));
    file.close();

    FAILS(Corrupt, repository.open("spoiled"));
    pi::OpenOptions options;
    options.salvage = true;
    const pi::Findings gaps = repository.open("spoiled", options).gaps();
    CHECK(!gaps.empty() && gaps[0].kind == "damaged_line" && gaps[0].line == 2u);
    CHECK(gaps[0].offset == first_line.size() + 1 && gaps[0].length > 0u && !gaps[0].message.empty());

    int calls = 0;
    pi::Repository elsewhere = pi::open_repository("memory:");
    pi::RepairOptions repair;
    repair.into = &elsewhere;
    repair.session = "spoiled";
    repair.progress = [&](std::uint64_t, std::uint64_t) { calls++; };
    const pi::Repair repaired = pi::repair_file(path, repair);
    CHECK(repaired.info().id == "spoiled" && !repaired.info().is_sound && !repaired.findings().empty() && calls > 0);
    FAILS(SessionExists, pi::repair_file(path, repair));
    CHECK(repaired.findings()[0].line == 2u && elsewhere.open("spoiled").check().empty());
}

static void a_damaged_file_is_repaired(pi::Repository &repository) {
    const File old(damaged);
    const pi::Repair look = pi::repair_file(old.path);
    CHECK(look.info().source_id == "old" && !look.info().id && !look.info().path && !look.info().is_sound);
    CHECK(look.info().entries == 1 && look.info().messages == 1 && look.info().usage == 0);
    CHECK(look.warnings().size() == 1 && look.warnings()[0].kind == "torn_tail" && look.warnings()[0].line == 3);
    for (const pi::FindingView &finding : look.findings()) CHECK(!finding.kind.empty() && !finding.message.empty());
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(look.warnings()[1]); }));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(look.findings()[look.findings().size()]); }));

    pi::RepairOptions options;
    options.into = &repository;
    options.id = "mended";
    pi::Repair repair = pi::repair_file(old.path, options);
    CHECK(repair.info().id == "mended");
    CHECK(repair.info().path.has_value() == repository.open("mended").metadata().path.has_value());
    CHECK(repository.open("mended").stats().message_count == 1);
    const pi::Repair moved = std::move(repair);
    CHECK(repair.info().entries == 0 && repair.findings().empty() && repair.warnings().empty());

    const File nothing("nothing\n");
    FAILS(NotASession, pi::repair_file(nothing.path));
    FAILS(Io, pi::repair_file(nothing.folder / "absent" / "file"));
}

/// A repository that was moved from is not taken for none, which would mean a look only, or a copy beside the file.
static void a_repository_that_was_moved_from_is_misuse() {
    const File old(damaged);
    pi::Repository repository = pi::open_repository("memory:");
    const pi::Repository moved = std::move(repository);
    pi::RepairOptions repair;
    repair.into = &repository;
    FAILS(Misuse, pi::repair_file(old.path, repair));
    pi::OpenOptions copy;
    copy.legacy = pi::LegacyPolicy::Copy;
    copy.salvage = true;
    copy.copy_to = &repository;
    FAILS(Misuse, pi::open_file(old.path, copy));
    CHECK(std::distance(fs::directory_iterator(old.folder), fs::directory_iterator()) == 1);
}

static void sessions_are_converted_once() {
    pi::Repository from = pi::open_repository("memory:"), one = pi::open_repository("memory:"),
                   all = pi::open_repository("memory:");
    pi::Session session = large_session(from, "moved");
    std::uint64_t told = 0;
    pi::ConvertOptions options;
    options.progress = [&](std::uint64_t done, std::uint64_t) { told = done; };
    CHECK(session.convert(one, options) && told > 0 && !session.convert(one));
    CHECK(one.open("moved").dump() == session.dump());
    session.set_name("another");
    CHECK(throws<pi::SessionExistsError>([&] { session.convert(one); }));
    session.close();

    for (const bool made : {true, false}) {
        const pi::Conversions conversions = from.convert(all, options);
        CHECK(conversions.size() == 1);
        for (const pi::ConversionView &conversion : conversions) {
            CHECK(conversion.id == "moved" && conversion.made == made);
            CHECK(!conversion.problem && !conversion.problem_kind);
        }
    }
    const pi::Conversions refused = from.convert(one);
    CHECK(refused.size() == 1 && !refused[0].made && refused[0].problem && !refused[0].problem->empty());
    CHECK(refused[0].problem_kind == pi::ErrorKind::SessionExists);
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        a_check_names_what_is_wrong(repository);
        progress_may_end_a_call_and_may_throw(repository);
        a_damaged_file_is_repaired(repository);
        a_repository_that_was_moved_from_is_misuse();
        sessions_are_converted_once();
        if (std::string(argv[1]).rfind("jsonl:", 0) == 0) salvage_names_what_it_passed(repository);
    }
    CHECK(pi_debug_live_handles() == 0);
}

// Forks, files of version 3, import and export.
#include <fstream>

#include "check.hpp"

namespace fs = std::filesystem;

static const std::string header =
    R"({"type":"session","version":3,"id":"old","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/"})"
    "\n";
static const std::string message =
    R"({"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z",)"
    R"("message":{"role":"user","content":"hello"}})"
    "\n";
static const std::string torn = R"({"type":"message","id":"b")";

/// An old file in a folder that goes with it.
struct OldFile {
    explicit OldFile(const std::string &last_line) {
        std::string name = (fs::temp_directory_path() / "pisession-XXXXXX").string();
        CHECK(mkdtemp(name.data()) != nullptr);
        folder = name;
        path = folder / "old.jsonl";
        std::ofstream(path) << header << message << last_line;
    }
    OldFile(const OldFile &) = delete;
    OldFile &operator=(const OldFile &) = delete;
    ~OldFile() { fs::remove_all(folder); }

    fs::path folder, path;
};

static void forks_go_on_from_another_session(pi::Repository &repository) {
    pi::Session source = session_of(repository, "source");
    pi::Branch main = source.create_branch("main");
    const std::string first = main.append_message(user("one"));
    main.append_message(user("two"));

    CHECK(repository.fork(source).session.stats().message_count == 2);
    pi::ForkOptions options;
    options.branch = "main";
    options.entry_id = first;
    options.id = "path";
    options.cwd = "/elsewhere";
    const pi::Fork path = repository.fork(source, options);
    CHECK(path.session.stats().message_count == 1 && path.left_out == "[]");
    CHECK(path.session.metadata().parent_session_id == "source" && path.session.metadata().cwd == "/elsewhere");
    FAILS(SessionExists, repository.fork(source, options));
    options.id = std::nullopt;
    options.position = pi::ForkPosition::Before;
    CHECK(repository.fork(source, options).session.stats().message_count == 0);
    options.entry_id = "nobody";
    FAILS(UnknownEntry, repository.fork(source, options));

    source.set_value("pi.lane.config", "main", "{}");
    pi::ForkOptions tree;
    tree.scope = pi::ForkScope::Tree;
    CHECK(repository.fork(source, tree).left_out == R"(["main"])");
    tree.branch = "main";
    FAILS(InvalidArgument, repository.fork(source, tree));
}

static void an_old_file_is_read_with_its_warnings() {
    const OldFile old(torn);
    pi::Session session = pi::open_file(old.path);
    FAILS(LegacyReadOnly, session.set_name("no"));
    const std::optional<pi::Legacy> legacy = session.legacy();
    CHECK(legacy && legacy->info().version == 3 && legacy->info().session_id == "old" && !legacy->info().backup);
    CHECK(legacy->info().usage_rows == 0 && legacy->info().usage.find("totalTokens") != std::string_view::npos);
    CHECK(legacy->warnings().size() == 1);
    for (const pi::LegacyWarning &warning : legacy->warnings()) {
        CHECK(warning.kind == "torn_tail" && warning.line == 3 && warning.value == 0 && warning.is_damage);
        CHECK(warning.offset == header.size() + message.size() && warning.length == torn.size());
        CHECK(!warning.message.empty());
    }
    CHECK(legacy->ids().size() == 1 && legacy->ids()[0].old_id == "a");
    CHECK(session.get_entry(legacy->ids()[0].new_id));
    CHECK(throws<std::out_of_range>([&] { static_cast<void>(legacy->warnings()[1]); }));

    pi::OpenOptions strict;
    strict.strict = true;
    const pi::Error error = failure_of([&] { static_cast<void>(pi::open_file(old.path, strict)); });
    CHECK(error.kind() == pi::ErrorKind::Corrupt && error.line() == 3u && error.path() == old.path.native());
}

static void an_old_file_is_copied_or_upgraded(pi::Repository &repository) {
    const OldFile old("");
    pi::OpenOptions options;
    options.legacy = pi::LegacyPolicy::Copy;
    options.copy_to = &repository;
    {
        pi::Session copy = pi::open_file(old.path, options);
        copy.set_name("mine");
        CHECK(copy.metadata().id != "old" && copy.stats().message_count == 1 && copy.legacy());
        CHECK(fs::file_size(old.path) == header.size() + message.size());
    }
    options.legacy = pi::LegacyPolicy::Upgrade;
    options.copy_to = nullptr;
    pi::Session upgraded = pi::open_file(old.path, options);
    CHECK(upgraded.metadata().id == "old");
    upgraded.set_name("mine");
    CHECK(fs::path(*upgraded.legacy()->info().backup).filename() == "old.jsonl.v3.bak");
}

static void an_old_file_is_imported_and_exported(pi::Repository &repository) {
    const OldFile old(torn);
    FAILS(Corrupt, repository.import_file(old.path));
    pi::ImportOptions options;
    options.salvage = true;
    std::uint64_t told = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
        CHECK(done >= told && done <= all);
        told = done;
    };
    const pi::Import imported = repository.import_file(old.path, options);
    CHECK(imported.id == "old" && imported.added && imported.legacy.warnings().size() == 1);
    CHECK(told > 0);
    options.progress = nullptr;
    CHECK(!repository.import_file(old.path, options).added);
    options.id = "other";
    CHECK(repository.import_file(old.path, options).id == "other");
    options.strict = true;
    FAILS(Corrupt, repository.import_file(old.path, options));

    const pi::Session session = repository.open("old");
    CHECK(!session.legacy());
    const fs::path exported = old.folder / "exported.jsonl";
    CHECK(session.export_file(exported).find("\"losses\"") != std::string::npos);
    FAILS(SessionExists, session.export_file(exported));
    pi::ExportOptions over;
    over.overwrite = true;
    over.branch = "main";
    CHECK(!session.export_file(exported, over).empty() && pi::open_file(exported).stats().message_count == 1);
    over.branch = "nobody";
    FAILS(UnknownBranch, session.export_file(exported, over));
}

int main(int argc, char **argv) {
    {
        pi::Repository repository = repository_of(argc, argv);
        forks_go_on_from_another_session(repository);
        an_old_file_is_read_with_its_warnings();
        an_old_file_is_copied_or_upgraded(repository);
        an_old_file_is_imported_and_exported(repository);
    }
    CHECK(pi_debug_live_handles() == 0);
}

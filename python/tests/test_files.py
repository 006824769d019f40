"""Session files by their path: opened as they are, copied, upgraded, imported."""

import errno
import pickle
from pathlib import Path
from typing import Any

import pytest

import pisession

HEADER = (
    '{"type":"session","version":3,"id":"old","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/"}\n'
)
MESSAGE = (
    '{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06.000Z",'
    '"message":{"role":"user","content":"hello"}}\n'
)
TORN = '{"type":"message","id":"b","parentId":"a","timest'


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A session file that has nothing wrong."""
    path = tmp_path / "whole.jsonl"
    path.write_text(HEADER + MESSAGE)
    return path


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A session file whose last line breaks off."""
    path = tmp_path / "torn.jsonl"
    path.write_text(HEADER + MESSAGE + TORN)
    return path


def test_a_file_is_read_with_its_warnings_and_not_written(torn: Path) -> None:
    before = torn.read_bytes()
    with pisession.open_file(torn) as session:
        (entry,) = session.find_entries()
        assert isinstance(entry, pisession.MessageEntry)
        assert entry.message["content"] == "hello"
        assert session.legacy is not None
        assert (session.legacy.version, session.legacy.session_id) == (3, "old")
        assert session.legacy.ids == (("a", entry.id),)
        (warning,) = session.legacy.warnings
        assert (warning.kind, warning.line, warning.is_damage) == ("torn_tail", 3, True)
        assert warning.offset == len(HEADER + MESSAGE)
        assert warning.length == len(TORN)
        assert str(warning) == f"line 3: {warning.message} (torn_tail)"
        with pytest.raises(pisession.LegacyReadOnlyError):
            session.set_value("app", "x", 1)
    assert torn.read_bytes() == before
    with pytest.raises(pisession.CorruptError) as strict:
        pisession.open_file(str(torn), strict=True)
    assert (strict.value.path, strict.value.line) == (torn, 3)


def test_a_file_is_copied_into_a_repository(
    repository: pisession.Repository, whole: Path, torn: Path
) -> None:
    with pisession.open_file(whole, legacy="copy", copy_to=repository) as session:
        assert session.metadata.parent_session_id == "old"
        session.set_value("app", "x", 1)
        assert session.stats().message_count == 1
        assert session.legacy is not None
        assert session.legacy.warnings == ()
    assert [listing.id for listing in repository.list()] == [session.id]
    with pytest.raises(pisession.CorruptError):
        pisession.open_file(torn, legacy="copy", copy_to=repository)
    with pisession.open_file(torn, salvage=True, legacy="copy", copy_to=repository) as session:
        assert session.stats().message_count == 1
        assert session.legacy is not None
        assert [warning.kind for warning in session.legacy.warnings] == ["torn_tail"]


def test_a_file_is_copied_beside_itself(whole: Path) -> None:
    before = whole.read_bytes()
    with pisession.open_file(whole, legacy="copy") as session:
        session.set_name("copied")
        assert session.metadata.path is not None
        assert session.metadata.path.parent == whole.parent
    assert whole.read_bytes() == before


def test_a_file_is_upgraded_in_place(whole: Path, torn: Path) -> None:
    before = whole.read_bytes()
    with pisession.open_file(whole, legacy="upgrade") as session:
        assert (session.id, session.metadata.path) == ("old", whole)
        legacy = session.legacy
        assert legacy is not None
        assert legacy.backup == Path(f"{whole}.v3.bak")
        assert legacy.backup.read_bytes() == before
        assert pickle.loads(pickle.dumps(legacy)) == legacy
        session.set_name("goes on")
        with pytest.raises(pisession.SessionBusyError):
            pisession.open_file(whole)
    with pisession.open_file(whole, legacy="upgrade") as session:
        assert (session.legacy, session.name()) == (None, "goes on")
    with (
        pisession.open_file(whole, read_only=True) as session,
        pytest.raises(pisession.ReadOnlyError),
    ):
        session.set_name("no")
    with pytest.raises(pisession.CorruptError):
        pisession.open_file(torn, legacy="upgrade")
    with pisession.open_file(torn, legacy="upgrade", salvage=True) as session:
        assert session.stats().message_count == 1


def test_a_repository_opens_its_old_files_as_the_policy_says(whole: Path) -> None:
    with pisession.open_repository(f"jsonl:{whole.parent}") as repository:
        with (
            repository.open("old") as session,
            pytest.raises(pisession.LegacyReadOnlyError, match="upgrade"),
        ):
            session.set_name("no")
        with repository.open("old", legacy="copy") as session:
            assert session.metadata.parent_session_id == "old"
        with repository.open_read_only("old", strict=True) as session:
            assert session.stats().message_count == 1
        with repository.open("old", legacy="upgrade") as session:
            session.set_name("goes on")
        assert sorted(listing.format for listing in repository.list()) == ["jsonl-4", "jsonl-4"]
        with pytest.raises(pisession.InvalidArgumentError, match="no legacy policy"):
            repository.open("old", legacy="rewrite")  # type: ignore[arg-type]
        with pytest.raises(pisession.InvalidArgumentError, match="copy_to"):
            repository.open("old", legacy="upgrade", copy_to=repository)
        with pytest.raises(TypeError, match="copy_to must be a Repository, not str"):
            repository.open("old", legacy="copy", copy_to="jsonl:x")  # type: ignore[arg-type]


def test_a_copy_is_closed_with_its_repository(
    repository: pisession.Repository, whole: Path
) -> None:
    session = pisession.open_file(whole, legacy="copy", copy_to=repository)
    repository.close()
    assert session.closed


def test_a_file_is_imported_once(repository: pisession.Repository, whole: Path, torn: Path) -> None:
    first = pisession.import_file(whole, repository)
    assert (first.session.id, first.added, first.entries) == ("old", True, 1)
    assert first.legacy.warnings == ()
    assert [old for old, _ in first.legacy.ids] == ["a"]
    assert not pisession.import_file(whole, repository).added
    with repository.open(first.session) as session:
        assert session.stats().message_count == 1
    with pytest.raises(pisession.CorruptError):
        pisession.import_file(torn, repository, id="other")
    second = pisession.import_file(torn, repository, id="other", salvage=True)
    assert second.session.id == "other"
    assert [warning.kind for warning in second.legacy.warnings] == ["torn_tail"]


def test_what_is_no_session_file_is_refused(
    repository: pisession.Repository, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing\n")
    with pytest.raises(pisession.NotASessionError):
        pisession.open_file(path)
    with pytest.raises(pisession.NotASessionError):
        pisession.import_file(path, repository)
    with pytest.raises(OSError, match="cannot open") as absent:
        pisession.open_file(tmp_path / "absent.jsonl")
    assert absent.value.errno == errno.ENOENT
    with pytest.raises(TypeError, match=r"path must be a str or an os\.PathLike, not int"):
        pisession.open_file(3)  # type: ignore[arg-type]


def test_an_opened_file_is_left_open_quietly(whole: Path) -> None:
    with pytest.warns(ResourceWarning, match="unclosed <pisession.Session 'old'>"):
        pisession.open_file(whole)


def test_a_session_is_exported_as_the_file_it_came_from(
    repository: pisession.Repository, whole: Path, tmp_path: Path
) -> None:
    imported = pisession.import_file(whole, repository)
    out = tmp_path / "out.jsonl"
    with repository.open(imported.session) as session:
        export = session.export(out)
        assert out.read_bytes() == whole.read_bytes()
        assert export == pisession.Export(out, 1, 2, len(HEADER + MESSAGE), ())
        with pytest.raises(pisession.SessionExistsError) as exists:
            session.export(str(out))
        assert exists.value.path == out

        session.set_value("app", "x", 1)
        branch = session.branch("main")
        assert branch is not None
        branch.append_message({"role": "user", "content": "more"})
        export = session.export(out, overwrite=True)
        (loss,) = export.losses
        assert (loss.kind, loss.count, loss.name, loss.entry_id) == ("value", 1, "app", None)
        assert loss.address == pisession.Address("app", "x")
        assert str(loss) == "1 value in app (value)"
        text = out.read_text()
        assert text.startswith(HEADER + MESSAGE)
        assert text.count("\n") == export.lines == 3
        with pytest.raises(pisession.UnknownBranchError):
            session.export(tmp_path / "no.jsonl", branch="nobody's")
        assert not (tmp_path / "no.jsonl").exists()
        assert session.export(tmp_path / "branch.jsonl", branch="main").entries == 2


def old_file(folder: Path, entries: int = 20_000) -> Path:
    path = folder / "old.jsonl"
    lines = [
        '{"type":"session","version":3,"id":"old","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}'
    ]
    parent = "null"
    for number in range(entries):
        lines.append(
            f'{{"type":"message","id":"{number:08x}","parentId":{parent},'
            '"timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hello"}}'
        )
        parent = f'"{number:08x}"'
    path.write_text("\n".join(lines) + "\n")
    return path


def test_an_import_tells_of_its_progress(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with pisession.open_repository(f"sqlite:{tmp_path / 'sessions'}") as repository:
        done = pisession.import_file(
            old_file(tmp_path), repository, progress=lambda *progress: told.append(progress)
        )
    assert done.entries == 20_000
    assert told
    assert told == sorted(told)
    assert all(done <= all for done, all in told)


def test_what_progress_raises_ends_the_import_which_can_be_run_again(tmp_path: Path) -> None:
    def stop(done: int, all: int) -> None:
        raise StopAsyncIteration(f"{done} of {all}")

    path = old_file(tmp_path)
    with pisession.open_repository(f"sqlite:{tmp_path / 'sessions'}") as repository:
        with pytest.raises(StopAsyncIteration):
            pisession.import_file(path, repository, progress=stop)
        assert pisession.import_file(path, repository).entries == 20_000
        wrong: Any = "x"
        with pytest.raises(TypeError, match="progress must be callable, not str"):
            pisession.import_file(path, repository, progress=wrong)


def test_a_damaged_file_is_read_past_its_gaps(tmp_path: Path) -> None:
    with pisession.open_repository(f"jsonl:{tmp_path}") as repository:
        with repository.create(id="s") as session:
            assert session.gaps() == ()
            main = session.create_branch("main")
            main.append_message({"role": "user"})
            session.set_value("app", "x", 1)
            session.set_value("app", "y", 2)
            path = session.metadata.path
        assert path is not None
        lines = path.read_bytes().splitlines(keepends=True)
        lines[3] = b"{broken\n"
        path.write_bytes(b"".join(lines))
        with pytest.raises(pisession.CorruptError):
            repository.open("s")
        with repository.open("s", salvage=True) as session:
            (gap,) = session.gaps()
            assert (gap.line, gap.offset, gap.length) == (4, sum(map(len, lines[:3])), 7)
            assert str(gap) == f"line 4: {gap.reason}"
            assert (session.get_value("app", "x"), session.get_value("app", "y")) == (None, 2)
            with pytest.raises(pisession.ReadOnlyError):
                session.set_name("x")


def test_compaction_drops_what_is_dead(session: pisession.Session) -> None:
    for number in range(100):
        session.set_value("app", "x", "x" * number)
    path = session.metadata.path
    if path is None or path.suffix != ".jsonl":
        with pytest.raises(pisession.UnsupportedError):
            session.compact()
        return
    done = session.compact()
    assert done.after == path.stat().st_size < done.before
    assert session.get_value("app", "x") == "x" * 99


def test_addresses_are_read_in_pages(session: pisession.Session) -> None:
    keys = [f"{number:04}" for number in range(2500)]
    with session.begin_mutation() as m:
        for key in keys:
            m.set_value("app", key, 1)
            m.append_list("app", key, 1)
    for addresses in (session.value_addresses, session.list_addresses):
        assert [address.key for address in addresses()] == keys
        after = pisession.Address("app", keys[2000])
        assert [address.key for address in addresses(after=after)] == keys[2001:]
    iterator = session.value_addresses()
    session.close()
    with pytest.raises(pisession.ClosedError):
        session.value_addresses()
    with pytest.raises(pisession.ClosedError):
        list(iterator)

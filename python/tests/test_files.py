"""Session files by their path: opened as they are, copied, upgraded, imported."""

import errno
import pickle
from pathlib import Path

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

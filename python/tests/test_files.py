"""Session files of versions 1 to 3: opened as they are, copied, imported, never written."""

import errno
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
        (warning,) = session.file_warnings
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
    with pisession.open_file(whole, copy_to=repository) as session:
        assert session.metadata.parent_session_id == "old"
        session.set_value("app", "x", 1)
        assert session.stats().message_count == 1
        assert session.file_warnings == ()
    assert [listing.id for listing in repository.list()] == [session.id]
    with pytest.raises(pisession.CorruptError):
        pisession.open_file(torn, copy_to=repository)
    with pisession.open_file(torn, salvage=True, copy_to=repository) as session:
        assert session.stats().message_count == 1
        assert [warning.kind for warning in session.file_warnings] == ["torn_tail"]


def test_a_copy_is_closed_with_its_repository(
    repository: pisession.Repository, whole: Path
) -> None:
    session = pisession.open_file(whole, copy_to=repository)
    repository.close()
    assert session.closed


def test_a_file_is_imported_once(repository: pisession.Repository, whole: Path, torn: Path) -> None:
    first = pisession.import_file(whole, repository)
    assert (first.session.id, first.added, first.entries, first.warnings) == ("old", True, 1, ())
    assert not pisession.import_file(whole, repository).added
    with repository.open(first.session) as session:
        assert session.stats().message_count == 1
    with pytest.raises(pisession.CorruptError):
        pisession.import_file(torn, repository, id="other")
    second = pisession.import_file(torn, repository, id="other", salvage=True)
    assert second.session.id == "other"
    assert [warning.kind for warning in second.warnings] == ["torn_tail"]


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

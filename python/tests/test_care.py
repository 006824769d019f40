"""Repairing sessions, and copying them elsewhere as they are."""

from pathlib import Path

import pytest

import pisession


@pytest.fixture
def lines(tmp_path: Path) -> pisession.Repository:
    """A repository of JSON lines with a session `s` of two messages."""
    repository = pisession.open_repository(f"jsonl:{tmp_path / 'lines'}")
    with repository.create(id="s", cwd="/home/ada") as session:
        main = session.create_branch("main")
        for text in ("first", "second"):
            main.append_message({"role": "user", "content": text})
    return repository


def path_of(repository: pisession.Repository) -> Path:
    (listing,) = repository.list()
    assert listing.path is not None
    return listing.path


def test_a_damaged_file_is_looked_at_and_repaired(
    lines: pisession.Repository, repository: pisession.Repository
) -> None:
    path = path_of(lines)
    damaged = path.read_bytes().replace(b'"content":"first"', b'"content:"first"')
    path.write_bytes(damaged)
    look = pisession.repair_file(path)
    assert (look.session, look.source.id, look.is_sound) == (None, "s", False)
    assert [finding.kind for finding in look.findings] == ["damaged_line", "parent_of_nothing"]
    assert (look.findings[0].line, look.kept.entries) == (3, 1)
    repair = pisession.repair_file(path, repository, id="new")
    assert repair.session is not None
    assert (repair.findings, repair.kept) == (look.findings, look.kept)
    with repository.open(repair.session) as session:
        assert [entry.parent_id for entry in session.find_entries()] == [None]
    assert path.read_bytes() == damaged
    with pytest.raises(pisession.SessionExistsError):
        pisession.repair_file(path, repository, id="new")


def test_what_holds_no_session_is_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing\n")
    with pytest.raises(pisession.NotASessionError):
        pisession.repair_file(path)


def test_a_session_is_converted_once(
    lines: pisession.Repository, repository: pisession.Repository
) -> None:
    with lines.open_read_only("s") as session:
        first = pisession.convert_session(session, repository)
        assert (first.session.id, first.session.cwd, first.made) == ("s", "/home/ada", True)
        assert not pisession.convert_session(session, repository).made
    with repository.open("s") as session:
        assert len(session.find_entries()) == 2
        session.set_name("other")
    with lines.open_read_only("s") as session, pytest.raises(pisession.SessionExistsError):
        pisession.convert_session(session, repository)


def test_a_whole_repository_is_converted_past_what_fails(
    lines: pisession.Repository, repository: pisession.Repository
) -> None:
    path_of(lines).with_name("bad.jsonl").write_text("nothing\n")
    done = {
        converted.source.id: converted
        for converted in pisession.convert_repository(lines, repository)
    }
    assert done["s"].conversion is not None
    assert done["s"].conversion.made
    assert isinstance(done[None].error, pisession.NotASessionError)
    assert [listing.id for listing in repository.list()] == ["s"]


def test_a_check_names_what_is_wrong(repository: pisession.Repository) -> None:
    with repository.create() as session:
        main = session.create_branch("main")
        main.append_many([pisession.NewMessage({"role": "user"}) for _ in range(10)])
        told: list[int] = []
        assert session.check(progress=told.append) == ()
        assert session.check(depth="full") == ()
        session.set_label("nothing", "x")
        for depth in ("brief", "quick", "full"):
            (finding,) = session.check(depth=depth)
            assert (finding.kind, finding.id) == ("label_of_nothing", "nothing")
        assert told == sorted(told)
        with pytest.raises(pisession.InvalidArgumentError, match="no depth"):
            session.check(depth="deep")  # type: ignore[arg-type]


def test_what_progress_of_a_conversion_raises_ends_it(
    repository: pisession.Repository, tmp_path: Path
) -> None:
    def stop(done: int) -> None:
        raise ZeroDivisionError(str(done))

    with (
        pisession.open_repository(f"jsonl:{tmp_path / 'into'}") as into,
        repository.create(id="s", cwd="/") as session,
    ):
        main = session.create_branch("main")
        main.append_many([pisession.NewMessage({"role": "user"}) for _ in range(3000)])
        with pytest.raises(ZeroDivisionError):
            pisession.convert_session(session, into, progress=stop)
        told: list[int] = []
        assert pisession.convert_session(session, into, progress=told.append).session.id == "s"
        assert told

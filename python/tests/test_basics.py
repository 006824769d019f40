"""Everyday use: repositories, sessions, branches, entries, lists, labels, usage, files."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import pisession
from pisession import NewCustomEntry, NewMessage, Usage


def say(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def test_a_fresh_session_has_metadata_and_nothing_else(repository: pisession.Repository) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    with repository.create(id="first", parent_session_id="older", cwd=Path("/tmp")) as session:
        assert session.id == session.metadata.id == "first"
        assert session.metadata.parent_session_id == "older"
        assert session.metadata.cwd == "/tmp"
        assert session.metadata.storage_version == 1
        assert before < session.metadata.created < datetime.now(UTC) + timedelta(seconds=5)
        assert session.branches() == []
        assert session.branch("main") is None
        assert session.name() is None
        assert session.stats() == pisession.Stats(0, Usage())
        assert session.find_entries() == []


def test_what_was_written_is_there_after_reopening(repository: pisession.Repository) -> None:
    with repository.create(id="s") as session:
        session.set_name("notebook")
        id = session.create_branch("main").append_message(say("hello"))
    with repository.open("s") as session:
        assert session.name() == "notebook"
        main = session.branch("main")
        assert main is not None
        assert main.tip_id() == id


def test_a_session_is_opened_by_its_listing_its_metadata_or_its_id(
    repository: pisession.Repository,
) -> None:
    repository.create(id="s").close()
    (listing,) = repository.list()
    assert listing.metadata is not None
    for name in (listing, listing.metadata, "s"):
        with repository.open(name) as session:
            assert session.id == "s"
    with pytest.raises(TypeError, match="a session is named by a str or its metadata, not int"):
        repository.open(5)  # type: ignore[arg-type]


def test_a_listing_looks_up_details_only_when_asked(repository: pisession.Repository) -> None:
    with repository.create(id="s") as session:
        session.set_name("notebook")
        session.create_branch("main").append_message(say("hello"))
    (plain,) = repository.list()
    (detailed,) = repository.list(details=True)
    assert (plain.id, plain.name, plain.message_count) == ("s", None, None)
    assert (detailed.id, detailed.name, detailed.message_count) == ("s", "notebook", 1)
    assert plain.problem is None


def test_one_writer_and_any_number_of_readers(repository: pisession.Repository) -> None:
    with repository.create(id="s") as writer:
        with pytest.raises(pisession.SessionBusyError) as caught:
            repository.open("s")
        assert caught.value.retryable
        with pytest.raises(pisession.SessionBusyError):
            repository.delete("s")
        with repository.open_read_only("s") as reader, repository.open_read_only("s"):
            writer.set_name("notebook")
            assert reader.name() == "notebook"
            with pytest.raises(pisession.ReadOnlyError):
                reader.set_name("mine")


def test_deleting(repository: pisession.Repository) -> None:
    repository.create(id="s").close()
    repository.delete("s")
    assert repository.list() == []
    with pytest.raises(FileNotFoundError):
        repository.delete("s")


def test_branches_grow_along_their_own_paths(session: pisession.Session) -> None:
    main = session.create_branch("main")
    assert main.tip_id() is None
    assert main.find_entries() == []
    assert main.find_entry() is None
    question = main.append_message(say("2+2?"))
    wrong = main.append_message(say("5", "assistant"))
    again = session.create_branch("again", question)
    right = again.append_message(say("4", "assistant"))
    assert [entry.id for entry in main.find_entries()] == [wrong, question]
    assert [entry.id for entry in again.find_entries(order="oldest_first")] == [question, right]
    assert session.branches() == [
        pisession.BranchInfo("again", right),
        pisession.BranchInfo("main", wrong),
    ]
    assert {entry.id for entry in session.find_entries()} == {question, wrong, right}
    assert session.branch("again") == again != main
    assert len({again, session.branch("again"), main}) == 2


def test_appends_of_every_sort(session: pisession.Session, main: pisession.Branch) -> None:
    main.append_message(say("hello"))
    main.append_custom_entry("note")
    main.append_custom_entry("note", None)
    main.append_custom_entry("note", {"n": [1, 2]})
    ids = main.append_many(
        [NewMessage(say("a")), NewCustomEntry("mark"), NewCustomEntry("mark", {"b": 1})]
    )
    assert main.append_many([]) == []
    found = main.find_entries(order="oldest_first")
    assert [entry.id for entry in found[-3:]] == ids
    assert main.tip_id() == ids[-1]
    notes = main.find_entries(custom_type="note", order="oldest_first")
    seen = [(note.data, note.has_data) for note in notes if isinstance(note, pisession.CustomEntry)]
    assert seen == [(None, False), (None, True), ({"n": [1, 2]}, True)]
    with pytest.raises(TypeError, match="a node is a NewMessage or a NewCustomEntry, not dict"):
        main.append_many([say("b")])  # type: ignore[list-item]
    with pytest.raises(pisession.PendingAssistantError):
        main.append_message({"role": "assistant", "stopReason": "pending", "content": []})


def test_queries_stop_filter_page_and_limit(main: pisession.Branch) -> None:
    first = main.append_message(say("1"))
    main.append_custom_entry("mark")
    third = main.append_message(say("3"))
    fourth = main.append_message(say("4"))

    def ids(**query: Any) -> list[str]:
        return [entry.id for entry in main.find_entries(**query)]

    assert ids(type="message", limit=2) == [fourth, third]
    assert ids(stop_at_type="custom", type="message") == [fourth, third]
    assert ids(stop_at_id=third) == [fourth, third]
    assert ids(limit=0) == []
    newest = main.find_entry()
    assert newest is not None
    assert newest.id == fourth
    assert ids(cursor=newest.seq, type="message") == [third, first]
    oldest = main.find_entry(order="oldest_first", type="message")
    assert oldest is not None
    assert oldest.id == first


def test_iterators_give_what_find_entries_gives(
    session: pisession.Session, main: pisession.Branch
) -> None:
    main.append_many([NewMessage(say(str(number))) for number in range(600)])
    assert list(main.entries()) == main.find_entries()
    assert list(main.entries(order="oldest_first", limit=300)) == main.find_entries(
        order="oldest_first", limit=300
    )
    assert list(session.entries(type="message")) == session.find_entries(type="message")
    along = iter(main.entries())
    next(along)
    main.append_message(say("later"))
    assert len(list(along)) == 599, "a path is a snapshot"


def test_entries_are_got_by_id_in_the_order_asked(
    session: pisession.Session, main: pisession.Branch
) -> None:
    first, second = main.append_message(say("1")), main.append_message(say("2"))
    found = session.get_entries([second, "nobody", first, second])
    assert [entry.id for entry in found] == [second, first, second]
    assert session.get_entry("nobody") is None
    structure = session.scan_branch_structure(second)
    assert [(at.id, at.parent_id, at.type) for at in structure] == [
        (second, first, "message"),
        (first, None, "message"),
    ]
    assert session.scan_branch(second) == main.find_entries()
    with pytest.raises(pisession.UnknownEntryError):
        session.scan_branch("nobody")
    with pytest.raises(TypeError, match="not one str"):
        session.get_entries("ab")


def test_values(session: pisession.Session) -> None:
    assert session.get_value("app", "counter") is None
    assert session.get_value("app", "counter", default=7) == 7
    session.set_value("app", "counter", 1)
    session.set_value("app", "", None)
    session.set_value("app", "count/a", "a")
    assert session.get_value("app", "counter") == 1
    assert session.get_value("app", default=7) is None, "a null is a value"
    stored = session.get_stored_value("app", "counter")
    assert stored is not None
    assert (stored.value, stored.value_json) == (1, b"1")
    assert [value.key for value in session.scan_values("app", "count")] == ["count/a", "counter"]
    assert list(session.value_addresses()) == [
        pisession.Address("app", ""),
        pisession.Address("app", "count/a"),
        pisession.Address("app", "counter"),
    ]
    session.delete_value("app", "counter")
    session.delete_value("app", "counter")
    assert session.get_stored_value("app", "counter") is None


def test_lists(session: pisession.Session) -> None:
    for number in range(5):
        session.append_list("app", "log", number)
    elements = session.read_list("app", "log")
    assert [element.value for element in elements] == [0, 1, 2, 3, 4]
    after = session.read_list("app", "log", cursor=elements[1].seq, limit=2)
    assert [element.value for element in after] == [2, 3]
    newest = session.read_list("app", "log", order="desc", limit=1)
    assert [element.value for element in newest] == [4]
    assert list(session.list_addresses()) == [pisession.Address("app", "log")]
    session.delete_list("app", "log")
    assert session.read_list("app", "log") == []
    with pytest.raises(pisession.InvalidArgumentError):
        session.read_list("app", "log", limit=0)


def test_name_and_labels(session: pisession.Session, main: pisession.Branch) -> None:
    id = main.append_message(say("hello"))
    session.set_name("notebook")
    session.set_label(id, "start")
    assert (session.name(), session.get_label(id)) == ("notebook", "start")
    session.set_name(None)
    session.set_label(id, None)
    assert (session.name(), session.get_label(id)) == (None, None)


def test_the_ledger_and_its_sums(session: pisession.Session) -> None:
    one = Usage(2, 3, total_tokens=5, reasoning=1, cost=pisession.Cost(0.1, 0.2, total=0.3))
    with session.begin_mutation() as m:
        id = m.insert_usage(one, details={"why": "test"})
        m.insert_usage(one, id="second", entry_id="some", adjustment=True)
        m.insert_usage_row({"usage": one.to_dict() | {"vendor": 1}, "adjustment": False})
    stats = session.stats()
    assert (stats.message_count, stats.usage.input, stats.usage.reasoning) == (0, 6, 3)
    assert stats.usage.cost.total == 0.3 + 0.3 + 0.3
    assert stats.usage.cache_write_1h is None
    rows = session.scan_usage()
    assert [row.id for row in rows][:2] == [id, "second"]
    assert [row.adjustment for row in rows] == [False, True, False]
    assert rows[0].usage == one
    assert rows[0].details == {"why": "test"}
    assert rows[1].entry_id == "some"
    assert rows[2].payload["usage"]["vendor"] == 1
    assert session.scan_usage(order="desc", limit=1) == rows[2:]


def test_every_kind_of_entry_has_a_class_of_its_own(session: pisession.Session) -> None:
    usage = Usage(1, 2, total_tokens=3)
    common: dict[str, Any] = {"usage": usage.to_dict(), "details": {"d": 1}, "fromHook": True}
    with session.begin_mutation() as m:
        root = m.insert_message(say("hello"), parent_id=None, terminate=True)
        fields = {"summary": "so far", "retainedTail": [say("x")], "tokensBefore": 12, **common}
        m.insert_entry({"id": "c", "parentId": root, "type": "compaction", **fields})
        fields = {"fromId": root, "summary": "left", **common}
        m.insert_entry({"id": "b", "parentId": "c", "type": "branch_summary", **fields})
        m.insert_custom_entry("note", [1], parent_id="b", id="n")
        m.set_branch_tip("main", "n")
    for entry in session.find_entries():
        match entry:
            case pisession.MessageEntry(role="user", message={"content": text}):
                assert (text, entry.terminate, entry.parent_id) == ("hello", True, None)
            case pisession.CompactionEntry(summary="so far", tokens_before=12):
                assert entry.retained_tail == [say("x")]
                assert (entry.usage, entry.details, entry.from_hook) == (usage, {"d": 1}, True)
            case pisession.BranchSummaryEntry(summary="left", from_id=from_id):
                assert from_id == root
                assert (entry.usage, entry.details, entry.from_hook) == (usage, {"d": 1}, True)
            case pisession.CustomEntry(custom_type="note", data=[1]):
                with pytest.raises(AttributeError, match="a custom entry has no message"):
                    print(entry.message)
            case _:
                pytest.fail(f"{entry!r} matched nothing")
    assert [entry.type for entry in session.find_entries(order="asc")] == [
        "message",
        "compaction",
        "branch_summary",
        "custom",
    ]


def test_query_and_backup_are_for_sqlite(
    uri: str, session: pisession.Session, main: pisession.Branch, tmp_path: Path
) -> None:
    main.append_message(say("hello"))
    if not uri.startswith("sqlite:"):
        with pytest.raises(NotImplementedError):
            session.query("SELECT 1")
        with pytest.raises(pisession.UnsupportedError):
            session.backup_to(tmp_path / "copy.db")
        return
    rows = session.query("SELECT type, ?, ?, ?, ? FROM entry", ["a", 1.5, None, b"b"])
    assert list(rows) == [("message", "a", 1.5, None, b"b")]
    assert rows.columns[0] == "type"
    with pytest.raises(pisession.InvalidArgumentError):
        session.query("DELETE FROM entry")
    session.backup_to(tmp_path / "copy.db")
    with pytest.raises(FileExistsError):
        session.backup_to(tmp_path / "copy.db")
    with (
        pisession.open_repository(f"sqlite:{tmp_path / 'copy.db'}") as copies,
        copies.open(session.id) as copy,
    ):
        assert copy.find_entries() == session.find_entries()


def test_closing_is_idempotent_and_every_handle_knows(session: pisession.Session) -> None:
    main = session.create_branch("main")
    session.close()
    session.close()
    assert session.closed
    for call in (session.stats, main.tip_id, session.begin_mutation, session.name):
        with pytest.raises(pisession.ClosedError):
            call()


def test_closing_the_repository_closes_its_sessions(repository: pisession.Repository) -> None:
    sessions = [repository.create(), repository.create()]
    repository.close()
    repository.close()
    for session in sessions:
        assert session.closed
        with pytest.raises(pisession.ClosedError):
            session.name()


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert pisession.__version__ == version("pisession")


def test_paths_are_taken_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in ("", "sessions", "memory:x", "nonsense:x"):
        with pytest.raises(pisession.InvalidArgumentError):
            pisession.open_repository(wrong)
    with pytest.raises(pisession.InvalidArgumentError, match="durability"):
        pisession.open_repository("memory:", durability="none")  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []

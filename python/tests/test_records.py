"""Records are frozen, equal, printable and picklable; handles are not picklable and say why."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

import pisession
from pisession import NewMessage


def records(session: pisession.Session, repository: pisession.Repository) -> list[Any]:
    main = session.create_branch("main")
    main.append_many([NewMessage({"role": "user", "content": "hello" * 100})])
    main.append_custom_entry("note", {"n": 1})
    session.append_list("app", "log", 1)
    with session.begin_mutation() as m:
        m.insert_usage(pisession.Usage(1, 2), details=[1])
        m.set_value("app", "x", [1])
        result = m.commit()
    stored = session.get_stored_value("app", "x")
    return [
        *main.find_entries(),
        *session.scan_usage(),
        *session.read_list("app", "log"),
        *session.branches(),
        *session.value_addresses(),
        *repository.list(details=True),
        *session.scan_branch_structure(main.tip_id() or ""),
        session.metadata,
        session.stats(),
        session.stats().usage.cost,
        stored,
        result,
        pisession.RawJson("1"),
        pisession.NewCustomEntry("note"),
    ]


def test_records_are_equal_hashable_frozen_and_picklable(
    session: pisession.Session, repository: pisession.Repository
) -> None:
    for record in records(session, repository):
        for name in ("payload", "value", "message"):
            getattr(record, name, None)
        again = pickle.loads(pickle.dumps(record))
        assert again == record == copy.deepcopy(record)
        assert type(again) is type(record)
        assert hash(again) == hash(record)
        assert {again: 1}[record] == 1
        field = dataclasses.fields(record)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field, None)
        assert repr(again) == repr(record)
        assert repr(record).startswith(type(record).__name__ + "(")


def test_a_payload_is_converted_once_and_is_no_part_of_the_record(
    main: pisession.Branch,
) -> None:
    main.append_message({"role": "user", "content": []})
    (entry,) = main.find_entries()
    assert entry.message is entry.message
    entry.message["content"].append("mine")
    (fresh,) = main.find_entries()
    assert entry == fresh
    assert fresh.message["content"] == []
    assert pickle.loads(pickle.dumps(entry)).message["content"] == []


def test_the_repr_of_an_entry_is_short(main: pisession.Branch) -> None:
    main.append_message({"role": "user", "content": "😀" * 10_000})
    (entry,) = main.find_entries()
    assert len(repr(entry)) < 200
    assert "MessageEntry(id=" in repr(entry)
    assert '"role":"user"' in repr(entry)


def test_records_match_by_position_too() -> None:
    match pisession.BranchInfo("main", "tip"):
        case pisession.BranchInfo(name, tip):
            assert (name, tip) == ("main", "tip")


def test_times_stand_beside_milliseconds(main: pisession.Branch) -> None:
    main.append_message({"role": "user"})
    (entry,) = main.find_entries()
    assert round(entry.time.timestamp() * 1000) == entry.timestamp
    assert entry.time.tzinfo is not None


def test_handles_refuse_pickling_with_the_reason(
    session: pisession.Session, repository: pisession.Repository, main: pisession.Branch
) -> None:
    with session.begin_mutation() as m:
        for handle in (repository, session, main, m, pisession.Context()):
            for refuse in (pickle.dumps, copy.copy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    refuse(handle)


def test_handles_have_a_repr_that_names_them(
    uri: str, session: pisession.Session, repository: pisession.Repository, main: pisession.Branch
) -> None:
    assert repr(repository) == f"<pisession.Repository {uri!r}>"
    assert repr(session) == f"<pisession.Session {session.id!r}>"
    assert repr(main) == f"<pisession.Branch 'main' of {session!r}>"
    with session.begin_mutation() as m:
        assert repr(m) == f"<pisession.Mutation of {session!r}>"
    assert repr(pisession.Context()) == "<pisession.Context active>"
    session.close()
    assert repr(session) == f"<pisession.Session {session.id!r} closed>"


def test_absent_is_one_thing(tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(pisession.ABSENT)) is pisession.ABSENT
    assert copy.deepcopy(pisession.ABSENT) is pisession.ABSENT
    assert repr(pisession.ABSENT) == "pisession.ABSENT"

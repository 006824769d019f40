"""Forks: what they take, what is refused, and that a fork is a session like others."""

from __future__ import annotations

import dataclasses

import pytest

import pisession
from pisession import Repository, Session


def question(session: Session) -> str:
    main = session.branch("main") or session.create_branch("main")
    first = main.append_message({"role": "user", "content": "a"})
    main.append_message({"role": "user", "content": "b"})
    return first


def test_a_fork_goes_on_from_an_entry_of_an_open_session(repository: Repository) -> None:
    with repository.create(id="source") as session:
        first = question(session)
        with session.begin_mutation():
            # It waits for nobody.
            fork = repository.fork(session, entry=first, id="fork")
        assert fork.left_out == ()
        with fork.session as made:
            assert made.metadata.parent_session_id == "source"
            branch = made.branch("main")
            assert branch is not None
            assert branch.tip_id() == first
            branch.append_message({"role": "user", "content": "another way"})
            assert made.stats().message_count == 2
        with repository.fork(session, branch="main", position="before").session as before:
            assert before.stats().message_count == 1
        with pytest.raises(pisession.SessionExistsError):
            repository.fork(session, tree=True, id="fork")
        with pytest.raises(dataclasses.FrozenInstanceError):
            fork.left_out = ("x",)  # type: ignore[misc]


def test_half_a_lane_is_left_out_of_a_tree(repository: Repository) -> None:
    with repository.create() as session:
        question(session)
        session.set_value("pi.lane.config", "main", {})
        fork = repository.fork(session, tree=True)
        fork.session.close()
        assert fork.left_out == ("main",)
        with pytest.raises(pisession.CorruptError):
            repository.fork(session)


def test_what_makes_no_sense_is_refused(repository: Repository) -> None:
    with repository.create() as session:
        first = question(session)
        with pytest.raises(pisession.InvalidArgumentError):
            repository.fork(session, tree=True, entry=first)
        with pytest.raises(pisession.InvalidArgumentError):
            repository.fork(session, position="behind")  # type: ignore[arg-type]
        with pytest.raises(pisession.UnknownBranchError):
            repository.fork(session, branch="none")
        with pytest.raises(pisession.UnknownEntryError):
            repository.fork(session, entry="none")
        assert len(repository.list()) == 1
    with pytest.raises(pisession.ClosedError):
        repository.fork(session)


def test_a_fork_closes_with_its_repository() -> None:
    with pisession.open_repository("memory:") as repository:
        source = repository.create()
        fork = repository.fork(source, tree=True).session
    assert fork.closed
    assert source.closed


def test_a_session_of_the_repository_is_forked_by_what_names_it(repository: Repository) -> None:
    with repository.create(id="source") as session:
        first = question(session)
        # It may be open for writing.
        forks = [
            repository.fork("source", entry=first),
            repository.fork(session.metadata, tree=True),
        ]
    (listing,) = [listing for listing in repository.list() if listing.id == "source"]
    forks.append(repository.fork(listing, branch="main"))
    for fork, messages in zip(forks, (1, 2, 2), strict=True):
        with fork.session as made:
            assert made.metadata.parent_session_id == "source"
            assert made.stats().message_count == messages
    with pytest.raises(pisession.UnknownSessionError):
        repository.fork("none")
    with pytest.raises(TypeError, match="named by a str or its metadata, not int"):
        repository.fork(5)  # type: ignore[arg-type]

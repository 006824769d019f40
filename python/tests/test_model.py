"""Any sequence of operations leaves what a few dicts would hold, on every backend."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass, field
from typing import Any

import pytest
from conftest import URIS
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import pisession
from pisession import NewCustomEntry, NewMessage

# Few names, so that operations meet; of every kind.
NAMESPACES = st.sampled_from(["app", "app.b", "ä"])
KEYS = st.sampled_from(["", "a", "a/b", "\U0001f600", "z" * 300])
BRANCHES = st.sampled_from(["main", "other", "ü/ß"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab\n", max_size=2), inner, max_size=3)
    ),
    max_leaves=5,
)
PICK = st.integers(0, 10**6)


@dataclass
class Model:
    """What a session holds."""

    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    lists: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    entries: dict[str, tuple[str | None, Any]] = field(default_factory=dict)
    branches: dict[str, str | None] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    inputs: int = 0

    def path(self, tip: str | None) -> list[str]:
        """The ids from `tip` to its root."""
        path = []
        while tip is not None:
            path.append(tip)
            tip = self.entries[tip][0]
        return path


class Sessions(RuleBasedStateMachine):
    """Operations on one session at a time, and on the dicts."""

    uri: str

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.repository = self.open_repository()
        self.session = self.repository.create(cwd="/work")
        self.model = Model()
        self.left: dict[str, Model] = {}

    def open_repository(self) -> pisession.Repository:
        uri = self.uri.format(folder=self.folder.name + "/sessions")
        return pisession.open_repository(uri, durability="process")

    def teardown(self) -> None:
        """Everything that was left by a fork is as it was left."""
        for id, model in self.left.items():
            with self.repository.open_read_only(id) as session:
                check(session, model)
        self.repository.close()
        self.folder.cleanup()

    @rule(namespace=NAMESPACES, key=KEYS, value=JSON)
    def set_value(self, namespace: str, key: str, value: Any) -> None:
        self.session.set_value(namespace, key, value)
        self.model.values[namespace, key] = value

    @rule(namespace=NAMESPACES, key=KEYS)
    def delete_value(self, namespace: str, key: str) -> None:
        self.session.delete_value(namespace, key)
        self.model.values.pop((namespace, key), None)

    @rule(namespace=NAMESPACES, key=KEYS, element=JSON)
    def append_list(self, namespace: str, key: str, element: Any) -> None:
        self.session.append_list(namespace, key, element)
        self.model.lists.setdefault((namespace, key), []).append(element)

    @rule(namespace=NAMESPACES, key=KEYS)
    def delete_list(self, namespace: str, key: str) -> None:
        self.session.delete_list(namespace, key)
        self.model.lists.pop((namespace, key), None)

    @rule(name=BRANCHES, pick=st.none() | PICK)
    def create_branch(self, name: str, pick: int | None) -> None:
        at = self.some_entry(pick)
        if name in self.model.branches:
            with pytest.raises(pisession.BranchExistsError):
                self.session.create_branch(name, at)
        else:
            self.session.create_branch(name, at)
            self.model.branches[name] = at

    @rule(name=BRANCHES, contents=st.lists(JSON, min_size=1, max_size=4), custom=st.booleans())
    def append(self, name: str, contents: list[Any], custom: bool) -> None:
        branch = self.session.branch(name)
        assert (branch is None) == (name not in self.model.branches)
        if branch is None:
            return
        nodes = [
            NewCustomEntry("note", content)
            if custom
            else NewMessage({"role": "user", "content": content})
            for content in contents
        ]
        for id, content in zip(branch.append_many(nodes), contents, strict=True):
            self.model.entries[id] = (self.model.branches[name], content)
            self.model.branches[name] = id

    @rule(name=st.none() | st.text("ab", max_size=3))
    def set_name(self, name: str | None) -> None:
        self.session.set_name(name)
        self.model.name = name

    @precondition(lambda self: self.model.entries)
    @rule(pick=PICK, label=st.none() | st.text("ab", min_size=1, max_size=3))
    def set_label(self, pick: int, label: str | None) -> None:
        id = self.some_entry(pick)
        assert id is not None
        self.session.set_label(id, label)
        self.model.labels.pop(id, None)
        if label is not None:
            self.model.labels[id] = label

    @rule(
        writes=st.lists(st.tuples(NAMESPACES, KEYS, JSON, st.booleans()), max_size=5),
        tip=st.none() | PICK,
        fails=st.booleans(),
    )
    def mutate(
        self, writes: list[tuple[str, str, Any, bool]], tip: int | None, fails: bool
    ) -> None:
        after = copy.deepcopy(self.model)

        def body(m: pisession.Mutator) -> None:
            for namespace, key, value, is_list in writes:
                if is_list:
                    m.append_list(namespace, key, value)
                    after.lists.setdefault((namespace, key), []).append(value)
                else:
                    m.set_value(namespace, key, value)
                    after.values[namespace, key] = value
            parent = self.some_entry(tip)
            id = m.insert_message({"role": "user", "content": 1}, parent_id=parent)
            m.set_branch_tip("moved", id)
            m.insert_usage(pisession.Usage(input=3, total_tokens=3), entry_id=id)
            after.entries[id] = (parent, 1)
            after.branches["moved"] = id
            after.inputs += 3
            assert m.get_value("app", "a", default=None) == self.model.values.get(("app", "a"))
            if fails:
                raise ZeroDivisionError

        if fails:
            with pytest.raises(ZeroDivisionError):
                self.session.mutate(body)
        else:
            self.session.mutate(body)
            self.model = after

    @rule()
    def reopen(self) -> None:
        id, before = self.session.id, self.session.next_seq()
        self.session.close()
        if self.uri != "memory:":
            self.repository.close()
            self.repository = self.open_repository()
        self.session = self.repository.open(id)
        assert self.session.next_seq() == before

    @rule(pick=st.none() | PICK, before=st.booleans())
    def fork_a_path(self, pick: int | None, before: bool) -> None:
        model, entry = self.model, self.some_entry(pick)
        if entry is None and "main" not in model.branches:
            with pytest.raises(pisession.UnknownBranchError):
                self.repository.fork(self.session)
            return
        tip = entry or model.branches["main"]
        if before and tip is not None:
            tip = model.entries[tip][0]
        fork = self.repository.fork(
            self.session, entry=entry, position="before" if before else "at"
        )
        kept = set(model.path(tip))
        self.go_on_with(
            fork.session,
            Model(
                entries={id: entry for id, entry in model.entries.items() if id in kept},
                branches={"main": tip},
                labels={id: label for id, label in model.labels.items() if id in kept},
                name=model.name,
            ),
        )

    @rule()
    def fork_the_tree(self) -> None:
        fork = self.repository.fork(self.session, tree=True)
        assert fork.left_out == ()
        model = copy.deepcopy(self.model)
        model.inputs = 0
        self.go_on_with(fork.session, model)

    def go_on_with(self, session: pisession.Session, model: Model) -> None:
        assert session.metadata.parent_session_id == self.session.id
        # A branch that the source does not have takes a number of its own.
        new = set(model.branches) - set(self.model.branches)
        assert session.next_seq() == self.session.next_seq() + len(new)
        self.session.close()
        self.left[self.session.id] = self.model
        self.session, self.model = session, model

    def some_entry(self, pick: int | None) -> str | None:
        ids = list(self.model.entries)
        return ids[pick % len(ids)] if ids and pick is not None else None

    @invariant()
    def is_what_the_model_is(self) -> None:
        check(self.session, self.model)


def check(session: pisession.Session, model: Model) -> None:
    """All that can be read is what the dicts hold."""
    assert session.name() == model.name
    branches = session.branches()
    assert {branch.name: branch.tip_id for branch in branches} == model.branches
    assert [branch.name for branch in branches] == sorted(model.branches)
    for name, tip in model.branches.items():
        branch = session.branch(name)
        assert branch is not None
        assert [entry.id for entry in branch.find_entries()] == model.path(tip)
        assert [entry.id for entry in branch.entries(order="oldest_first")] == model.path(tip)[::-1]
    entries = list(session.entries(order="asc"))
    assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
    found = {
        entry.id: (
            entry.parent_id,
            entry.data if isinstance(entry, pisession.CustomEntry) else entry.message["content"],
        )
        for entry in entries
    }
    assert found == model.entries
    for id in model.entries:
        assert session.get_label(id) == model.labels.get(id)
    messages = sum(entry.type == "message" for entry in entries)
    stats = session.stats()
    assert (stats.message_count, stats.usage.input) == (messages, model.inputs)
    own = [
        address for address in session.value_addresses() if not address.namespace.startswith("pi.")
    ]
    assert [(address.namespace, address.key) for address in own] == sorted(model.values)
    for (namespace, key), value in model.values.items():
        assert session.get_value(namespace, key) == value
    for namespace in ("app", "app.b", "ä"):
        keys = [value.key for value in session.scan_values(namespace, "a")]
        assert keys == sorted(
            key for at, key in model.values if at == namespace and key.startswith("a")
        )
    assert [(a.namespace, a.key) for a in session.list_addresses()] == sorted(model.lists)
    for (namespace, key), elements in model.lists.items():
        assert [element.value for element in session.read_list(namespace, key)] == elements


@pytest.mark.parametrize("uri", URIS)
def test_a_session_is_what_a_few_dicts_would_be(uri: str) -> None:
    machine = type("Machine", (Sessions,), {"uri": uri})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

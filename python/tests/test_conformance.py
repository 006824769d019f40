"""The conformance cases (`tests/conformance`), run through Python, on every kind of repository."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pisession
from pisession import NewCustomEntry, NewMessage, RawJson

CASES = Path(__file__).parents[2] / "tests" / "conformance" / "cases"

Handle = pisession.Session | pisession.Mutation | pisession.Branch
Reader = pisession.Session | pisession.Mutator


def cases() -> list[Any]:
    tables = [(file, json.loads(file.read_text())) for file in sorted(CASES.glob("*.json"))]
    return [
        pytest.param(case, id=f"{file.stem}: {case['name']}")
        for file, table in tables
        for case in table["cases"]
    ]


@pytest.mark.skipif(not CASES.is_dir(), reason=f"there are no cases in {CASES}")
def test_there_are_cases() -> None:
    assert cases()


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any], uri: str) -> None:
    with pisession.open_repository(uri, max_payload=case.get("maxPayload")) as repository:
        run = Run(repository)
        try:
            for number, step in enumerate(case["steps"], 1):
                wait_for_the_clock()
                try:
                    run.step(step)
                except Exception as error:
                    error.add_note(f"in step {number}: {json.dumps(step)[:300]}")
                    raise
        finally:
            run.end_mutations()


def wait_for_the_clock() -> None:
    """What happens in two steps happens at two times."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now:
        pass


class Run:
    """One case: its repository, the handles that were made, the results that were captured."""

    def __init__(self, repository: pisession.Repository) -> None:
        self.repository = repository
        self.handles: dict[str, Handle] = {}
        self.results: dict[str, Any] = {}

    def step(self, step: dict[str, Any]) -> None:
        fields = {"op", "on", "args", "as", "ctx", "pick", "expect", "count", "error"}
        assert step.keys() <= fields, "a step has no other fields"
        args = self.resolve(step.get("args", {}))
        if "error" in step:
            with pytest.raises(pisession.Error) as caught:
                self.perform(step, args)
            assert caught.value.kind == step["error"]
            return
        result = self.perform(step, args)
        if "as" in step:
            self.results[step["as"]] = result
        if "pick" in step:
            result = pick(result, step["pick"])
        if "count" in step:
            assert len(result) == step["count"]
        if "expect" in step:
            expected = self.resolve(step["expect"])
            assert equal(expected, result), f"expected {expected}\nbut got  {result}"

    def resolve(self, value: Any) -> Any:
        """Put in what was captured for `$name.path`, and write repetitions out."""
        match value:
            case "$any":
                return value
            case str() if value.startswith("$$"):
                return value[1:]
            case str() if value.startswith("$"):
                return self.captured(value[1:])
            case list():
                out = []
                for item in value:
                    if isinstance(item, dict) and "repeat" in item:
                        out.extend([self.resolve(item["write"])] * item["repeat"])
                    else:
                        out.append(self.resolve(item))
                return out
            case dict():
                return {name: self.resolve(inner) for name, inner in value.items()}
        return value

    def captured(self, path: str) -> Any:
        name, *steps = re.findall(r"[^.\[\]]+", path)
        found = self.results[name]
        for step in steps:
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found

    def perform(self, step: dict[str, Any], args: dict[str, Any]) -> Any:
        ctx = None
        match step.get("ctx"):
            case "cancelled":
                ctx = pisession.Context()
                ctx.cancel()
            case "expired":
                ctx = pisession.Context(timeout=0)
        op = step["op"]
        if op in ("create", "open", "open_read_only"):
            made = self.open(op, args, ctx)
            self.handles[step.get("as", "session")] = made
            return metadata(made.metadata)
        match op:
            case "fork":
                return self.fork(step.get("as", "session"), args, ctx)
            case "list":
                listed = self.repository.list(details=bool(args.get("details")), ctx=ctx)
                return [listing(line) for line in listed]
            case "delete":
                return self.repository.delete(args["id"], ctx=ctx)
            case "close_repository":
                return self.repository.close(ctx=ctx)
        handle = self.handles[step.get("on", "session")]
        match handle:
            case pisession.Session():
                result, made_handle = session_op(handle, op, args, ctx)
                if made_handle is not None and "as" in step:
                    self.handles[step["as"]] = made_handle
                return result
            case pisession.Mutation():
                return mutation_op(handle, op, args, ctx)
        return branch_op(handle, op, args, ctx)

    def open(
        self, op: str, args: dict[str, Any], ctx: pisession.Context | None
    ) -> pisession.Session:
        match op:
            case "create":
                return self.repository.create(
                    id=args.get("id"),
                    parent_session_id=args.get("parentSessionId"),
                    cwd=args.get("cwd"),
                    ctx=ctx,
                )
            case "open":
                return self.repository.open(args["id"], ctx=ctx)
        return self.repository.open_read_only(args["id"], ctx=ctx)

    def fork(
        self, name: str, args: dict[str, Any], ctx: pisession.Context | None
    ) -> dict[str, Any]:
        with self.repository.open_read_only(args["from"], ctx=ctx) as source:
            fork = self.repository.fork(
                source,
                tree=args.get("scope") == "tree",
                branch=args.get("branch"),
                entry=args.get("entry"),
                position=args.get("position", "at"),
                id=args.get("id"),
                cwd=args.get("cwd"),
                ctx=ctx,
            )
        self.handles[name] = fork.session
        return {"session": metadata(fork.session.metadata), "leftOut": list(fork.left_out)}

    def end_mutations(self) -> None:
        for handle in self.handles.values():
            if isinstance(handle, pisession.Mutation):
                handle.end()


def session_op(
    session: pisession.Session, op: str, args: dict[str, Any], ctx: pisession.Context | None
) -> tuple[Any, Handle | None]:
    place = (args.get("namespace", ""), args.get("key", ""))
    match op:
        case "metadata":
            return metadata(session.metadata), None
        case "commit":

            def commit(m: pisession.Mutator) -> pisession.CommitResult:
                collect(m, args)
                return m.commit(ctx=ctx)

            return commit_result(session.mutate(commit, ctx=ctx)), None
        case "begin_mutation":
            return None, session.begin_mutation(ctx=ctx)
        case "create_branch":
            branch = session.create_branch(args.get("name", ""), args.get("at"), ctx=ctx)
            return {"name": branch.name}, branch
        case "branch":
            found = session.branch(args.get("name", ""), ctx=ctx)
            return (None, None) if found is None else ({"name": found.name}, found)
        case "branches":
            branches = session.branches(ctx=ctx)
            return [{"name": branch.name, "tipId": branch.tip_id} for branch in branches], None
        case "get_entry":
            return optional_entry(session.get_entry(args.get("id", ""), ctx=ctx), args), None
        case "find_entries":
            entries = session.find_entries(**entry_query(args), ctx=ctx)
            return [entry(found, args) for found in entries], None
        case "find_entry":
            return optional_entry(session.find_entry(**entry_query(args), ctx=ctx), args), None
        case "scan_usage":
            rows = session.scan_usage(
                from_seq=args.get("fromSeq"),
                to_seq=args.get("toSeq"),
                order=order(args, "asc"),
                limit=args.get("limit"),
                ctx=ctx,
            )
            return [usage_row(row) for row in rows], None
        case "name":
            return session.name(ctx=ctx), None
        case "get_label":
            return session.get_label(args.get("id", ""), ctx=ctx), None
        case "next_seq":
            return session.next_seq(ctx=ctx), None
        case "dump":
            return dump(session, ctx), None
    done: dict[str, Callable[[], None]] = {
        "set_name": lambda: session.set_name(args.get("name"), ctx=ctx),
        "set_label": lambda: session.set_label(args.get("id", ""), args.get("label"), ctx=ctx),
        "set_value": lambda: session.set_value(*place, given(args, "value"), ctx=ctx),
        "delete_value": lambda: session.delete_value(*place, ctx=ctx),
        "append_list": lambda: session.append_list(*place, given(args, "value"), ctx=ctx),
        "delete_list": lambda: session.delete_list(*place, ctx=ctx),
        "close": lambda: session.close(ctx=ctx),
    }
    if op in done:
        return done[op](), None
    return read_op(session, op, args, ctx), None


def mutation_op(
    mutation: pisession.Mutation, op: str, args: dict[str, Any], ctx: pisession.Context | None
) -> Any:
    match op:
        case "commit":
            collect(mutation, args)
            return commit_result(mutation.commit(ctx=ctx))
        case "end":
            return mutation.end()
    return read_op(mutation, op, args, ctx)


def branch_op(
    branch: pisession.Branch, op: str, args: dict[str, Any], ctx: pisession.Context | None
) -> Any:
    match op:
        case "branch_name":
            return branch.name
        case "tip_id":
            return branch.tip_id(ctx=ctx)
        case "find_entries":
            entries = branch.find_entries(**path_scan(args), ctx=ctx)
            return [entry(found, args) for found in entries]
        case "find_entry":
            return optional_entry(branch.find_entry(**path_scan(args), ctx=ctx), args)
        case "append_message":
            return branch.append_message(given(args, "message"), ctx=ctx)
        case "append_custom_entry":
            return branch.append_custom_entry(
                args.get("customType", ""), optional(args, "data"), ctx=ctx
            )
        case "append_many":
            nodes = [
                NewCustomEntry(node["customType"], optional(node, "data"))
                if "customType" in node
                else NewMessage(given(node, "message"))
                for node in args["entries"]
            ]
            return branch.append_many(nodes, ctx=ctx)
    raise AssertionError(f"a branch has no op '{op}'")


def read_op(reader: Reader, op: str, args: dict[str, Any], ctx: pisession.Context | None) -> Any:
    place = (args.get("namespace", ""), args.get("key", ""))
    match op:
        case "get_entries":
            found = reader.get_entries(args.get("ids", []), ctx=ctx)
            return [entry(each, args) for each in found]
        case "stats":
            return stats(reader.stats(ctx=ctx))
        case "get_value":
            stored = reader.get_stored_value(*place, ctx=ctx)
            return None if stored is None else value(stored, args)
        case "scan_values":
            return [
                value(stored, args) | {"namespace": stored.namespace, "key": stored.key}
                for stored in reader.scan_values(*place, ctx=ctx)
            ]
        case "read_list":
            elements = reader.read_list(
                *place,
                cursor=args.get("cursor"),
                order=order(args, "asc"),
                limit=args.get("limit", 1_000),
                ctx=ctx,
            )
            return [value(element, args) for element in elements]
        case "scan_branch":
            found = reader.scan_branch(args.get("start", ""), **path_scan(args), ctx=ctx)
            return [entry(each, args) for each in found]
        case "scan_branch_structure":
            structure = reader.scan_branch_structure(
                args.get("start", ""), **path_scan(args), ctx=ctx
            )
            return [
                {
                    "id": at.id,
                    "parentId": at.parent_id,
                    "seq": at.seq,
                    "timestamp": at.timestamp,
                    "type": at.type,
                }
                | ({} if at.custom_type is None else {"customType": at.custom_type})
                for at in structure
            ]
    raise AssertionError(f"no op '{op}' on this handle")


# Arguments


def collect(m: pisession.Mutator, args: dict[str, Any]) -> None:
    for write in args.get("writes", []):
        place = (write.get("namespace", ""), write.get("key", ""))
        match write["kind"]:
            case "entry":
                m.insert_entry(document(write, "entry"))
            case "usage":
                m.insert_usage_row(document(write, "row"))
            case "set":
                m.set_value(*place, given(write, "value"))
            case "delete":
                m.delete_value(*place)
            case "append":
                m.append_list(*place, given(write, "value"))
            case "delete_list":
                m.delete_list(*place)
            case kind:
                raise AssertionError(f"unknown kind of write '{kind}'")


def document(holder: dict[str, Any], name: str) -> RawJson:
    """An object as text: the library is to see which fields are there."""
    text = holder.get(f"{name}Text")
    return RawJson(json.dumps(holder.get(name)) if text is None else text)


def given(holder: dict[str, Any], name: str) -> Any:
    text = holder.get(f"{name}Text")
    return holder.get(name) if text is None else RawJson(text)


def optional(holder: dict[str, Any], name: str) -> Any:
    there = name in holder or f"{name}Text" in holder
    return given(holder, name) if there else pisession.ABSENT


def order(args: dict[str, Any], default: str) -> Any:
    return {None: default, "ascending": "asc", "descending": "desc"}[args.get("order")]


def entry_query(args: dict[str, Any]) -> dict[str, Any]:
    names = {
        "type": "type",
        "customType": "custom_type",
        "fromSeq": "from_seq",
        "toSeq": "to_seq",
        "cursor": "cursor",
        "limit": "limit",
    }
    query = {ours: args[name] for name, ours in names.items() if name in args}
    return query | {"order": order(args, "desc")}


def path_scan(args: dict[str, Any]) -> dict[str, Any]:
    names = {
        "type": "type",
        "customType": "custom_type",
        "stopAtType": "stop_at_type",
        "stopAtId": "stop_at_id",
        "cursor": "cursor",
        "limit": "limit",
    }
    orders = {None: "newest_first", "newestFirst": "newest_first", "oldestFirst": "oldest_first"}
    scan = {ours: args[name] for name, ours in names.items() if name in args}
    return scan | {"order": orders[args.get("order")]}


# Results


def without_absent(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def metadata(found: pisession.SessionMetadata) -> dict[str, Any]:
    return without_absent(
        {
            "id": found.id,
            "createdAt": found.created_at,
            "storageVersion": found.storage_version,
            "cwd": found.cwd,
            "parentSessionId": found.parent_session_id,
        }
    )


def listing(found: pisession.SessionListing) -> dict[str, Any]:
    assert found.metadata is not None, found.problem
    details = {"name": found.name, "messageCount": found.message_count}
    return metadata(found.metadata) | without_absent(details)


def entry(found: pisession.Entry, args: dict[str, Any]) -> dict[str, Any]:
    if args.get("text"):
        return {"id": found.id, "payload": found.payload_json.decode()}
    custom = {"customType": found.custom_type} if isinstance(found, pisession.CustomEntry) else {}
    place = {"id": found.id, "parentId": found.parent_id, "type": found.type, **custom}
    return {**place, **found.payload, "seq": found.seq, "timestamp": found.timestamp}


def optional_entry(found: pisession.Entry | None, args: dict[str, Any]) -> Any:
    return None if found is None else entry(found, args)


def value(
    found: pisession.StoredValue | pisession.ListElement, args: dict[str, Any]
) -> dict[str, Any]:
    inner = found.value_json.decode() if args.get("text") else found.value
    return {"value": inner, "seq": found.seq}


def usage_row(row: pisession.UsageRow) -> dict[str, Any]:
    return {"id": row.id, **row.payload, "seq": row.seq}


def stats(found: pisession.Stats) -> dict[str, Any]:
    return {"messageCount": found.message_count, "usage": found.usage.to_dict()}


def commit_result(result: pisession.CommitResult) -> dict[str, Any]:
    return {
        "firstSeq": result.first_seq,
        "seqs": list(result.seqs),
        "timestamp": result.timestamp,
        "stats": stats(result.stats),
    }


def dump(session: pisession.Session, ctx: pisession.Context | None) -> dict[str, Any]:
    """Everything a session holds, put together from its reads."""
    values = [
        session.get_stored_value(at.namespace, at.key, ctx=ctx)
        for at in session.value_addresses(ctx=ctx)
    ]
    return {
        "metadata": metadata(session.metadata),
        "name": session.name(ctx=ctx),
        "branches": {branch.name: branch.tip_id for branch in session.branches(ctx=ctx)},
        "entries": [entry(found, {}) for found in session.entries(order="asc", ctx=ctx)],
        "values": [
            value(stored, {}) | {"namespace": stored.namespace, "key": stored.key}
            for stored in values
            if stored is not None
        ],
        "lists": [
            {
                "namespace": at.namespace,
                "key": at.key,
                "elements": [
                    value(element, {})
                    for element in session.read_list(at.namespace, at.key, limit=10_000, ctx=ctx)
                ],
            }
            for at in session.list_addresses(ctx=ctx)
        ],
        "usage": [usage_row(row) for row in session.scan_usage(ctx=ctx)],
        "stats": stats(session.stats(ctx=ctx)),
        "nextSeq": session.next_seq(ctx=ctx),
    }


# Comparison


def pick(result: Any, name: str) -> Any:
    if isinstance(result, list):
        return [item.get(name) for item in result]
    return result[name]


def equal(expected: Any, actual: Any) -> bool:
    """Equality as the cases mean it: numbers by value, "$any" for whatever is there."""
    if expected == "$any":
        return True
    match expected, actual:
        case dict(), dict():
            return expected.keys() == actual.keys() and all(
                equal(inner, actual[name]) for name, inner in expected.items()
            )
        case list(), list():
            return len(expected) == len(actual) and all(map(equal, expected, actual))
        case (bool(), _) | (_, bool()):
            return expected is actual
        case (int() | float(), int() | float()):
            return float(expected) == float(actual)
    return type(expected) is type(actual) and bool(expected == actual)

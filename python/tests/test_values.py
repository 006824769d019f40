"""JSON values: what is taken, what is refused and where, and that it comes back as it went in."""

import enum
import json
import math
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pisession


class Colour(enum.IntEnum):
    RED = 3


class Word(str):
    __slots__ = ()


EXACT: list[tuple[Any, bytes]] = [
    (None, b"null"),
    (True, b"true"),
    (0, b"0"),
    (-(2**63) - 1, b"-9223372036854775809"),
    (2**64, b"18446744073709551616"),
    (10**5000, b"1" + b"0" * 5000),
    (-(10**4999) - 1, b"-1" + b"0" * 4998 + b"1"),
    (1.0, b"1.0"),
    (-0.0, b"-0.0"),
    (1e-7, b"1e-07"),
    (5e-324, b"5e-324"),
    (1.7976931348623157e308, b"1.7976931348623157e+308"),
    ("", b'""'),
    ('a"\\\n\r\t\b\f\x00\x1f\x7f', b'"a\\"\\\\\\n\\r\\t\\b\\f\\u0000\\u001f\x7f"'),
    ("é\u2028😀", '"é\u2028😀"'.encode()),
    ("\ud800", b'"\\ud800"'),
    ("a\udfffb\ud83d", b'"a\\udfffb\\ud83d"'),
    ({"\ud800": 1}, b'{"\\ud800":1}'),
    ({"b": 1, "a": [1, {"c": None}]}, b'{"b":1,"a":[1,{"c":null}]}'),
    (OrderedDict([("z", 1)]), b'{"z":1}'),
    (Colour.RED, b"3"),
    (Word("w"), b'"w"'),
    ([], b"[]"),
    ({}, b"{}"),
]


@pytest.mark.parametrize(("value", "text"), EXACT, ids=[text.decode()[:30] for _, text in EXACT])
def test_values_are_written_compactly_and_come_back(
    session: pisession.Session, value: Any, text: bytes
) -> None:
    session.set_value("app", "x", value)
    stored = session.get_stored_value("app", "x")
    assert stored is not None
    assert stored.value_json == text
    back = session.get_value("app", "x")
    assert back == stored.value == value
    if isinstance(value, float):
        assert math.copysign(1, back) == math.copysign(1, value)


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Two surrogates side by side are one character in JSON.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=30,
)


@given(value=_values)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_value_comes_back(session: pisession.Session, value: Any) -> None:
    session.set_value("app", "x", value)
    stored = session.get_stored_value("app", "x")
    assert stored is not None
    assert stored.value == value
    assert (
        stored.value_json == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    )


class Strange:
    pass


REFUSED: list[tuple[Any, str]] = [
    (Strange(), "value is of type 'Strange'"),
    ((1, 2), "value is of type 'tuple'"),
    (b"x", "value is of type 'bytes'"),
    ({1}, "value is of type 'set'"),
    (Decimal(1), "value is of type 'Decimal'"),
    (
        {"tools": [1, {"run": Strange()}]},
        r"value\[\"tools\"\]\[1\]\[\"run\"\] is of type 'Strange'",
    ),
    ({"a": {1: 2}}, r"value\[\"a\"\] has a key that is not a str"),
    ([[], [None, 1j]], r"value\[1\]\[1\] is of type 'complex'"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED)
def test_other_types_are_refused_naming_the_path(
    session: pisession.Session, value: Any, message: str
) -> None:
    before = session.next_seq()
    with pytest.raises(TypeError, match=message):
        session.set_value("app", "x", value)
    assert (session.next_seq(), session.get_value("app", "x")) == (before, None)


def test_every_writer_names_its_own_argument(
    session: pisession.Session, main: pisession.Branch
) -> None:
    bad: Any = {"x": Strange()}
    before = session.next_seq()
    with pytest.raises(TypeError, match=r"^element\[\"x\"\]"):
        session.append_list("app", "x", bad)
    with pytest.raises(TypeError, match=r"^message\[\"x\"\]"):
        main.append_message(bad)
    with pytest.raises(TypeError, match=r"^data\[\"x\"\]"):
        main.append_custom_entry("note", bad)
    nodes: list[pisession.NewCustomEntry | pisession.NewMessage] = [
        pisession.NewCustomEntry("note"),
        pisession.NewMessage(bad),
    ]
    with pytest.raises(TypeError, match=r"^nodes\[1\]\.message\[\"x\"\]"):
        main.append_many(nodes)
    with session.begin_mutation() as m:
        with pytest.raises(TypeError, match=r"^value\[\"x\"\]"):
            m.set_value("app", "x", bad)
        with pytest.raises(TypeError, match=r"^message\[\"x\"\]"):
            m.insert_message(bad, parent_id=None)
        with pytest.raises(TypeError, match=r"^data\[\"x\"\]"):
            m.insert_custom_entry("note", bad, parent_id=None)
        with pytest.raises(TypeError, match=r"^details\[\"x\"\]"):
            m.insert_usage(pisession.Usage(), details=bad)
        with pytest.raises(TypeError, match=r"^entry\[\"x\"\]"):
            m.insert_entry({"parentId": None, "type": "message", **bad})
        with pytest.raises(TypeError, match=r"^row\[\"x\"\]"):
            m.insert_usage_row(bad)
    assert session.next_seq() == before


def test_an_ordered_dict_keeps_the_order_that_is_seen(session: pisession.Session) -> None:
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    session.set_value("app", "x", ordered)
    stored = session.get_stored_value("app", "x")
    assert stored is not None
    assert stored.value_json == b'{"b":2,"a":1}'


def test_what_a_subclass_overrides_decides_nothing(session: pisession.Session) -> None:
    called: list[str] = []

    class Text(str):
        __slots__ = ()

        def encode(self, *_: Any) -> bytes:
            called.append("encode")
            return b'",evil'

    class Mapping(OrderedDict[str, Any]):
        def items(self) -> Any:
            called.append("items")
            return [("evil", 1)]

    class Items(list[Any]):
        def __iter__(self) -> Any:
            called.append("iter")
            return iter(["evil"])

    session.set_value("app", "x", Mapping(a=Text("\ud800"), b=Items([1])))
    assert session.get_value("app", "x") == {"a": "\ud800", "b": [1]}
    assert called == []


def test_containers_may_change_while_they_are_written(session: pisession.Session) -> None:
    mapping: dict[str, Any] = {}
    items: list[Any] = []

    class Changing:
        """Is asked for its class, as it is no `dict`, `list` and so on: is it `RawJson`?"""

        text = "1"

        def __getattribute__(self, name: str) -> Any:
            if name != "__class__":
                return object.__getattribute__(self, name)
            mapping[f"more {len(mapping)}"] = 2
            items.clear()
            return pisession.RawJson

    changing: Any = Changing()
    mapping.update(a=changing, b=[1, 2])
    session.set_value("app", "x", mapping)
    assert session.get_value("app", "x") == {"a": 1, "b": [1, 2]}
    items.extend([changing, 2, 3])
    session.set_value("app", "x", items)
    assert session.get_value("app", "x") == [1, 2, 3]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_value_errors(session: pisession.Session, number: float) -> None:
    with pytest.raises(ValueError, match=r"value\[0\] is .*, which is no JSON") as caught:
        session.set_value("app", "x", [number])
    assert isinstance(caught.value, pisession.InvalidJsonError)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_512_levels_and_no_more(session: pisession.Session) -> None:
    session.set_value("app", "x", nested(512))
    assert session.get_value("app", "x") == nested(512)
    endless: list[Any] = []
    endless.append(endless)
    for deep in (nested(513), endless):
        with pytest.raises(pisession.InvalidJsonError, match="value nests too deep"):
            session.set_value("app", "x", deep)


RAW = [
    '{ "a" : 1e400, "a": 0.10 }',
    "12345678901234567890123456789",
    '"\\ud800\\u0000\\/"',
    "[1e-7,1E+2]",
]


@pytest.mark.parametrize("text", RAW)
def test_raw_json_is_kept_byte_for_byte(session: pisession.Session, text: str) -> None:
    for raw in (pisession.RawJson(text), pisession.RawJson(text.encode())):
        session.set_value("app", "x", raw)
        stored = session.get_stored_value("app", "x")
        assert stored is not None
        assert stored.value_json == text.encode()
        assert repr(stored.value) == repr(json.loads(text))


def test_raw_json_may_stand_inside_and_is_checked(
    session: pisession.Session, main: pisession.Branch
) -> None:
    main.append_message({"role": "user", "content": pisession.RawJson("[ 1e2 ]")})
    (entry,) = main.find_entries()
    assert entry.payload_json == b'{"message":{"role":"user","content":[ 1e2 ]}}'
    for wrong in ("", "{", "nul", b"\xff", "[1]]", "NaN"):
        with pytest.raises(pisession.InvalidJsonError):
            session.set_value("app", "x", [pisession.RawJson(wrong)])


def test_texts_that_are_no_unicode_are_refused_by_their_kind(
    session: pisession.Session, main: pisession.Branch
) -> None:
    with pytest.raises(pisession.InvalidAddressError):
        session.set_value("app\ud800", "x", 1)
    with pytest.raises(pisession.InvalidAddressError):
        session.get_value("app", "\ud800")
    with pytest.raises(pisession.InvalidBranchError):
        session.create_branch("\ud800")
    with pytest.raises(pisession.InvalidIdError):
        session.get_entry("\ud800")
    with pytest.raises(pisession.InvalidArgumentError):
        main.append_custom_entry("\ud800")
    with pytest.raises(pisession.InvalidArgumentError):
        session.set_name("\ud800")


@pytest.mark.parametrize("limit", [-1, 2**53, 2**70])
def test_counts_out_of_range_are_refused(session: pisession.Session, limit: int) -> None:
    with pytest.raises(pisession.InvalidArgumentError, match="limit must be from 0"):
        session.find_entries(limit=limit)


@pytest.mark.parametrize("limit", [1.5, "1", True])
def test_counts_of_other_types_are_refused(session: pisession.Session, limit: Any) -> None:
    with pytest.raises(TypeError, match="limit must be an int"):
        session.find_entries(limit=limit)


def test_words_that_are_none_are_refused(session: pisession.Session) -> None:
    wrong: Any = "sideways"
    with pytest.raises(pisession.InvalidArgumentError, match="order"):
        session.find_entries(order=wrong)
    with pytest.raises(pisession.InvalidArgumentError, match="type"):
        session.find_entries(type=wrong)
    with pytest.raises(pisession.InvalidArgumentError, match="order along a path"):
        session.scan_branch("x", order=wrong)


def test_payloads_over_the_limit_are_refused() -> None:
    with (
        pisession.open_repository("memory:", max_payload=100) as repository,
        repository.create() as session,
    ):
        session.set_value("app", "x", "a" * 98)
        with pytest.raises(pisession.TooLargeError):
            session.set_value("app", "x", "a" * 99)

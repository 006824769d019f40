"""What goes in comes out again: doubles bit for bit, integers of any size, surrogates, depth."""

import math
import random
import struct
from datetime import UTC, datetime
from typing import Any

import pytest

import pisession

SEED = 20_261_201


def doubles(number: int) -> list[float]:
    """Finite doubles of every magnitude: random bits, and the corners."""
    generator = random.Random(SEED)
    corners = [
        0.0,
        -0.0,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        2**53 + 1.0,
        1e16,
    ]
    found = list(corners)
    while len(found) < number:
        (value,) = struct.unpack("<d", generator.randbytes(8))
        if math.isfinite(value):
            found.append(value)
    return found


def bits(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def test_100_000_random_doubles_come_back_bit_for_bit(session: pisession.Session) -> None:
    given = doubles(100_000)
    session.set_value("app", "doubles", given)
    assert bits(session.get_value("app", "doubles")) == bits(given)


def test_integers_of_any_size_come_back(session: pisession.Session) -> None:
    generator = random.Random(SEED)
    given = [
        sign * (generator.getrandbits(size) | 1 << size)
        for size in (*range(1, 200), 1_000, 20_000, 100_000)
        for sign in (1, -1)
    ]
    session.set_value("app", "integers", given)
    assert session.get_value("app", "integers") == given


def test_lone_surrogates_come_back_everywhere_in_a_payload(
    session: pisession.Session, main: pisession.Branch
) -> None:
    texts = ["\ud800", "\udfff", "a\ud83db", "\ude00\ud83d", "\udc80" * 1000, "é\ud800\U0001f600"]
    for text in texts:
        payload: dict[str, Any] = {"role": "user", text: [text, {"x": text}]}
        entry = session.get_entry(main.append_message(payload))
        assert entry is not None
        assert entry.message == payload
        session.append_list("app", "texts", text)
        with session.begin_mutation() as m:
            m.insert_usage(pisession.Usage(), details=text)
    assert [element.value for element in session.read_list("app", "texts")] == texts
    assert [row.details for row in session.scan_usage()] == texts


def test_512_levels_come_back_and_one_more_is_refused(
    session: pisession.Session, main: pisession.Branch
) -> None:
    def nested(levels: int) -> Any:
        value: Any = None
        for level in range(levels):
            value = {"x": value} if level % 2 else [value]
        return value

    session.set_value("app", "x", nested(512))
    assert session.get_value("app", "x") == nested(512)
    entry = session.get_entry(main.append_custom_entry("deep", nested(512)))
    assert isinstance(entry, pisession.CustomEntry)
    assert entry.data == nested(512)
    before = session.next_seq()
    with pytest.raises(pisession.InvalidJsonError, match="512 levels"):
        main.append_custom_entry("deep", nested(513))
    assert session.next_seq() == before


def test_a_datetime_is_refused_with_its_path_and_nothing_is_written(
    session: pisession.Session, main: pisession.Branch
) -> None:
    bad: Any = {"steps": [{}, {"at": datetime(2026, 1, 2, tzinfo=UTC)}]}
    path = r'\["steps"\]\[1\]\["at"\] is of type \'datetime\''
    before = session.next_seq()
    with pytest.raises(TypeError, match="^message" + path):
        main.append_message(bad)
    with pytest.raises(TypeError, match="^value" + path):
        session.set_value("app", "x", bad)

    def write(m: pisession.Mutator) -> None:
        m.set_value("app", "first", 1)
        m.set_value("app", "x", bad)

    with pytest.raises(TypeError, match="^value" + path):
        session.mutate(write)
    assert (session.next_seq(), main.tip_id()) == (before, None)
    assert [a for a in session.value_addresses() if a.namespace == "app"] == []

"""Rows of SQL queries: tuples with names, and frames of pandas and polars."""

import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pisession
from pisession import Row, Rows

FRAMES = ["pandas", "polars"]


@pytest.fixture(params=["sqlite:{}", "sqlite:{}/container.db"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[pisession.Session]:
    """A session with something in it, of the kinds that SQL is for."""
    uri = request.param.format(tmp_path / "sessions")
    with pisession.open_repository(uri) as repository, repository.create() as session:
        main = session.create_branch("main")
        for number in range(3):
            main.append_message({"role": "user", "content": f"hello {number}"})
        main.append_custom_entry("note")
        yield session


def test_a_row_is_a_tuple_whose_cells_have_names(session: pisession.Session) -> None:
    rows = session.query("SELECT type, count(*) AS n FROM entry GROUP BY type ORDER BY n DESC")
    assert rows.columns == ("type", "n")
    assert rows[0] == ("message", 3)
    assert [tuple(row) for row in rows] == [("message", 3), ("custom", 1)]
    for type, n in rows:
        assert (type, n) in rows
    first: Any = rows[0]
    assert (first.type, first["n"], first[-1], first[0:1]) == ("message", 3, 3, ("message",))
    assert first.to_dict() == {"type": "message", "n": 3}
    assert rows.to_dicts()[1] == {"type": "custom", "n": 1}
    assert repr(first) == "Row(type='message', n=3)"
    assert hash(first) == hash(("message", 3))
    match first:
        case (str(), int(n)):
            assert n == 3


def test_a_name_that_is_no_column_says_which_there_are() -> None:
    row = Row(("a", "b"), (1, 2))
    with pytest.raises(KeyError, match="no column 'c': there are 'a', 'b'"):
        row["c"]
    with pytest.raises(AttributeError, match="no column 'c': there are 'a', 'b'"):
        _ = row.c
    assert not hasattr(row, "__wrapped__")


def test_names_of_methods_and_equal_names() -> None:
    row = Row(("count", "count", "columns"), (1, 2, 3))
    assert (row["count"], row["columns"]) == (1, 3)
    assert row.count(2) == 1, "the method of tuples"
    assert row.to_dict() == {"count": 1, "columns": 3}


def test_rows_are_a_sequence_and_picklable() -> None:
    rows = Rows(("a",), [(1,), (None,), (b"x",)])
    assert (len(rows), rows[-1].a, list(rows[1:])) == (3, b"x", [(None,), (b"x",)])
    again = pickle.loads(pickle.dumps(rows))
    assert again == rows
    assert hash(again) == hash(rows)
    assert again[0].a == 1
    assert rows != Rows(("b",), rows)
    assert not Rows(("a",), [])


def test_rows_are_shown_as_a_table() -> None:
    rows = Rows(("name", "n"), [("a\nb", 1), (None, 22), ("x" * 100, 1.5)])
    assert repr(rows).splitlines() == [
        "name" + " " * 36 + "  n",
        "-" * 40 + "  ---",
        "'a\\nb'" + " " * 34 + "  1",
        "NULL" + " " * 36 + "  22",
        "x" * 39 + "…  1.5",
        "(3 rows)",
    ]
    many = repr(Rows(("n",), [(n,) for n in range(100)]))
    assert many.endswith("(100 rows, 20 of them shown)")
    assert repr(Rows(("n",), [])).splitlines() == ["n", "-", "(0 rows)"]


MIXED = Rows(
    ("whole", "real", "text", "blob", "mixed", "none"),
    [
        (2**63 - 1, 1.0, "a", b"x", 1, None),
        (None, 2, None, None, "b", None),
        (-(2**63), 1.5, "ü", b"", None, None),
    ],
)


def frame_of(rows: Rows, library: str) -> Any:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    return rows.to_pandas() if library == "pandas" else rows.to_polars()


def test_a_pandas_frame_keeps_what_the_cells_are() -> None:
    frame = frame_of(MIXED, "pandas")
    assert list(frame.columns) == list(MIXED.columns)
    assert [str(frame[name].dtype) for name in ("whole", "real")] == ["Int64", "Float64"]
    assert frame["whole"][0] == 2**63 - 1, "no float has been made of it"
    assert frame["whole"].isna().tolist() == [False, True, False]
    assert frame["real"].tolist() == [1.0, 2.0, 1.5]
    assert frame["text"].dropna().tolist() == ["a", "ü"]
    assert frame["blob"].tolist() == [b"x", None, b""]
    assert frame["mixed"].tolist() == [1, "b", None]
    assert frame["none"].isna().all()
    twice = frame_of(Rows(("a", "a"), [(1, 2)]), "pandas")
    assert twice.values.tolist() == [[1, 2]]


def test_a_polars_frame_keeps_what_the_cells_are() -> None:
    frame = frame_of(MIXED, "polars")
    assert frame.columns == list(MIXED.columns)
    types = [str(type) for type in frame.dtypes]
    assert types == ["Int64", "Float64", "String", "Binary", "Object", "Null"]
    assert frame.rows() == [
        (*row[:1], None if row[1] is None else float(row[1]), *row[2:]) for row in MIXED
    ]
    with pytest.raises(pisession.InvalidArgumentError, match="two columns are called 'a'"):
        Rows(("a", "a"), [(1, 2)]).to_polars()


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_of_no_rows_has_the_columns(library: str) -> None:
    frame = frame_of(Rows(("a", "b"), []), library)
    assert list(frame.columns) == ["a", "b"]
    assert len(frame) == 0


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_of_a_query(session: pisession.Session, library: str) -> None:
    rows = session.query("SELECT type, seq FROM entry ORDER BY seq")
    frame = frame_of(rows, library)
    assert list(frame["type"]) == ["message"] * 3 + ["custom"]
    assert list(frame["seq"]) == [row.seq for row in rows]


@pytest.mark.parametrize("library", FRAMES)
def test_without_the_library_the_error_says_what_to_install(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    rows = Rows(("a",), [(1,)])
    with pytest.raises(pisession.UnsupportedError, match=f"{library} is not installed") as caught:
        rows.to_pandas() if library == "pandas" else rows.to_polars()
    assert caught.value.hint == f"pip install {library}"

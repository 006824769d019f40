"""Results of SQL queries: rows with names, and frames where a library for them is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeAlias, overload

from ._errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame

SqlValue: TypeAlias = str | bytes | int | float | None
"""What a query takes as a parameter and gives as a cell."""

_SHOWN_ROWS = 20
_SHOWN_WIDTH = 40


class Row(tuple[Any, ...]):
    """One row: a tuple whose cells have names, as `row.name` and `row["name"]`.

    Where a column is called like a method of tuples, and where several have one name, the
    attribute is the method and the name the first of them.
    """

    _columns: tuple[str, ...]

    def __new__(cls, columns: tuple[str, ...], cells: Iterable[SqlValue]) -> Self:
        """Name `cells`, each with the one of `columns` at its place."""
        row = super().__new__(cls, cells)
        row._columns = columns
        return row

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the cells."""
        return self._columns

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: SupportsIndex | str | slice) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        try:
            return super().__getitem__(self._columns.index(key))
        except ValueError:
            raise KeyError(self._missing(key)) from None

    def __getattr__(self, name: str) -> Any:
        # `_columns` itself is missing while a row is unpickled.
        if not name.startswith("__") and name != "_columns" and name in self._columns:
            return super().__getitem__(self._columns.index(name))
        if name == "_columns" or name.startswith("__"):
            raise AttributeError(name, name=name, obj=self)
        raise AttributeError(self._missing(name), name=name, obj=self)

    def to_dict(self) -> dict[str, Any]:
        """Give the cells by name; of several of one name the first."""
        named: dict[str, Any] = {}
        for name, cell in zip(self._columns, self, strict=True):
            named.setdefault(name, cell)
        return named

    def _missing(self, name: str) -> str:
        return f"no column {name!r}: there are {', '.join(map(repr, self._columns))}"

    def __reduce__(self) -> tuple[type[Row], tuple[tuple[str, ...], tuple[Any, ...]]]:
        return Row, (self._columns, tuple(self))

    def __repr__(self) -> str:
        cells = zip(self._columns, self, strict=True)
        return f"Row({', '.join(f'{name}={cell!r}' for name, cell in cells)})"


class Rows(Sequence[Row]):
    """The result of a query, whole: a sequence of rows."""

    def __init__(self, columns: Iterable[str], rows: Iterable[Iterable[SqlValue]]) -> None:
        """Name the cells of `rows` with `columns`."""
        self._columns = tuple(columns)
        self._rows = tuple(Row(self._columns, row) for row in rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._columns

    def to_dicts(self) -> list[dict[str, Any]]:
        """Give each row as a dict."""
        return [row.to_dict() for row in self._rows]

    def to_pandas(self) -> PandasFrame:
        """Give a pandas frame. Whole numbers stay whole, also beside NULL (`Int64`).

        Raises:
            UnsupportedError: If pandas is not installed.
        """
        pandas = _library("pandas")
        types: dict[type, str] = {int: "Int64", float: "Float64", str: "string"}
        columns = [
            pandas.Series(list(cells), dtype=types.get(_type_of(cells) or object, "object"))
            for cells in self._cells()
        ]
        # Two columns may have one name, so that no dict can hold them.
        frame = pandas.concat(columns, axis=1) if columns else pandas.DataFrame()
        frame.columns = list(self._columns)
        found: PandasFrame = frame
        return found

    def to_polars(self) -> PolarsFrame:
        """Give a polars frame. A column of mixed types becomes one of objects.

        Raises:
            UnsupportedError: If polars is not installed.
            InvalidArgumentError: If two columns have one name.
        """
        polars = _library("polars")
        twice = {name for name in self._columns if self._columns.count(name) > 1}
        if twice:
            raise InvalidArgumentError(
                f"two columns are called {min(twice)!r}, which a polars frame cannot have",
                hint="name them apart with AS",
            )
        types = {int: polars.Int64, float: polars.Float64, str: polars.String, bytes: polars.Binary}
        found: PolarsFrame = polars.DataFrame(
            [
                polars.Series(name, list(cells), dtype=_polars_type(polars, types, cells))
                for name, cells in zip(self._columns, self._cells(), strict=True)
            ]
        )
        return found

    def _cells(self) -> list[tuple[Any, ...]]:
        return [tuple(row[at] for row in self._rows) for at in range(len(self._columns))]

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> Rows: ...
    def __getitem__(self, key: int | slice) -> Row | Rows:
        if isinstance(key, slice):
            return Rows(self._columns, self._rows[key])
        return self._rows[key]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows):
            return NotImplemented
        return (self._columns, self._rows) == (other._columns, other._rows)

    def __hash__(self) -> int:
        return hash((self._columns, self._rows))

    def __repr__(self) -> str:
        shown = [self._columns, *(tuple(map(_shown, row)) for row in self._rows[:_SHOWN_ROWS])]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in shown]
        lines.insert(1, "  ".join("-" * width for width in widths))
        number = "1 row" if len(self) == 1 else f"{len(self)} rows"
        more = f", {_SHOWN_ROWS} of them shown" if len(self) > _SHOWN_ROWS else ""
        return "\n".join([*lines, f"({number}{more})"])


def _shown(cell: SqlValue) -> str:
    text = "NULL" if cell is None else cell if isinstance(cell, str) else repr(cell)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 1] + "…"


def _type_of(cells: Iterable[SqlValue]) -> type | None:
    """Give the one type of the cells that are not NULL; `object` if they are mixed."""
    types = {type(cell) for cell in cells if cell is not None}
    if len(types) < 2:
        return next(iter(types), None)
    # An integer that no float can hold is left as it is.
    exact = all(float(cell) == cell for cell in cells if isinstance(cell, int))
    return float if types == {int, float} and exact else object


def _polars_type(polars: Any, types: dict[type, Any], cells: tuple[Any, ...]) -> Any:
    found = _type_of(cells)
    return polars.Null if found is None else types.get(found, polars.Object)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UnsupportedError(f"{name} is not installed", hint=f"pip install {name}") from None

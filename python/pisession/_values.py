"""JSON values: what is taken, and how what is stored is read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias, Union

from ._errors import InvalidArgumentError


@dataclass(frozen=True)
class RawJson:
    """JSON text to be stored as it is: numbers, spacing and escapes are kept.

    Attributes:
        text: The text; bytes are UTF-8.
    """

    text: str | bytes


JsonInput: TypeAlias = Union[
    Mapping[str, "JsonInput"], Sequence["JsonInput"], str, int, float, bool, RawJson, None
]
"""What can be stored: dict (with str keys), list, str, int, float, bool and None, nested.

A type checker takes any mapping and sequence for it; what is no dict or list is refused when it is
written."""


class Absent:
    """The type of `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pisession.ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""Stands for data that is not there, which is not the same as None (a JSON null)."""

# No limit that can be set for the conversion of integers and text is lower than this.
_SAFE_DIGITS = 600


def integer_text(value: int) -> str:
    """Spell an integer of any size; `str` refuses more digits than its limit."""
    number = int.__index__(value)
    sign, number = ("-", -number) if number < 0 else ("", number)
    # log10(2) is a little less than 0.30103.
    width = number.bit_length() * 30103 // 100000 + 1
    return sign + (_digits(number, width).lstrip("0") or "0")


def _digits(number: int, width: int) -> str:
    if width <= _SAFE_DIGITS:
        return str(number).zfill(width)
    low_width = width // 2
    high, low = divmod(number, 10**low_width)
    return _digits(high, width - low_width) + _digits(low, low_width)


def _integer(text: str) -> int:
    if text.startswith("-"):
        return -_integer(text[1:])
    if len(text) <= _SAFE_DIGITS:
        return int(text)
    low_width = len(text) // 2
    power: int = 10**low_width
    return _integer(text[:-low_width]) * power + _integer(text[-low_width:])


def read_json(data: bytes) -> Any:
    """Convert stored JSON as `json.loads` does, with integers of any size."""
    text = data.decode()
    try:
        return json.loads(text)
    except ValueError:
        # What is stored is valid, so this can only be the limit of digits.
        return json.loads(text, parse_int=_integer)


def preview(data: bytes, width: int = 60) -> str:
    """Show the beginning of stored JSON."""
    text = data[: 4 * width].decode(errors="ignore")
    return text if len(text) <= width and len(data) <= 4 * width else text[: width - 1] + "…"


def count(name: str, value: int, end: int = 2**53) -> int:
    """Check that a limit, cursor or sequence number is a count."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 <= value < end:
        power = end.bit_length() - 1
        raise InvalidArgumentError(f"{name} must be from 0 to 2**{power} - 1, not {_shown(value)}")
    return value


def _shown(value: int) -> str:
    # Python limits the digits that it writes of an integer.
    return str(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"


def optional_count(name: str, value: int | None) -> int | None:
    """Check that it is a count, or None."""
    return None if value is None else count(name, value)


def string(name: str, value: str) -> str:
    """Check that it is a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return value


def optional_string(name: str, value: str | None) -> str | None:
    """Check that it is a str, or None."""
    return None if value is None else string(name, value)


def optional_callable(name: str, value: object) -> None:
    """Check that it is callable, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable, not {type(value).__name__}")


def text(name: str, value: str) -> str:
    """Check that it is a str of Unicode text."""
    try:
        str.encode(string(name, value))
    except UnicodeEncodeError:
        message = f"{name} must be Unicode text without lone surrogates"
    else:
        return value
    raise InvalidArgumentError(message)


def optional_text(name: str, value: str | None) -> str | None:
    """Check that it is a str of Unicode text, or None."""
    return None if value is None else text(name, value)


def path_text(name: str, path: str | os.PathLike[str]) -> str:
    """Check that it is a path; give its text."""
    try:
        return os.fsdecode(path)
    except TypeError:
        kind = type(path).__name__
    except UnicodeError:
        raise InvalidArgumentError(f"{name} must be text that names a file") from None
    raise TypeError(f"{name} must be a str or an os.PathLike, not {kind}")


def seconds(name: str, value: float | timedelta) -> float:
    """Check that it is a duration; give its seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kind = type(value).__name__
        raise TypeError(f"{name} must be a number of seconds or a timedelta, not {kind}")
    if not 0 <= value < 2**63:
        shown = _shown(value) if isinstance(value, int) else value
        raise InvalidArgumentError(f"{name} must be from 0 to 2**63 - 1 seconds, not {shown}")
    return float(value)

"""The page on errors says of each Python class what it is."""

import builtins
import re

import pisession
import pytest
from test_blocks import ROOT

ROWS = re.findall(
    r"^\| (\d+) \| `(\w+)` \| `(\w+)` \| (?:`(\w+)` )?\| (yes|no) \|",
    (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_page_has_every_class() -> None:
    described = {row[2] for row in ROWS}
    classes = {name for name in pisession.__all__ if name.endswith("Error") and name != "Error"}
    assert described == classes


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_a_class_is_what_the_page_says(row: tuple[str, str, str, str, str]) -> None:
    number, kind, name, builtin, retryable = row
    error = getattr(pisession, name)
    bases = (pisession.Error, getattr(builtins, builtin)) if builtin else (pisession.Error,)
    assert error.__bases__ == bases
    assert error.kind == kind
    assert error.kind.number == int(number)
    assert error.retryable is (retryable == "yes")

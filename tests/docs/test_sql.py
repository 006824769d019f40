"""The page on SQL says which columns the views have, and its recipes run."""

import re
from pathlib import Path

import pisession
import pytest
from test_blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "sql.md"


@pytest.fixture
def session(tmp_path: Path) -> pisession.Session:
    repository = pisession.open_repository(f"sqlite:{tmp_path}")
    session = repository.create()
    main = session.create_branch("main")
    main.append_message({"role": "user", "content": "hello"})
    call: dict[str, pisession.JsonInput] = {"type": "toolCall", "id": "1", "name": "read", "arguments": {}}
    main.append_message({"role": "assistant", "content": [call], "stopReason": "toolUse"})
    return session


def views() -> dict[str, list[str]]:
    """The views of the page, and the columns it gives each."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name = re.match(r"`(\w+)`\n", part)
        if name:
            rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
            found[name.group(1)] = [column for row in rows for column in re.findall(r"`(\w+)`", row)]
    return found


def test_the_views_have_the_columns_of_the_page(session: pisession.Session) -> None:
    assert len(views()) == 6
    for name, columns in views().items():
        rows = session.query(f"SELECT * FROM {name} LIMIT 1")
        assert sorted(rows.columns) == sorted(columns), name
    session.close()


def test_the_recipes_run(session: pisession.Session) -> None:
    recipes = [block for block in blocks_of(PAGE) if block.language == "sql"]
    printed = [list(session.query(block.text)) for block in recipes]
    path, _, tools = printed
    assert [row[2] for row in path] == ["user", "assistant"]
    assert tools == [("read", 1)]
    session.close()

"""The examples in README and docstrings run."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import pisession

README = Path(__file__).parents[1] / "README.md"


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        # In memory where the kind of repository is not what the example is about.
        exec(block.replace("sqlite:./sessions", "memory:"), {})


def test_the_examples_in_docstrings_run() -> None:
    names = [module.name for module in pkgutil.iter_modules(pisession.__path__)]
    modules = [importlib.import_module(f"pisession.{name}") for name in names]
    results = [doctest.testmod(module) for module in [pisession, *modules]]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 3


def test_every_public_name_is_documented() -> None:
    aliases = {
        "CheckDepth",
        "Durability",
        "EntryType",
        "JsonInput",
        "LegacyPolicy",
        "Order",
        "PathOrder",
        "SqlValue",
    }
    for name in set(pisession.__all__) - aliases - {"__version__"}:
        thing = getattr(pisession, name)
        assert thing.__doc__, name
        if isinstance(thing, type):
            for member, value in vars(thing).items():
                if not member.startswith("_") and callable(value):
                    assert value.__doc__, f"{name}.{member}"


def test_every_public_name_has_its_place_in_the_book() -> None:
    pages = Path(__file__).parents[2] / "docs" / "api"
    named = re.findall(
        r"^::: pisession\.(\w+)$",
        "\n".join(page.read_text() for page in pages.glob("python-*.md")),
        re.MULTILINE,
    )
    assert sorted(named) == sorted(set(pisession.__all__) - {"__version__"})

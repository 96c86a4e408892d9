"""The Python that the documents show runs: each file's blocks in order, in one namespace."""

from __future__ import annotations

import pathlib
import re
import types

import pytest

pytestmark = pytest.mark.plugins

ROOT = pathlib.Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks(path: pathlib.Path) -> list[str]:
    """The Python blocks of a document, each padded with blank lines, so that a traceback names the document's line."""
    text = path.read_text(encoding="utf-8")
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in BLOCK.finditer(text)]


DOCUMENTS = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if blocks(path)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_python_blocks_run(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KDLGT_CACHE", str(tmp_path / "cache"))
    module = types.ModuleType("document")
    for block in blocks(path):
        exec(compile(block, str(path), "exec", dont_inherit=True), module.__dict__)


def test_readme_example_is_short() -> None:
    assert len(blocks(ROOT / "README.md")[0].strip().splitlines()) <= 15


def test_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for session in ("demo", "tests"):
        assert f"python3 -m pip install nox && python3 -m nox -s {session}" in text


def test_readme_names_only_files_that_exist() -> None:
    named = re.findall(r"`((?:docs|examples)/[\w/-]+\.\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []

"""Installed plugins for tests: real modules and real distribution metadata in a folder of their own."""

from __future__ import annotations

import importlib
import importlib.metadata
import pathlib
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoints

import attrs
import pytest

GOOD = """
    import attrs
    from kdlgt.registry import RPESpec, hookimpl

    @attrs.frozen(kw_only=True)
    class Options:
        k: int = attrs.field(default=2, validator=attrs.validators.ge(1))
        width: float = 1.0

    def factory(heads, channels, options):
        return (heads, channels, options)

    def spec(**changes):
        declared = dict(name="NAME", factory=factory, options=Options, kind="kernel", summary="one line")
        return RPESpec(**(declared | changes))

    @hookimpl
    def kdlgt_rpes():
        return [spec()]
"""


@attrs.frozen
class Site:
    """A folder with distributions; only these are visible to ``load_plugins``."""

    path: pathlib.Path
    modules: list[str] = attrs.Factory(list)

    def add(
        self, entry: str, source: str = GOOD, *, name: str = "mine", owner: str = "other", module: str | None = None
    ) -> None:
        """Install ``source``, with NAME replaced, as the entry point ``entry`` of the distribution ``owner``."""
        self.modules.append(module or f"site_{owner}_{entry}")
        text = textwrap.dedent(source).replace("NAME", name)
        (self.path / f"{self.modules[-1]}.py").write_text(text, encoding="utf-8")
        info = self.path / f"{owner}-1.5.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {owner}\nVersion: 1.5\n", encoding="utf-8")
        listed = info / "entry_points.txt"
        before = listed.read_text(encoding="utf-8") if listed.exists() else "[kdlgt]\n"
        listed.write_text(f"{before}{entry} = {self.modules[-1]}\n", encoding="utf-8")
        importlib.invalidate_caches()

    def entry_points(self, *, group: str) -> EntryPoints:
        """What ``importlib.metadata.entry_points`` says, had it looked into this folder alone."""
        found = importlib.metadata.distributions(path=[str(self.path)])
        return EntryPoints(
            entry for distribution in found for entry in distribution.entry_points if entry.group == group
        )


@pytest.fixture
def site(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder of distributions, and no plugin variables in the environment."""
    made = Site(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "entry_points", made.entry_points)
    monkeypatch.delenv("KDLGT_PLUGINS", raising=False)
    monkeypatch.delenv("KDLGT_BLOCK_PLUGINS", raising=False)
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)

"""The command line in this process, and a small config for it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import attrs
import pytest

from kdlgt.cli.app import run

TINY = """
[data]
dataset = "karate"

[model]
hidden = 8
heads = 2
layers = 1

[train]
epochs = 3
lr = 1e-2
device = "cpu"
"""


@attrs.frozen
class Outcome:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The error in one line."""
        return " ".join(self.err.split())


Kdlgt = Callable[..., Outcome]


@pytest.fixture
def kdlgt(capsys: pytest.CaptureFixture[str]) -> Kdlgt:
    def call(*tokens: object, debug: bool = False) -> Outcome:
        code = run([str(token) for token in tokens], debug=debug)
        text = capsys.readouterr()
        return Outcome(code, text.out, text.err)

    return call


@pytest.fixture
def tiny(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path

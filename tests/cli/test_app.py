from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.cli.app import COMMANDS, build_app

Kdlgt = Callable[..., Any]


def test_help_lists_every_command_without_importing_torch() -> None:
    code = (
        "import sys; from kdlgt.cli.app import run; assert run(['--help']) == 0; assert run(['train', '--help']) == 0;"
        "assert not {'torch', 'numpy', 'lightning'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_says_what_it_does(name: str, kdlgt: Kdlgt) -> None:
    module, _, function = COMMANDS[name][0].partition(":")
    assert getattr(importlib.import_module(module), function)
    outcome = kdlgt(name, "--help")
    assert outcome.code == 0
    assert " ".join(COMMANDS[name][1].split()[:3]) in " ".join(outcome.out.split())
    assert name in build_app()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(["trian"], 'Did you mean "train"'), (["train", "--resum"], "--resume"), (["predict", "x"], "--out")],
)
def test_a_wrong_command_line_is_one_message(kdlgt: Kdlgt, tokens: list[str], expected: str) -> None:
    outcome = kdlgt(*tokens)
    assert outcome.code == 2
    assert expected in outcome.message
    assert "Traceback" not in outcome.err


def test_debug_shows_the_traceback(kdlgt: Kdlgt) -> None:
    assert "Traceback" not in kdlgt("evaluate", "nowhere").err
    assert "Traceback" in kdlgt("evaluate", "nowhere", debug=True).err
    assert kdlgt("evaluate", "nowhere").message.startswith("error: nowhere: no such run folder")

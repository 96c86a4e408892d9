"""The command line, as far as it goes without Ray: what is refused is refused before Ray starts."""

from __future__ import annotations

import pathlib
import runpy
import sys
from collections.abc import Callable

import pytest

from kdlgt_tuning import cli
from kdlgt_tuning.settings import Settings

pytestmark = pytest.mark.plugins
MakeConfigFile = Callable[..., pathlib.Path]
SCRIPT = pathlib.Path(__file__).parents[2] / "tuning" / "sweep.py"
OPTIONS = [
    "--space",
    "--num-samples",
    "--scheduler",
    "--search",
    "--cpus-per-trial",
    "--gpus-per-trial",
    "--max-concurrent",
    "--address",
    "--storage",
    "--resume",
    "--time-budget",
    "--metric",
    "--mode",
    "--pareto",
    "--seed",
    "--data-root",
    "--retries",
    "--dashboard",
]


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sweep.py", "--help"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert [option for option in OPTIONS if f" {option} " not in text] == []
    assert len(OPTIONS) == len(Settings.__annotations__)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("model.rpe.0.kk = {int = [1, 4]}", "model.rpe.0.kk: unknown key"),
        ('model.rpe.0.k = {choice = ["two"]}', "model.rpe.0.k = 'two'; allowed: an integer"),
        ("model.rpe.0.k = {choice = []}", "model.rpe.0.k = {choice = []}: an empty choice"),
        ("model.rpe.0.k = {int = [4, 1]}", "Did you mean {int = [1, 4]}?"),
        ("model.rpe.0.k = ", "is not TOML"),
    ],
)
def test_bad_spaces_end_before_ray_starts(
    space: str,
    message: str,
    config_file: MakeConfigFile,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "space.toml"
    path.write_text(space)
    storage = tmp_path / "sweep"
    assert cli.run([str(config_file()), "--space", str(path), "--storage", str(storage)]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert str(path) in text
    assert not storage.exists()
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()


@pytest.mark.parametrize(
    "tokens",
    [
        ["--num-samples", "0"],
        ["--cpus-per-trial", "0"],
        ["--gpus-per-trial", "-1"],
        ["--scheduler", "ash"],
        ["--time-budget", "soon"],
        ["--colour", "red"],
    ],
)
def test_bad_options(tokens: list[str], config_file: MakeConfigFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([str(config_file()), *tokens]) == 2
    assert tokens[0] in capsys.readouterr().err


def test_a_config_that_is_not_there(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([str(tmp_path / "none.toml")]) == 2
    assert "there is no such file" in capsys.readouterr().err

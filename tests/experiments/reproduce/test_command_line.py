"""``kdlgt reproduce``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kdlgt.cli.app import run
from kdlgt.experiments.reproduce import lemma1, table2

TINY = lemma1.Settings(nodes=4, dim=4, features=(64,), scales=(0.2, 1.0), draws=32)


def test_an_experiment_prints_its_verdicts_and_writes_its_files(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(lemma1.SETTINGS, "small", TINY)
    out, copy = tmp_path / "out", tmp_path / "copy.json"
    assert run(["reproduce", "lemma1", "--out", str(out), "--json", str(copy), "--seed", "3"]) == 0
    printed = capsys.readouterr()
    assert "does not hold" in printed.out
    assert "report.html" in printed.out
    assert "lemma1: r = 64" in printed.err
    assert json.loads(copy.read_text())["experiment"] == "lemma1"
    assert "--seed 3" in (out / "command.txt").read_text()


def test_options_of_table2_reach_the_settings_and_the_command(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def record(request: Any, settings: Any) -> Any:
        seen.append((request, settings))
        return lemma1.run(request, TINY)

    monkeypatch.setattr(table2, "run", record)
    words = [
        "--datasets",
        "mutag",
        "cora",
        "--models",
        "gcn",
        "--seeds",
        "2",
        "--memory-limit",
        "1.5",
        "--budget",
        "full",
    ]
    assert run(["reproduce", "table2", *words, "--out", str(tmp_path / "t")]) == 0
    ((request, settings),) = seen
    assert ([data.name for data in settings.data], settings.systems, settings.seeds) == (["mutag", "cora"], ("gcn",), 2)
    assert settings.memory_limit == 1_500_000_000
    assert request.command.startswith(
        "kdlgt reproduce table2 --datasets mutag cora --models gcn --seeds 2 --memory-limit 1.5 --budget full --seed 0"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [(["table2", "--models", "lsatt"], "Did you mean 'lsat'"), (["table2", "--seeds", "0"], "seeds = 0; allowed")],
)
def test_a_wrong_name_is_one_message(words: list[str], message: str, tmp_path: Any, capsys: Any) -> None:
    assert run(["reproduce", *words, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_help_lists_every_experiment(capsys: Any) -> None:
    assert run(["reproduce", "--help"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("table1", "table2", "figure2", "figure3", "lemma1", "sapd", "all"))

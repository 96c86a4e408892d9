"""Folder and page of an experiment, and of all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from matplotlib.figure import Figure

from kdlgt.errors import DataError, UnknownNameError
from kdlgt.experiments.reproduce import experiments
from kdlgt.experiments.reproduce.claims import judge
from kdlgt.experiments.reproduce.outcome import Outcome, Picture, Table


def outcome(request: Any = None) -> Outcome:
    return Outcome(
        name="lemma1",
        title="A <title>",
        summary="What & how",
        settings={"nodes": 3},
        tables=(
            Table.of("numbers", "Numbers", [{"a": 1, "b": 0.123456}, {"a": 2}]),
            Table.of("long", "Long", [{"a": row} for row in range(200)]),
        ),
        pictures=(Picture(name="dots", title="Dots", figure=Figure(figsize=(1, 1))),),
        claims=(judge("lemma1.bound", False, "c > 1"),),
        notes=("A note",),
    )


def test_the_folder_has_data_picture_command_versions_and_seed(request_of: Any) -> None:
    request = request_of("lemma1", seed=5)
    experiments.run_one(request, outcome)
    written = {path.name for path in request.folder.iterdir()}
    assert written == {
        "lemma1.json",
        "numbers.csv",
        "long.csv",
        "dots.png",
        "command.txt",
        "environment.json",
        "report.html",
    }
    command = (request.folder / "command.txt").read_text().strip()
    assert command == f"kdlgt reproduce lemma1 --budget small --seed 5 --out {request.folder}"
    tree = json.loads((request.folder / "lemma1.json").read_text())
    assert tree["tables"]["numbers"] == [{"a": 1, "b": 0.123456}, {"a": 2, "b": None}]
    assert tree["claims"][0]["verdict"] == "does not hold"
    assert tree["environment"]["seed"] == 5
    assert tree["environment"]["versions"]["torch"]
    assert (request.folder / "numbers.csv").read_text() == "a,b\n1,0.123456\n2,\n"


def test_the_page_is_self_contained_and_escaped(request_of: Any) -> None:
    request = request_of("lemma1")
    experiments.run_one(request, outcome)
    page = (request.folder / "report.html").read_text()
    assert "A &lt;title&gt;" in page
    assert "What &amp; how" in page
    assert 'src="data:image/png;base64,' in page
    assert "http" not in page.partition("</style>")[2]
    assert 'class="verdict fails">does not hold' in page
    assert "200 rows in <code>long.csv</code>" in page


def test_all_goes_on_after_one_that_cannot_run(request_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(name: str) -> Any:
        def refuse(request: Any) -> Any:
            raise DataError("no files")

        return refuse if name == "table1" else outcome

    monkeypatch.setattr(experiments, "experiment", chosen)
    request = request_of("all")
    sections = experiments.run_all(request, ("table1", "lemma1"))
    assert [section.outcome is None for section in sections] == [True, False]
    page = (request.folder / "report.html").read_text()
    assert "Could not be run: no files" in page
    assert "kdlgt reproduce lemma1" in page
    assert (request.folder / "lemma1" / "lemma1.json").is_file()


def test_every_experiment_is_there() -> None:
    assert all(callable(experiments.experiment(name)) for name in experiments.EXPERIMENTS)
    with pytest.raises(UnknownNameError, match="Did you mean 'figure2'"):
        experiments.experiment("figure22")

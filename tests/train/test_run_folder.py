from __future__ import annotations

import json
import pathlib

import pytest

from kdlgt.errors import RunFolderError
from kdlgt.train.run_folder import RunFolder


def a_run(path: pathlib.Path) -> RunFolder:
    path.mkdir()
    folder = RunFolder(path)
    folder.write_text(folder.config, "[train]\n")
    return folder


def test_a_new_or_empty_folder_starts_and_nothing_is_written_yet(tmp_path: pathlib.Path) -> None:
    RunFolder.start(tmp_path, resume=False)
    RunFolder.start(tmp_path / "new", resume=True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_continued_only_on_request(tmp_path: pathlib.Path) -> None:
    a_run(tmp_path / "run")
    with pytest.raises(RunFolderError, match="already holds a run; continue it with --resume"):
        RunFolder.start(tmp_path / "run", resume=False)
    assert RunFolder.start(tmp_path / "run", resume=True).config.exists()


@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: pathlib.Path, resume: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="holds no run"):
        RunFolder.start(tmp_path, resume=resume)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("thesis.tex", "years of work")]


def test_a_file_is_no_run_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder.start(tmp_path / "file", resume=False)


def test_metrics_come_back_and_a_half_written_row_does_not(tmp_path: pathlib.Path) -> None:
    folder = a_run(tmp_path / "run")
    for epoch in (1, 2, 3):
        folder.append_metrics({"epoch": epoch, "loss": 0.5 / epoch})
    with folder.metrics.open("a") as file:
        file.write("4,0.1")
    assert folder.read_metrics() == (["epoch", "loss"], [{"epoch": n, "loss": 0.5 / n} for n in (1.0, 2.0, 3.0)])
    folder.truncate_metrics(2)
    folder.append_metrics({"epoch": 3, "loss": 7.0})
    assert folder.metrics.read_text() == "epoch,loss\n1,0.5\n2,0.25\n3,7\n"


def test_the_environment_names_versions_seed_and_command(tmp_path: pathlib.Path) -> None:
    folder = a_run(tmp_path / "run")
    folder.write_environment(17, {"rpe sapd": "kdlgt 0.1.0"})
    tree = json.loads((folder.path / "environment.json").read_text())
    assert tree["seed"] == 17
    assert tree["versions"]["torch"]
    assert isinstance(tree["command"], list)


def test_an_unfinished_run_has_no_result(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RunFolderError, match="has not finished"):
        a_run(tmp_path / "run").read_result()

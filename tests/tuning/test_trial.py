"""Trials without Ray."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kdlgt.config import config_to_toml
from kdlgt.errors import CheckpointError, ConfigError, TrainingError
from kdlgt.train import RunFolder, train_run
from kdlgt.train.checkpoint import load_checkpoint
from kdlgt_tuning import trial
from kdlgt_tuning.trial import Job, Tally, attempt_trial, run_trial

pytestmark = pytest.mark.plugins
MakeJob = Callable[..., Job]
SAMPLE = {"model.rpe.0.k": 1, "model.dropout": 0.2}


def without_time(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if "seconds" not in name}


def test_a_trial_reports_every_epoch_and_returns_what_training_would(make_job: MakeJob, tmp_path: pathlib.Path) -> None:
    job = make_job()
    reports: list[dict[str, Any]] = []
    metrics = run_trial(job, SAMPLE, tmp_path / "trial", reports.append)
    assert [report["epoch"] for report in reports] == [1, 2, 3]
    assert {report["status"] for report in reports} == {"running"}
    assert metrics["status"] == "finished"
    result = train_run(job.config(SAMPLE), tmp_path / "run")
    assert metrics["score"] == result.val["accuracy"]
    assert metrics["best_epoch"] == result.best_epoch
    assert metrics["epoch"] == result.epochs
    assert metrics["seconds"] >= 3 * min(report["seconds_per_epoch"] for report in reports) > 0


def test_a_job_travels(make_job: MakeJob, tmp_path: pathlib.Path) -> None:
    job = make_job()
    copy = pickle.loads(pickle.dumps(job))
    assert copy.config(SAMPLE) == job.config(SAMPLE)


def test_a_trial_goes_on_from_its_checkpoint(make_job: MakeJob, tmp_path: pathlib.Path) -> None:
    job, folder = make_job(), tmp_path / "trial"
    whole = run_trial(job, SAMPLE, tmp_path / "whole")

    def die(metrics: dict[str, Any]) -> None:
        if metrics["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trial(job, SAMPLE, folder, die)
    reports: list[dict[str, Any]] = []
    rest = run_trial(job, SAMPLE, folder, reports.append)
    assert [report["epoch"] for report in reports] == [3]
    assert without_time(rest) == without_time(whole)
    assert without_time(run_trial(job, SAMPLE, folder)) == without_time(whole)


def test_values_that_do_not_go_together_fail_alone(make_job: MakeJob, tmp_path: pathlib.Path) -> None:
    job = make_job({"model": {"hidden": {"choice": [8, 12]}, "heads": {"choice": [2, 4, 8]}}})
    metrics = attempt_trial(job, {"model.hidden": 12, "model.heads": 8}, tmp_path / "trial")
    assert metrics["status"] == "failed"
    assert "model.heads = 8; allowed: a divisor of hidden = 12" in metrics["error"]
    assert "score" not in metrics


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (TrainingError("out of memory in epoch 1, step 1. To save memory: ..."), "out of memory", "To save memory"),
        (MemoryError(), "out of memory", "MemoryError"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory", "allocate"),
        (TrainingError("the loss is nan in epoch 1"), "failed", "the loss is nan"),
        (ZeroDivisionError("division by zero"), "failed", "ZeroDivisionError: division by zero (test_trial.py, line"),
    ],
)
def test_what_goes_wrong_is_in_the_metrics(
    error: Exception,
    status: str,
    text: str,
    make_job: MakeJob,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(trial, "train_run", fail)
    metrics = attempt_trial(make_job(), SAMPLE, tmp_path / "trial")
    assert metrics["status"] == status
    assert text in metrics["error"]


def test_a_plugin_of_the_sweep_is_missing_on_the_worker(make_job: MakeJob, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="this worker lacks the plugins theirs"):
        run_trial(make_job(plugins=("sapd", "theirs")), SAMPLE, tmp_path / "trial")


def test_a_checkpoint_of_another_config_is_adopted_only_when_asked(make_job: MakeJob, tmp_path: pathlib.Path) -> None:
    job = make_job({"train.weight_decay": {"float": [0.0, 0.5]}, "train.epochs": {"int": [2, 3]}})
    folder = tmp_path / "trial"
    run_trial(job, {"train.weight_decay": 0.0, "train.epochs": 2}, folder)
    sample = {"train.weight_decay": 0.25, "train.epochs": 3}
    with pytest.raises(CheckpointError, match="belongs to another config"):
        run_trial(job, sample, folder)
    reports: list[dict[str, Any]] = []
    run_trial(attrs.evolve(job, adopt=True), sample, folder, reports.append)
    assert [report["epoch"] for report in reports] == [3]
    checkpoint = load_checkpoint(RunFolder(folder).last)
    assert checkpoint.config == config_to_toml(job.config(sample))
    assert checkpoint.optimizer["param_groups"][0]["weight_decay"] == 0.25


def test_the_score_is_that_of_the_best_epoch_by_the_data_sets_own_metric(make_job: MakeJob) -> None:
    objective = attrs.evolve(make_job().objective, metric="loss", mode="min")
    rows = [
        {"epoch": 1, "val_accuracy": 0.5, "val_loss": 0.1, "seconds": 9.0},
        {"epoch": 2, "val_accuracy": 0.9, "val_loss": 0.4, "seconds": 1.0},
        {"epoch": 3, "val_accuracy": 0.9, "val_loss": 0.3, "seconds": 2.0},
        {"epoch": 3, "val_accuracy": 0.9, "val_loss": 0.3, "seconds": 3.0},
    ]
    metrics = Tally(objective, rows).metrics()
    assert metrics == {"epoch": 3, "best_epoch": 3, "score": 0.3, "seconds": 13.0, "seconds_per_epoch": 3.0}

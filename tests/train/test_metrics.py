from __future__ import annotations

import math

import pytest
import torch

from kdlgt.train.metrics import Monitor, scores

NAN = math.nan


def test_accuracy_and_f1_of_the_labels_that_are_there() -> None:
    output = torch.eye(3)[[0, 1, 1, 2]]
    found = scores("multiclass", output, torch.tensor([0, 1, 2, -1]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_areas_are_averaged_over_targets_with_both_classes() -> None:
    output = torch.tensor([[4.0, 1.0, 0.0], [3.0, 2.0, 1.0], [2.0, 3.0, 2.0], [1.0, 4.0, 3.0]])
    target = torch.tensor([[1.0, 1.0, 1.0], [1.0, NAN, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    found = scores("multilabel", output, target)
    assert found["roc_auc"] == pytest.approx((1.0 + 0.5) / 2)


def test_large_logits_do_not_tie() -> None:
    output = torch.tensor([[20.0], [25.0], [30.0]])
    assert scores("binary", output, torch.tensor([[0.0], [1.0], [1.0]]))["roc_auc"] == 1.0


def test_regression_errors() -> None:
    found = scores("regression", torch.tensor([[1.0], [2.0], [9.0]]), torch.tensor([[2.0], [5.0], [NAN]]))
    assert found == pytest.approx({"mae": 2.0, "rmse": math.sqrt(5.0)})


@pytest.mark.parametrize("task", ["multiclass", "binary", "regression"])
def test_no_labels_give_nan(task: str) -> None:
    target = torch.full((2,), -1) if task == "multiclass" else torch.full((2, 1), NAN)
    found = scores(task, torch.zeros(2, 1), target)  # type: ignore[arg-type]
    assert all(math.isnan(value) for value in found.values())


def test_the_monitor_knows_its_direction_breaks_ties_by_loss_and_never_prefers_nan() -> None:
    accuracy, error = Monitor("accuracy", True), Monitor("mae", False)
    assert accuracy.better({"accuracy": 0.6, "loss": 9.0}, {"accuracy": 0.5, "loss": 1.0})
    assert error.better({"mae": 0.4, "loss": 9.0}, {"mae": 0.5, "loss": 1.0})
    assert accuracy.better({"accuracy": 0.5, "loss": 0.9}, {"accuracy": 0.5, "loss": 1.0})
    assert not accuracy.better({"accuracy": 0.5, "loss": 1.0}, {"accuracy": 0.5, "loss": 1.0})
    assert not error.better({"mae": NAN, "loss": 0.0}, {"mae": 0.5, "loss": 1.0})
    assert error.better({"mae": 0.5, "loss": 1.0}, {"mae": NAN, "loss": 0.0})

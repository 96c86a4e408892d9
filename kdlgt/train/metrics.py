"""Metrics of a whole part of the data, by torchmetrics."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from kdlgt.data.bundle import Task

Scores = dict[str, float]


@attrs.frozen
class Monitor:
    """The metric that chooses the best epoch.

    Attributes:
        name: its key in the scores.
        higher_is_better: its direction.
    """

    name: str
    higher_is_better: bool

    def better(self, score: Scores, than: Scores) -> bool:
        """Whether ``score`` beats ``than``; equal metrics are decided by the lower loss, and NaN never wins."""
        return self._rank(score) > self._rank(than)

    def _rank(self, score: Scores) -> tuple[float, float]:
        value, loss = score.get(self.name, math.nan), score.get("loss", math.nan)
        signed = value if self.higher_is_better else -value
        return (-math.inf if math.isnan(signed) else signed, -math.inf if math.isnan(loss) else -loss)


def scores(task: Task, output: Tensor, target: Tensor) -> Scores:
    """Metrics of outputs [n, C] against targets; missing labels do not count.

    Classes: accuracy and macro F1. Binary and multi-label: ROC-AUC and average precision, averaged over the targets
    that have both classes (as OGB does); NaN when none has. Regression: mean absolute and root mean squared error.
    """
    if task == "multiclass":
        return _multiclass(output, target.reshape(-1))
    target = target.reshape(output.shape)
    return _regression(output, target) if task == "regression" else _binary(output, target)


def _multiclass(output: Tensor, target: Tensor) -> Scores:
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_f1_score

    present = target >= 0
    predicted, labels, classes = output[present].argmax(-1), target[present], output.size(-1)
    if not len(labels):
        return {"accuracy": math.nan, "f1": math.nan}
    return {
        "accuracy": float(multiclass_accuracy(predicted, labels, classes, average="micro")),
        "f1": float(multiclass_f1_score(predicted, labels, classes, average="macro")),
    }


def _binary(output: Tensor, target: Tensor) -> Scores:
    from torchmetrics.functional.classification import binary_auroc, binary_average_precision

    areas, precisions = [], []
    for probability, labels in zip(output.T.double().sigmoid(), target.T, strict=True):
        present = ~torch.isnan(labels)
        known = labels[present].long()
        if 0 < int(known.sum()) < len(known):
            areas.append(float(binary_auroc(probability[present], known)))
            precisions.append(float(binary_average_precision(probability[present], known)))
    return {"roc_auc": _mean(areas), "average_precision": _mean(precisions)}


def _regression(output: Tensor, target: Tensor) -> Scores:
    from torchmetrics.functional import mean_absolute_error, mean_squared_error

    present = ~torch.isnan(target)
    if not bool(present.any()):
        return {"mae": math.nan, "rmse": math.nan}
    predicted, known = output[present], target[present].to(output.dtype)
    return {
        "mae": float(mean_absolute_error(predicted, known)),
        "rmse": float(mean_squared_error(predicted, known, squared=False)),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan

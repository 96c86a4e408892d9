"""Losses by task; missing labels do not count."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor
from torch.nn import functional

from kdlgt.data.bundle import DataBundle, Task
from kdlgt.errors import ConfigError


@attrs.frozen(eq=False)
class Objective:
    """A loss on outputs [n, C] and targets.

    Attributes:
        task: ``multiclass``: class numbers [n], -1 for missing, cross-entropy. ``binary``, ``multilabel``: 0/1 [n, C],
            NaN for missing, binary cross-entropy. ``regression``: numbers [n, C], NaN for missing, L1.
        class_weights: weights [C] of the classes; of the positives of each label for ``binary`` and ``multilabel``.
    """

    task: Task
    class_weights: Tensor | None = None

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean loss over the labels that are present; zero when there are none."""
        if self.task == "multiclass":
            return self._cross_entropy(output, target)
        target = target.reshape(output.shape).to(output.dtype)
        present = ~torch.isnan(target)
        filled = torch.where(present, target, torch.zeros_like(target))
        if self.task == "regression":
            each = (output - filled).abs()
        else:
            weights = None if self.class_weights is None else self.class_weights.to(output)
            each = functional.binary_cross_entropy_with_logits(output, filled, reduction="none", pos_weight=weights)
        return (each * present).sum() / present.sum().clamp(min=1)

    def _cross_entropy(self, output: Tensor, target: Tensor) -> Tensor:
        labels = target.reshape(-1)
        present = labels >= 0
        if not bool(present.any()):
            return output.sum() * 0.0
        weights = None if self.class_weights is None else self.class_weights.to(output)
        return functional.cross_entropy(output[present], labels[present], weight=weights)


def inverse_frequency(bundle: DataBundle) -> Tensor:
    """Weights [C] by inverse frequency in the training part.

    Classes: ``M / (C * count_c)``, mean 1 over the M labels, zero for a class that does not occur. Binary and
    multi-label targets: ``negatives / positives`` for each.

    Raises:
        ConfigError: the targets are numbers.
    """
    if bundle.task == "regression":
        raise ConfigError(f"train.class_weights = true, but {bundle.name} is a regression; set it to false")
    counts = bundle.class_counts().double()
    if bundle.task == "multiclass":
        return torch.where(counts > 0, counts.sum() / (len(counts) * counts.clamp(min=1)), 0.0).float()
    labels = bundle.train_labels()
    return ((labels == 0).sum(0) / counts.clamp(min=1)).float()

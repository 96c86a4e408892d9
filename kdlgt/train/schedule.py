"""The optimiser and its learning rate as a function of progress, without state of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from kdlgt.config.schema import TrainConfig


def build_optimizer(config: TrainConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Adam or AdamW with the config's settings (paper section 6.1 by default)."""
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=config.lr, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay)


def learning_rate(config: TrainConfig, step: int, steps_per_epoch: int) -> float:
    """Learning rate of optimiser step ``step``, counted from 0 over the whole run.

    Linear warm-up to ``lr`` over the first ``warmup`` epochs, then ``lr`` times ``1 - t`` (linear),
    ``(1 + cos(pi t)) / 2`` (cosine) or 1 (constant), t running from 0 at the first step after warm-up to 1 at the end.
    """
    warm, total = config.warmup * steps_per_epoch, config.epochs * steps_per_epoch
    if step < warm:
        return config.lr * (step + 1) / warm
    t = min((step - warm) / max(total - warm, 1), 1.0)
    factor = {"linear": 1.0 - t, "cosine": (1.0 + math.cos(math.pi * t)) / 2.0, "constant": 1.0}[config.schedule]
    return config.lr * factor


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Write the rate into every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = rate

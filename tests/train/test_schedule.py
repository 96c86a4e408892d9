from __future__ import annotations

import pytest
import torch

from kdlgt.config import TrainConfig
from kdlgt.train.schedule import build_optimizer, learning_rate


def test_the_linear_schedule_falls_from_lr_towards_zero_by_equal_steps() -> None:
    config = TrainConfig(epochs=5, lr=1.0)
    rates = [learning_rate(config, step, 2) for step in range(10)]
    assert rates == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_warm_up_climbs_to_lr_and_the_schedule_starts_after_it() -> None:
    config = TrainConfig(epochs=6, warmup=2, lr=1.0, schedule="cosine")
    rates = [learning_rate(config, step, 2) for step in range(13)]
    assert rates[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert rates[8] == pytest.approx(0.5)
    assert rates[12] == pytest.approx(0.0)


def test_constant_stays() -> None:
    config = TrainConfig(epochs=3, lr=0.3, schedule="constant")
    assert {learning_rate(config, step, 1) for step in range(3)} == {0.3}


def test_the_papers_settings_are_the_defaults() -> None:
    optimizer = build_optimizer(TrainConfig(), [torch.nn.Parameter(torch.zeros(1))])
    group = optimizer.param_groups[0]
    assert type(optimizer) is torch.optim.Adam
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (1e-4, (0.99, 0.999), 1e-7, 0.0)
    assert (
        type(build_optimizer(TrainConfig(optimizer="adamw"), [torch.nn.Parameter(torch.zeros(1))])) is torch.optim.AdamW
    )

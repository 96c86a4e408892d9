"""Values outside their range, and fields that must fit together: the same rule in Python and from a file."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kdlgt.config import (
    AttentionConfig,
    Config,
    DataConfig,
    EncoderConfig,
    ModelConfig,
    TrainConfig,
    config_from_dict,
    config_to_dict,
)
from kdlgt.errors import ConfigError
from kdlgt.registry import Registry

WRONG = [
    ("model.hidden", 0, "an integer >= 1"),
    ("model.layers", 0, "an integer >= 1"),
    ("model.layers", -1, "an integer >= 1"),
    ("model.heads", 0, "an integer >= 1"),
    ("model.heads", 5, "a divisor of hidden = 64"),
    ("model.feed_forward", -1.0, "a number >= 0"),
    ("model.dropout", 1.0, "a number in [0, 1)"),
    ("model.dropout", -0.1, "a number in [0, 1)"),
    ("model.dropout", float("nan"), "a number in [0, 1)"),
    ("model.attention_dropout", 1.5, "a number in [0, 1)"),
    ("model.input_dropout", 1.0, "a number in [0, 1)"),
    ("model.attention.auto_threshold", -1, "an integer >= 0"),
    ("model.attention.redraw_every", -1, "an integer >= 0"),
    ("model.encoder.max_degree", 0, "an integer >= 1"),
    ("data.ratios", (0.5, 0.4, 0.2), "three shares that sum to 1"),
    ("data.ratios", (0.0, 0.5, 0.5), "three shares that sum to 1, the first (training) above 0"),
    ("data.ratios", (1.5, -0.5, 0.0), "a number >= 0"),
    ("data.batch_size", 0, "an integer >= 1"),
    ("data.workers", -1, "an integer >= 0"),
    ("data.split_seed", -1, "an integer in 0..4294967295"),
    ("data.folds", 1, "0 (off) or an integer >= 2"),
    ("data.folds", -1, "an integer >= 0"),
    ("data.fold", 1, "an integer below folds = 0"),
    ("data.prepare_workers", 0, "an integer >= 1"),
    ("train.epochs", 0, "an integer >= 1"),
    ("train.lr", 0.0, "a number > 0"),
    ("train.lr", float("inf"), "a number > 0"),
    ("train.betas", (0.9, 1.0), "a number in [0, 1)"),
    ("train.eps", 0.0, "a number > 0"),
    ("train.weight_decay", -0.1, "a number >= 0"),
    ("train.warmup", -1, "an integer >= 0"),
    ("train.clip", -1.0, "a number >= 0"),
    ("train.patience", -1, "an integer >= 0"),
    ("train.accumulate", 0, "an integer >= 1"),
    ("train.devices", 0, "an integer >= 1"),
    ("train.threads", 0, "an integer >= 1"),
    ("train.seed", -1, "an integer in 0..4294967295"),
    ("train.seed", 2**32, "an integer in 0..4294967295"),
]
CLASSES: dict[str, Any] = {
    "model": ModelConfig,
    "model.attention": AttentionConfig,
    "model.encoder": EncoderConfig,
    "data": DataConfig,
    "train": TrainConfig,
}


@pytest.mark.parametrize(("path", "value", "allowed"), WRONG)
def test_out_of_range_in_a_file(path: str, value: Any, allowed: str, registry: Registry) -> None:
    tree: Any = value
    for key in reversed(path.split(".")):
        tree = {key: tree}
    with pytest.raises(ConfigError) as caught:
        config_from_dict(tree, registry)
    assert str(caught.value).startswith(f"config: {path} = ")
    assert f"; allowed: {allowed}" in str(caught.value)


@pytest.mark.parametrize(("path", "value", "allowed"), WRONG)
def test_out_of_range_in_python(path: str, value: Any, allowed: str) -> None:
    table, _, name = path.rpartition(".")
    with pytest.raises(ConfigError) as caught:
        CLASSES[table](**{name: value})
    assert str(caught.value).startswith(f"{name} = ")
    assert f"; allowed: {allowed}" in str(caught.value)


def test_every_number_has_a_range() -> None:
    numeric = [
        f"{table}.{field.name}"
        for table, kind in CLASSES.items()
        for field in attrs.fields(attrs.resolve_types(kind))
        if field.type in (int, float, int | None, tuple[float, float], tuple[float, float, float])
    ]
    assert sorted(set(numeric)) == sorted({path for path, _, _ in WRONG})


def test_the_smallest_values_are_fine(registry: Registry) -> None:
    tree = {
        "model": {"hidden": 1, "heads": 1, "layers": 1, "dropout": 0},
        "data": {"ratios": [1, 0, 0], "folds": 2, "fold": 1},
        "train": {"epochs": 1, "seed": 0, "weight_decay": 0},
    }
    config = config_from_dict(tree, registry)
    assert (config.model.hidden, config.data.fold, config.data.ratios) == (1, 1, (1.0, 0.0, 0.0))


@pytest.mark.parametrize("ratios", [(1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1), (0.333333, 0.333333, 0.333334)])
def test_shares_may_be_rounded(ratios: tuple[float, float, float]) -> None:
    assert DataConfig(ratios=ratios).ratios == ratios


def test_configs_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Config().train.lr = 1.0  # type: ignore[misc]


def test_every_field_is_documented() -> None:
    for kind in CLASSES.values():
        documented = kind.__doc__ or ""
        assert [name for name in attrs.fields_dict(kind) if name not in documented and name not in UNDOCUMENTED] == []


#: Tables and components, which their own classes document.
UNDOCUMENTED = {"attention", "features", "rpe", "encoder", "local"}


def test_the_paper_s_settings_are_the_defaults() -> None:
    train = config_to_dict(Config())["train"]
    assert {key: train[key] for key in ("optimizer", "betas", "eps", "schedule")} == {
        "optimizer": "adam",
        "betas": [0.99, 0.999],
        "eps": 1e-7,
        "schedule": "linear",
    }

"""Every config survives TOML and JSON exactly."""

from __future__ import annotations

import json
import math
import pathlib
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kdlgt.config import (
    AttentionConfig,
    Component,
    Config,
    DataConfig,
    EncoderConfig,
    LocalConfig,
    ModelConfig,
    TrainConfig,
    apply_overrides,
    config_from_dict,
    config_to_dict,
    config_to_toml,
    load_config,
)
from kdlgt.registry import Registry


def component(
    registry: Registry, kind: Any, name: str, **options: st.SearchStrategy[Any]
) -> st.SearchStrategy[Component]:
    return st.fixed_dictionaries({}, optional=options).map(
        lambda given: Component(name=name, options=registry.options(kind, name, given))
    )


def fractions() -> st.SearchStrategy[float]:
    return st.floats(0, 1, exclude_max=True)


def positive() -> st.SearchStrategy[float]:
    return st.floats(0, 1e300, exclude_min=True)


def non_negative() -> st.SearchStrategy[float]:
    return st.floats(0, 1e300)


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 10**20)


@st.composite
def ratios(draw: st.DrawFn) -> tuple[float, float, float]:
    train = draw(st.floats(0.01, 1))
    valid = draw(st.floats(0, 1 - train))
    return train, valid, max(0.0, 1 - train - valid)


@st.composite
def models(draw: st.DrawFn, registry: Registry) -> ModelConfig:
    heads = draw(st.integers(1, 16))
    sapd = component(
        registry,
        "rpe",
        "sapd",
        k=sizes,
        max_anchors=st.none() | st.integers(),
        pooling=st.sampled_from(["softmin", "mean"]),
        init=st.floats(allow_nan=False),
        hops=st.lists(st.integers(), max_size=3),
    )
    favor = {"num_features": st.integers(), "orthogonal": st.booleans()}
    encoder = st.builds(
        EncoderConfig,
        kind=st.sampled_from(["auto", "linear", "embedding", "degree"]),
        max_degree=sizes,
        absolute=st.lists(component(registry, "absolute", "laplacian", **favor), max_size=2).map(tuple),
    )
    return draw(
        st.builds(
            ModelConfig,
            hidden=st.integers(1, 64).map(lambda factor: factor * heads),
            heads=st.just(heads),
            feed_forward=positive(),
            dropout=fractions(),
            norm=st.sampled_from(["layer", "rms", "batch"]),
            attention=st.builds(AttentionConfig, redraw_every=st.integers(0), auto_threshold=st.integers(0)),
            features=component(registry, "feature_map", "favor+", **favor),
            rpe=st.lists(sapd | component(registry, "rpe", "plain"), max_size=3).map(tuple),
            encoder=encoder,
            local=st.none() | st.builds(LocalConfig, conv=st.text()),
        )
    )


def data(registry: Registry) -> st.SearchStrategy[DataConfig]:
    return st.builds(
        DataConfig,
        dataset=component(registry, "dataset", "digits")
        | st.text(min_size=1).map(
            lambda text: Component(name="file", options=registry.options("dataset", "file", {"file": text}))
        ),
        ratios=ratios(),
        folds=st.just(5),
        fold=st.integers(0, 4),
        split_seed=st.none() | seeds,
        batch_size=sizes,
        workers=st.integers(0),
        prepare_workers=st.none() | sizes,
    )


trains = st.builds(
    TrainConfig,
    epochs=sizes,
    lr=positive(),
    betas=st.tuples(fractions(), fractions()),
    eps=positive(),
    weight_decay=non_negative(),
    warmup=st.integers(0),
    clip=non_negative(),
    patience=st.integers(0),
    precision=st.sampled_from(["32", "64", "bf16", "16"]),
    accumulate=sizes,
    devices=sizes,
    seed=seeds,
)


@given(draw=st.data())
def test_toml_and_json_give_the_same_config_back(draw: st.DataObject, registry: Registry) -> None:
    config = Config(data=draw.draw(data(registry)), model=draw.draw(models(registry)), train=draw.draw(trains))
    assert config_from_dict(tomllib.loads(config_to_toml(config)), registry) == config
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config))), registry) == config


def test_through_a_file(tmp_path: pathlib.Path, registry: Registry) -> None:
    tree = {"model": {"rpe": [{"name": "sapd", "max_anchors": None}, "plain"], "local": "GAT", "attention": "auto"}}
    config = config_from_dict(tree, registry)
    path = tmp_path / "resolved.toml"
    path.write_text(config_to_toml(config), encoding="utf-8")
    assert load_config(path, registry=registry) == config
    assert config.model.rpe[0].options.max_anchors is None


def test_components_are_flat_and_every_value_is_written(registry: Registry) -> None:
    text = config_to_toml(config_from_dict({"model": {"rpe": ["sapd"]}}, registry))
    tree = tomllib.loads(text)
    assert tree["model"]["rpe"] == [
        {"name": "sapd", "k": 2, "max_anchors": 16, "pooling": "softmin", "init": 1.0, "hops": []}
    ]
    assert tree["model"]["local"] == "none"
    assert tree["train"]["betas"] == [0.99, 0.999]
    assert tree["data"]["dataset"] == {"name": "digits"}


def test_a_config_made_in_python_is_resolved_through_its_tree(registry: Registry) -> None:
    config = Config(model=ModelConfig(rpe=(Component(name="sapd", options={"k": 5}), Component(name="plain"))))
    resolved = config_from_dict(config_to_dict(config), registry)
    assert resolved.model.rpe[0].options.k == 5
    assert resolved.model.features.options.num_features == 64


def test_any_table_can_be_written_alone(registry: Registry) -> None:
    model = config_from_dict({"model": {"hidden": 8}}, registry).model
    assert config_from_dict({"model": tomllib.loads(config_to_toml(model))}, registry).model == model


def test_infinite_options_survive_toml(registry: Registry) -> None:
    config = config_from_dict({"model": {"rpe": [{"name": "sapd", "init": -math.inf}]}}, registry)
    assert config_from_dict(tomllib.loads(config_to_toml(config)), registry) == config


@given(
    path=st.sampled_from(["model.hidden", "train.lr", "model.rpe.0.k", "data.split_seed"]), factor=st.integers(1, 99)
)
def test_an_override_of_a_written_config_changes_that_value_alone(path: str, factor: int, registry: Registry) -> None:
    written = tomllib.loads(config_to_toml(config_from_dict({"model": {"rpe": ["sapd"]}}, registry)))
    changed = config_to_dict(config_from_dict(apply_overrides(written, [f"{path}={4 * factor}"]), registry))
    before = config_to_dict(config_from_dict(written, registry))
    assert _differences(before, changed) in ([path], [])


def _differences(first: Any, second: Any, path: str = "") -> list[str]:
    if isinstance(first, dict):
        return [at for key in first for at in _differences(first[key], second[key], f"{path}.{key}".lstrip("."))]
    if isinstance(first, list) and first and isinstance(first[0], dict):
        return [at for i in range(len(first)) for at in _differences(first[i], second[i], f"{path}.{i}")]
    return [] if first == second else [path]

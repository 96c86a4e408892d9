"""Overrides ``a.b.c=v``: values as TOML, lists by number, and the same strictness afterwards."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdlgt.config import apply_overrides, config_from_dict, load_config
from kdlgt.config.overrides import set_value
from kdlgt.errors import ConfigError
from kdlgt.registry import Registry

TREE: dict[str, Any] = {
    "model": {
        "hidden": 64,
        "attention": "linear",
        "features": "favor+",
        "local": "none",
        "rpe": [{"name": "sapd", "k": 2}, "plain"],
    }
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1e-3", -1e-3),
        ("inf", math.inf),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ('"3"', "3"),
        ("'a b'", "a b"),
        ("{name = 'sapd', k = 3}", {"name": "sapd", "k": 3}),
        ("favor++", "favor++"),
        ("sapd", "sapd"),
        ("", ""),
        ("a=b", "a=b"),
        ("True", "True"),
        ("1\nb = 2", "1\nb = 2"),
        ("C:\\data", "C:\\data"),
    ],
)
def test_values_are_toml_or_else_text(text: str, value: Any) -> None:
    assert apply_overrides({}, [f"model.features.x={text}"]) == {"model": {"features": {"x": value}}}


def test_the_given_tree_is_not_changed() -> None:
    before = {"model": {"rpe": [{"name": "sapd", "k": 2}]}}
    changed = apply_overrides(before, ["model.rpe.0.k=3"])
    assert changed["model"]["rpe"][0]["k"] == 3
    assert before["model"]["rpe"][0]["k"] == 2


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.hidden=32", {"hidden": 32}),
        ("model . hidden = 32", {"hidden": 32}),
        ("model.attention=exact", {"attention": "exact"}),
        ("model.attention.auto_threshold=9", {"attention": {"mode": "linear", "auto_threshold": 9}}),
        ("model.features.num_features=8", {"features": {"name": "favor+", "num_features": 8}}),
        ("model.local.conv=GIN", {"local": {"conv": "GIN"}}),
        ("model.local=none", {"local": "none"}),
        ("model.rpe.0.k=3", {"rpe": [{"name": "sapd", "k": 3}, "plain"]}),
        ("model.rpe.1.x=3", {"rpe": [{"name": "sapd", "k": 2}, {"name": "plain", "x": 3}]}),
        ("model.rpe.1=sapd", {"rpe": [{"name": "sapd", "k": 2}, "sapd"]}),
        ("model.rpe=[]", {"rpe": []}),
        ("model.encoder.degree=true", {"encoder": {"degree": True}}),
    ],
)
def test_paths(override: str, expected: dict[str, Any]) -> None:
    assert apply_overrides(TREE, [override]) == {"model": TREE["model"] | expected}


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("train.precision=32", "precision", "32"),
        ("train.precision='16'", "precision", "16"),
        ("train.optimizer=adamw", "optimizer", "adamw"),
    ],
)
def test_fields_that_take_strings_take_the_text(override: str, path: str, value: str, registry: Registry) -> None:
    tree = apply_overrides({}, [override])
    assert tree["train"][path] == value
    assert getattr(config_from_dict(tree, registry).train, path) == value


def test_later_overrides_win() -> None:
    assert apply_overrides({}, ["a=1", "a=2"]) == {"a": 2}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.hidden", "override 'model.hidden'; write path=value, e.g. model.rpe.0.k=3"),
        ("=3", "write path=value"),
        ("model..hidden=3", "write path=value"),
        (".=3", "write path=value"),
        (
            "model.rpe.2.k=3",
            "model.rpe.2: model.rpe has 2 entries; allowed: 0..1, or set the whole list with model.rpe=",
        ),
        ("model.rpe.2=sapd", "model.rpe.2: model.rpe has 2 entries; allowed: 0..1"),
        ("model.rpe.-1.k=3", "model.rpe.-1: model.rpe has 2 entries"),
        ("model.rpe.first.k=3", "model.rpe.first: model.rpe has 2 entries"),
        ("model.encoder.absolute.0.x=3", "model.encoder.absolute has 0 entries; allowed: none, it is empty"),
        ("model.hidden.x=3", "model.hidden = 64 is a value; it has no entries to set"),
        ("model.rpe.0.name.x=3", "model.rpe.0.name = 'sapd' is a value"),
    ],
)
def test_bad_paths(override: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_overrides(TREE, [override])
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.hiden=3", "model.hiden: unknown key; allowed: hidden"),
        ("modle.hidden=3", "modle: unknown key; allowed: data, model, train. Did you mean 'model'?"),
        ("model.rpe.0.max_anchor=3", "model.rpe.0.max_anchor: unknown key"),
        ("model.layers=3.7", "model.layers = 3.7; allowed: an integer"),
        ("model.layers=two", "model.layers = 'two'; allowed: an integer"),
        ("model.rpe.0=sat", "model.rpe.0.name: unknown RPE 'sat'"),
    ],
)
def test_what_they_say_is_checked_like_the_file(write: Any, registry: Registry, override: str, expected: str) -> None:
    path = write('[[model.rpe]]\nname = "sapd"')
    with pytest.raises(ConfigError) as caught:
        load_config(path, [override], registry)
    assert str(caught.value).startswith(f"{path} with {override}: {expected}")


def test_a_plain_value_in_place() -> None:
    tree = {"model": {"rpe": ["sapd"]}}
    assert set_value(tree, "model.rpe.0.k", 3) == {"model": {"rpe": [{"name": "sapd", "k": 3}]}}
    assert set_value(tree, "model.rpe", [{"name": "sat"}]) == {"model": {"rpe": [{"name": "sat"}]}}
    assert set_value(tree, "train.lr", 0.1) == {**tree, "train": {"lr": 0.1}}
    assert tree == {"model": {"rpe": ["sapd"]}}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("model..k", "write keys with dots between them"),
        ("model.rpe.1.k", "model.rpe has 1 entries"),
        ("model.hidden.k", "model.hidden = 8 is a value; it has no entries to set"),
    ],
)
def test_a_plain_value_that_has_no_place(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        set_value({"model": {"rpe": ["sapd"], "hidden": 8}}, path, 3)


@given(text=st.text())
def test_any_text_is_a_value_or_a_text(text: str) -> None:
    (value,) = apply_overrides({}, [f"x={text}"]).values()
    assert not isinstance(value, str) or len(value) <= len(text)

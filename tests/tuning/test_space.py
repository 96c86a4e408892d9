from __future__ import annotations

import pathlib
import tomllib
from typing import Any

import pytest

from kdlgt.errors import ConfigError
from kdlgt.registry import Registry
from kdlgt_tuning.domains import Choice, IntegerRange
from kdlgt_tuning.space import Parameter, Space, check_space, default_space, parse_space, read_space

pytestmark = pytest.mark.plugins
SPACES = pathlib.Path(__file__).parents[2] / "tuning" / "spaces"


def test_dotted_keys_tables_and_quoted_keys_are_one(tree: dict[str, Any], registry: Registry) -> None:
    nested = parse_space({"model": {"rpe": {"0": {"k": {"int": [1, 4]}}}}})
    assert nested == parse_space({"model.rpe.0.k": {"int": [1, 4]}})
    assert nested == Space((Parameter("model.rpe.0.k", IntegerRange(1, 4)),))
    assert check_space(nested, tree, registry) == nested


@pytest.mark.parametrize(
    ("space", "messages"),
    [
        ({"model.rpe.0.kk": {"int": [1, 4]}}, ["model.rpe.0.kk: unknown key", "Did you mean 'k'?"]),
        ({"modle.hidden": {"choice": [8]}}, ["modle.hidden = 8: modle: unknown key", "Did you mean 'model'?"]),
        ({"model.rpe.1.k": {"int": [1, 4]}}, ["model.rpe.1.k = 1: model.rpe.1: model.rpe has 1 entries"]),
        ({"model.rpe.0.k": {"float": [1.0, 3.5]}}, ["model.rpe.0.k = 1.0; allowed: an integer. Did you mean 1?"]),
        ({"model.hidden": {"choice": [8, 9]}}, ["model.hidden = 9: model.heads = 2; allowed: a divisor of hidden = 9"]),
        ({"model.norm": {"choice": ["layer", "bach"]}}, ["model.norm = 'bach'", "Did you mean 'batch'?"]),
        ({"train.epochs": {"int": [-1, 4]}}, ["train.epochs = -1; allowed: an integer >= 1"]),
        ({"data.dataset.name": {"choice": ["karate"]}}, ["scores on different data sets cannot be compared"]),
        ({"train.devices": {"choice": [1, 2]}}, ["a trial is one process"]),
        ({"model.rpe.*.rank": {"int": [1, 4]}}, ["no entry of model.rpe has this key", "max_anchors"]),
        ({"model.*.rank": {"int": [1, 4]}}, ["stands for the entries of a list, and model is none"]),
        (
            {"model.rpe": {"choice": [[], ["sapd"]]}, "model.rpe.0.k": {"int": [1, 4]}},
            ["model.rpe.0.k: lies within model.rpe"],
        ),
        ({"model.rpe.0.k": {"int": [1, 4]}, "model.rpe.*.k": {"int": [1, 4]}}, ["model.rpe.0.k: lies within"]),
    ],
)
def test_what_the_config_does_not_allow(
    space: dict[str, Any], messages: list[str], tree: dict[str, Any], registry: Registry
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_space(parse_space(space), tree, registry)
    assert [message for message in messages if message not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"model": {"rpe": {"0": {"k": {"itn": [1, 4]}}}}}, r"model.rpe.0.k = .*Did you mean 'int'"),
        ({"train": {"lr": 0.1}}, r"train.lr = 0.1: a value, not a set of values"),
        ({"model": {"hidden": {}}}, "model.hidden = {}; allowed: one of"),
        ({}, "nothing varies; write a line such as"),
    ],
)
def test_what_is_no_space(space: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_space(space)


def test_all_faults_come_at_once(tmp_path: pathlib.Path, tree: dict[str, Any], registry: Registry) -> None:
    path = tmp_path / "space.toml"
    path.write_text("model.hidden = {choice = []}\ntrain.lr = {log = [1e-2, 1e-4]}\n")
    with pytest.raises(ConfigError) as caught:
        read_space(path, tree, registry)
    assert str(path) in str(caught.value)
    assert "model.hidden" in str(caught.value)
    assert "train.lr" in str(caught.value)


def test_a_star_stands_for_every_entry_with_the_key(tree: dict[str, Any], registry: Registry) -> None:
    rpe = [{"name": "sapd"}, {"name": "spectral"}, {"name": "sapd", "k": 3}]
    several = {**tree, "model": {**tree["model"], "rpe": rpe}}
    found = check_space(parse_space({"model.rpe.*.k": {"int": [1, 2]}}), several, registry)
    assert [parameter.path for parameter in found.parameters] == ["model.rpe.0.k", "model.rpe.2.k"]


@pytest.mark.parametrize(
    ("model", "paths"),
    [
        ({}, ["model.rpe.0.max_anchors", "model.rpe.0.k", "model.features.num_features"]),
        ({"rpe": ["sat"]}, ["model.rpe.0.k", "model.features.num_features"]),
        ({"rpe": ["spectral", "sapd"]}, ["model.rpe.1.max_anchors", "model.rpe.1.k", "model.features.num_features"]),
        ({"attention": "exact"}, ["model.rpe.0.max_anchors", "model.rpe.0.k"]),
        ({"features": "elu+1"}, ["model.rpe.0.max_anchors", "model.rpe.0.k"]),
    ],
)
def test_the_default_space_follows_the_config(
    model: dict[str, Any], paths: list[str], tree: dict[str, Any], registry: Registry
) -> None:
    found = default_space({**tree, "model": {**tree["model"], **model}}, registry)
    assert [parameter.path for parameter in found.parameters] == paths


def test_a_config_without_any_of_them(tree: dict[str, Any], registry: Registry) -> None:
    plain = {**tree, "model": {**tree["model"], "rpe": [], "features": "elu+1"}}
    with pytest.raises(ConfigError, match="give a space of your own with --space"):
        default_space(plain, registry)


def test_values_come_into_the_tree_and_leave_it_alone(tree: dict[str, Any], registry: Registry) -> None:
    space = check_space(
        parse_space(
            {
                "model.rpe": {"choice": [[], [{"name": "sapd", "k": 1}]]},
                "model.local.conv": {"choice": ["GCN", "GIN"]},
                "train.lr": {"log": [1e-4, 1e-2]},
            }
        ),
        tree,
        registry,
    )
    label = space.parameters[0].domain
    assert isinstance(label, Choice)
    sample = {"model.rpe": label.labels[1], "model.local.conv": "GIN", "train.lr": 0.00123456}
    applied = space.apply(tree, sample)
    assert applied["model"]["rpe"] == [{"name": "sapd", "k": 1}]
    assert applied["model"]["local"] == {"conv": "GIN"}
    assert applied["train"]["lr"] == 0.001235
    assert tree["model"]["rpe"] == ["sapd"]
    assert "local" not in tree["model"]


@pytest.mark.parametrize("path", sorted(SPACES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_spaces_beside_the_script(path: pathlib.Path, tree: dict[str, Any], registry: Registry) -> None:
    assert len(read_space(path, tree, registry).parameters) >= 3


def test_the_space_of_the_documentation(tree: dict[str, Any], registry: Registry) -> None:
    text = (SPACES.parents[1] / "docs" / "tuning.md").read_text(encoding="utf-8")
    shown = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])
    assert len(check_space(parse_space(shown), tree, registry).parameters) == 5


def test_the_largest_value() -> None:
    space = parse_space({"train.epochs": {"int": [2, 40]}})
    assert space.largest("train.epochs", 7) == 40
    assert space.largest("train.lr", 7) == 7

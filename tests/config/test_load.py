"""Loading is strict: one error holds every fault, with its path in the file and a suggestion."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

import attrs
import pytest

from kdlgt.config import Component, Config, config_from_dict, load_config
from kdlgt.errors import ConfigError
from kdlgt.registry import BrokenPlugin, Registry, load_plugins

FULL = """
[data]
dataset = "digits"
ratios = [0.8, 0.1, 0.1]

[model]
hidden = 32
attention = "exact"
features = "favor+"

[[model.rpe]]
name = "sapd"
k = 3
max_anchors = "none"

[[model.rpe]]
name = "plain"

[model.encoder]
degree = true
absolute = ["laplacian"]

[model.local]
conv = "GIN"

[train]
lr = 1
precision = "64"
"""


def message(tree: Any, registry: Registry) -> str:
    with pytest.raises(ConfigError) as caught:
        config_from_dict(tree, registry)
    return str(caught.value)


def test_a_file_becomes_typed_values(write: Any, registry: Registry) -> None:
    config = load_config(write(FULL), registry=registry)
    sapd, plain = config.model.rpe
    assert (sapd.name, sapd.options.k, sapd.options.max_anchors, sapd.options.pooling) == ("sapd", 3, None, "softmin")
    assert plain == Component(name="plain", options=registry.options("rpe", "plain", {}))
    assert config.model.features.options.num_features == 64
    assert config.model.encoder.absolute[0].options.orthogonal is True
    assert config.model.attention.mode == "exact"
    assert config.model.attention.exact == "fused"
    assert config.model.local is not None
    assert config.model.local.conv == "GIN"
    assert config.data.ratios == (0.8, 0.1, 0.1)
    assert type(config.train.lr) is float


def test_an_empty_file_is_all_defaults_with_their_options(write: Any, registry: Registry) -> None:
    config = load_config(write(""), registry=registry)
    assert config.train == Config().train
    assert config.model.attention == Config().model.attention
    assert config.model.features.options == registry.options("feature_map", "favor+", {})
    assert config.data.dataset.options == registry.options("dataset", "digits", {})


def test_without_a_registry_the_installed_plugins_are_used(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDLGT_BLOCK_PLUGINS", "*")
    installed = load_plugins()
    config = load_config(write("[model.features]\nnum_features = 7"))
    assert config.model.features.options == installed.options("feature_map", "favor+", {"num_features": 7})


@pytest.mark.parametrize(
    ("text", "value"),
    [('attention = "exact"', "exact"), ('attention = {mode = "auto"}', "auto"), ("attention = {}", "linear")],
)
def test_attention_as_a_string_or_a_table(write: Any, registry: Registry, text: str, value: str) -> None:
    assert load_config(write(f"[model]\n{text}"), registry=registry).model.attention.mode == value


@pytest.mark.parametrize(("text", "expected"), [('"GAT"', "GAT"), ("{edge_features = false}", "GCN")])
def test_local_as_a_string_or_a_table(write: Any, registry: Registry, text: str, expected: str) -> None:
    local = load_config(write(f"[model]\nlocal = {text}"), registry=registry).model.local
    assert local is not None
    assert local.conv == expected


def test_none_as_a_string(registry: Registry) -> None:
    config = config_from_dict({"model": {"local": "none"}, "data": {"split_seed": "none"}}, registry)
    assert config.model.local is None
    assert config.data.split_seed is None


def test_options_without_a_name_belong_to_the_default(registry: Registry) -> None:
    features = config_from_dict({"model": {"features": {"num_features": 8}}}, registry).model.features
    assert (features.name, features.options.num_features) == ("favor+", 8)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"model": {"hiden": 3}}, r"model\.hiden: unknown key; allowed: hidden, .*\. Did you mean 'hidden'\?"),
        ({"modle": {}}, r"modle: unknown key; allowed: data, model, train\. Did you mean 'model'\?"),
        ({"seed": 3}, r"seed: unknown key; allowed: data, model, train\. There is train\.seed\."),
        ({"train": {"batch_size": 3}}, r"train\.batch_size: unknown key; .* There is data\.batch_size\."),
        ({"model": {"norm": "laier"}}, r"model\.norm = 'laier'; allowed: 'layer', .*Did you mean 'layer'\?"),
        ({"model": {"attention": "exakt"}}, r"model\.attention\.mode = 'exakt'; .*Did you mean 'exact'\?"),
        ({"model": {"layers": 3.7}}, r"model\.layers = 3\.7; allowed: an integer\. Did you mean 3 or 4\?"),
        ({"model": {"layers": True}}, r"model\.layers = true; allowed: an integer"),
        ({"model": {"layers": "2"}}, r"model\.layers = '2'; allowed: an integer\. Did you mean 2\?"),
        ({"train": {"lr": "1e-3"}}, r"train\.lr = '1e-3'; allowed: a number\. Did you mean 0\.001\?"),
        ({"train": {"precision": 32}}, r"train\.precision = 32; allowed: '32', .* Did you mean '32'\?"),
        ({"train": {"compile": "yes"}}, r"train\.compile = 'yes'; allowed: true or false"),
        ({"train": {"betas": [0.9]}}, r"train\.betas = \[0\.9\]; allowed: a list of 2"),
        ({"model": []}, r"model = \[\]; allowed: a table"),
        ({"model": {"local": 3}}, r"model\.local = 3; allowed: a table or 'none'"),
        ({"model": {"rpe": "sapd"}}, r"model\.rpe = 'sapd'; allowed: a list, each entry a table"),
        ({"model": {"rpe": [3]}}, r"model\.rpe\.0 = 3; allowed: a table"),
        (
            {"model": {"rpe": [{"k": 3}]}},
            r"model\.rpe\.0\.name: missing; give the name of the RPE, installed: plain, sapd",
        ),
        ({"model": {"rpe": [{"name": 3}]}}, r"model\.rpe\.0\.name = 3; allowed: a string"),
        ({"model": {"rpe": ["sapdd"]}}, r"model\.rpe\.0\.name: unknown RPE 'sapdd'; .* Did you mean 'sapd'\?"),
        (
            {"model": {"rpe": ["plain", {"name": "sapd", "max_anchor": 3}]}},
            r"model\.rpe\.1\.max_anchor: unknown key; allowed: k, max_anchors, .*Did you mean 'max_anchors'\?",
        ),
        ({"model": {"rpe": [{"name": "sapd", "k": 0}]}}, r"model\.rpe\.0\.k: 'k' must be >= 1: 0"),
        ({"model": {"rpe": [{"name": "sapd", "k": 2.5}]}}, r"model\.rpe\.0\.k = 2\.5; allowed: an integer"),
        (
            {"model": {"rpe": [{"name": "sapd", "hops": [1, "x"]}]}},
            r"model\.rpe\.0\.hops\.1 = 'x'; allowed: an integer",
        ),
        ({"model": {"rpe": [{"name": "plain", "k": 3}]}}, r"model\.rpe\.0\.k: unknown key; allowed: none\."),
        ({"model": {"features": "favour+"}}, r"model\.features\.name: unknown feature map .*Did you mean 'favor\+'\?"),
        (
            {"model": {"encoder": {"absolute": ["laplace"]}}},
            r"model\.encoder\.absolute\.0\.name: unknown absolute encoding",
        ),
        ({"data": {"dataset": "digit"}}, r"data\.dataset\.name: unknown data set 'digit'; .*Did you mean 'digits'\?"),
        ({"data": {"dataset": "file"}}, r"data\.dataset\.file: missing; give a path as a string"),
        ([], r"\[\]; allowed: a table"),
        ("model", r"'model'; allowed: a table"),
    ],
)
def test_each_fault_has_its_path_and_a_suggestion(tree: Any, expected: str, registry: Registry) -> None:
    text = message(tree, registry)
    assert re.fullmatch(f"config: {expected}.*", text), text


def test_one_error_holds_every_fault(write: Any, registry: Registry) -> None:
    path = write(
        '[data]\nbatch = 3\n[model]\nlayers = 3.7\nhidden = 63\nrpe = [{name = "sapd", k = 0}]\n[train]\nlr = -1'
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["train.epochs=0"], registry)
    first, *rest = str(caught.value).splitlines()
    assert first == f"{path} with train.epochs=0: 6 errors"
    assert [line.split()[0].rstrip(":") for line in rest] == [
        "data.batch",
        "model.layers",
        "model.rpe.0.k",
        "model.heads",
        "train.epochs",
        "train.lr",
    ]


class TestFiles:
    def test_missing_with_a_suggestion(self, write: Any, registry: Registry) -> None:
        path = write("")
        with pytest.raises(ConfigError, match=r"rum\.toml: there is no such file; .* Did you mean 'run\.toml'\?"):
            load_config(path.with_name("rum.toml"), registry=registry)

    def test_missing_in_a_missing_folder(self, tmp_path: pathlib.Path, registry: Registry) -> None:
        with pytest.raises(ConfigError, match="there is no such file"):
            load_config(tmp_path / "no" / "run.toml", registry=registry)

    def test_a_directory(self, tmp_path: pathlib.Path, registry: Registry) -> None:
        with pytest.raises(ConfigError, match="is a directory; give the path of a TOML config in it"):
            load_config(os.fspath(tmp_path), registry=registry)

    @pytest.mark.parametrize("text", ["model: {hidden: 3}", "[model", "hidden = sixty", "a = 1\na = 2"])
    def test_not_toml(self, write: Any, registry: Registry, text: str) -> None:
        with pytest.raises(ConfigError, match=r"run\.toml: is not TOML: .*; strings need quotes, tables are"):
            load_config(write(text), registry=registry)

    def test_not_text(self, tmp_path: pathlib.Path, registry: Registry) -> None:
        path = tmp_path / "run.toml"
        path.write_bytes(b"a = '\xff\xfe'")
        with pytest.raises(ConfigError, match="is not TOML: not UTF-8 text"):
            load_config(path, registry=registry)

    def test_a_file_below_a_file(self, write: Any, registry: Registry) -> None:
        with pytest.raises(ConfigError, match="cannot be read"):
            load_config(write("") / "run.toml", registry=registry)


def test_an_empty_registry_names_every_missing_component() -> None:
    text = message({"model": {"rpe": ["sapd"]}}, Registry())
    assert "model.rpe.0.name: unknown RPE 'sapd'; installed: none." in text
    assert "data.dataset.name: unknown data set 'digits'; installed: none." in text
    assert "model.features.name: unknown feature map 'favor+'; installed: none." in text


def test_a_name_that_two_plugins_provide_names_both(registry: Registry) -> None:
    (plugin,) = registry.plugins
    clash = attrs.evolve(registry, plugins=(plugin, attrs.evolve(plugin, name="again", owner="else 2.0")))
    text = message({"model": {"rpe": ["sapd"]}}, clash)
    assert "model.rpe.0.name: RPE 'sapd' is provided by this session (entry point 'Plugin') and by else 2.0" in text


def test_a_broken_plugin_is_named_where_a_name_is_missing(registry: Registry) -> None:
    broken = attrs.evolve(registry, broken=(BrokenPlugin("walk", "else 2.0", "importing 'walk' raised OSError"),))
    text = message({"model": {"rpe": ["walk"]}}, broken)
    assert "It may belong to a broken plugin: 'walk' of else 2.0: importing 'walk' raised OSError." in text

"""The health of a model: what its layers' attention is given, in every mode, without a trace left behind."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
from torch_geometric.data import Batch, Data

from kdlgt.attention import linear_attention
from kdlgt.build import build_model, prepare
from kdlgt.config import config_from_dict
from kdlgt.config.schema import ModelConfig
from kdlgt.errors import ApproximationWarning, ArgumentError
from kdlgt.graph.generate import random_regular
from kdlgt.model import GraphTransformer, layer_inputs, model_health
from kdlgt.registry import load_plugins


def graph(nodes: int, seed: int) -> Data:
    data = random_regular(nodes, 4, seed)
    data.x = torch.randn(nodes, 5, generator=torch.Generator().manual_seed(seed))
    return data


def make(**model: Any) -> tuple[GraphTransformer, Batch]:
    registry = load_plugins()
    tree = {"hidden": 8, "heads": 2, "layers": 2, "features": {"name": "favor+", "num_features": 16}, **model}
    config: ModelConfig = config_from_dict({"model": tree}, registry).model
    transform = prepare(config, registry)
    batch = Batch.from_data_list([transform(graph(nodes, seed)) for seed, nodes in enumerate((6, 30))])
    return build_model(config, in_features=5, out_features=3, registry=registry), batch


def test_layer_inputs_reproduce_the_attention_of_each_layer() -> None:
    model, batch = make(dropout=0.5)
    outputs: list[torch.Tensor] = []
    for block in model.attention_blocks:
        block.register_forward_hook(lambda module, arguments, output: outputs.append(output))
    found = layer_inputs(model, batch)
    for block, inputs, output in zip(model.attention_blocks, found, outputs, strict=True):
        assert inputs is not None
        attended = linear_attention(
            inputs.q,
            inputs.k,
            inputs.v,
            inputs.bias,
            ptr=inputs.ptr,
            features=inputs.features,
            scale=inputs.scale,
        )
        torch.testing.assert_close(block.out(attended.flatten(1)), output)


@pytest.mark.parametrize("mode", ["linear", "exact"])
def test_a_report_per_layer_and_head(mode: str) -> None:
    model, batch = make(attention=mode)
    health = model_health(model, batch, rows=10)
    tree = health.to_dict()
    assert [(head["layer"], head["head"]) for head in tree["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(0 < head["total_variation"] < 1 and 1 <= head["effective_size"] <= 16 for head in tree["heads"])
    assert not health.collapsed


def test_graphs_that_attend_exactly_are_left_out() -> None:
    model, batch = make(attention={"mode": "auto", "auto_threshold": 10})
    health = model_health(model, batch, rows=100)
    assert [layer is not None and layer.rows.numel() for layer in health.layers] == [30, 30]
    model.auto_threshold = 100
    assert model_health(model, batch).layers == (None, None)


@pytest.mark.plugins
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("mode", ["linear", "exact"])
def test_encodings_are_part_of_it(mode: str, share: bool) -> None:
    model, batch = make(attention=mode, rpe=[{"name": "sat"}, {"name": "sapd", "k": 1}], share_rpe=share)
    found = layer_inputs(model, batch)
    assert all(inputs is not None and inputs.bias is not None for inputs in found)
    assert len(model_health(model, batch).to_dict()["heads"]) == 4


def test_the_model_stays_as_it_was() -> None:
    model, batch = make(attention={"balance": True}, dropout=0.5)
    model.train()
    model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model_health(model, batch)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any(block._forward_pre_hooks for block in model.attention_blocks)


def test_one_warning_per_collapsed_layer() -> None:
    model, batch = make()
    with torch.no_grad():
        for block in model.attention_blocks:
            block.projection.weight.mul_(100)
    with pytest.warns(ApproximationWarning) as caught:
        health = model_health(model, batch)
    assert health.collapsed
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert all(f"layer {number} " in message for number, message in enumerate(messages))
    assert model_health(model, batch, warn=False).collapsed


def test_a_model_without_attention_is_refused() -> None:
    model, batch = make(attend=False, local={"conv": "GCN"})
    with pytest.raises(ArgumentError, match="no attention layer"):
        model_health(model, batch)


def test_the_seed_chooses_the_rows() -> None:
    model, batch = make()
    rows = [model_health(model, batch, rows=5, seed=seed).layers[0] for seed in (0, 0, 1)]
    first, second, third = (attrs.asdict(report)["rows"].tolist() for report in rows if report is not None)
    assert first == second != third

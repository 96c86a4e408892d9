"""The encoding passes the conformance kit, a config can name it, and a model learns its parameters."""

from __future__ import annotations

import kdlgt_peers
import pytest
import torch
from torch_geometric.data import Data

from kdlgt.build import build_model, prepare
from kdlgt.config import config_from_dict
from kdlgt.registry import load_plugins
from kdlgt.testing import Check, rpe_checks

(SPEC,) = kdlgt_peers.kdlgt_rpes()

# Change this: options without a default, and others that you want to see in a model.
ENTRY = {"name": "peers"}

# Change this: fields that the encoding reads beside the edges, such as edge_attr.
GRAPH = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), x=torch.ones(3, 4))


@pytest.mark.parametrize("check", rpe_checks(SPEC), ids=str)
def test_conformance(check: Check) -> None:
    check()


def test_a_config_names_it_and_every_parameter_learns() -> None:
    registry = load_plugins(block="peers").with_plugin(kdlgt_peers)
    tree = {"model": {"hidden": 8, "heads": 2, "rpe": [ENTRY]}}
    config = config_from_dict(tree, registry).model
    graph = prepare(config, registry)(GRAPH.clone())
    model = build_model(config, in_features=4, out_features=2, registry=registry)
    output = model(graph)
    output.sum().backward()
    assert output.shape == (3, 2)
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []

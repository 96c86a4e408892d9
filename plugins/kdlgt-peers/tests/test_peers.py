"""The encoding passes the conformance kit, and a config can name it."""

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


@pytest.mark.parametrize("check", rpe_checks(SPEC), ids=str)
def test_conformance(check: Check) -> None:
    check()


def test_a_config_names_it() -> None:
    registry = load_plugins(block="peers").with_plugin(kdlgt_peers)
    tree = {"model": {"hidden": 8, "heads": 2, "rpe": [{"name": "peers", "strength": 0.3}]}}
    config = config_from_dict(tree, registry).model
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = prepare(config, registry)(Data(edge_index=edges, x=torch.ones(3, 4)))
    model = build_model(config, in_features=4, out_features=2, registry=registry)
    output = model(graph)
    output.sum().backward()
    strengths = [parameter for name, parameter in model.named_parameters() if name.endswith("theta")]
    assert output.shape == (3, 2)
    assert len(strengths) == config.layers
    assert all(parameter.grad is not None for parameter in strengths)

"""A whole model under ``torch.compile``, and with its layers recomputed in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.build import build_model, prepare
from kdlgt.config import config_from_dict
from kdlgt.errors import ArgumentError
from kdlgt.graph.generate import random_regular
from kdlgt.model import GraphTransformer
from kdlgt.registry import load_plugins


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def graph(nodes: int, seed: int) -> Data:
    data = random_regular(nodes, 4, seed)
    data.x = torch.randn(nodes, 5, generator=torch.Generator().manual_seed(seed))
    return data


def make(*sizes: int, **model: Any) -> tuple[GraphTransformer, Batch]:
    registry = load_plugins()
    tree = {"hidden": 8, "heads": 2, "layers": 2, "features": {"name": "favor+", "num_features": 16}, **model}
    config = config_from_dict({"model": tree}, registry).model
    transform = prepare(config, registry)
    batch = Batch.from_data_list([transform(graph(nodes, seed)) for seed, nodes in enumerate(sizes)])
    return build_model(config, in_features=5, out_features=3, registry=registry), batch


def test_a_model_is_one_graph_for_batches_of_all_sizes() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        graphs.append(module)
        return module.forward

    model, first = make(6, 30, dropout=0.0)
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    for batch in (first, make(11, 9, 20)[1]):
        torch.testing.assert_close(compiled(batch), model(batch))
    assert len(graphs) == 1


@pytest.mark.slow
@pytest.mark.plugins
# Where the graph breaks, the compiler itself warns of builtins and of gradients that it looks for.
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin", "ignore:The .grad attribute")
@pytest.mark.parametrize("rpe", ["sat", "sapd"])
def test_encodings_under_the_compiler(rpe: str) -> None:
    """Encodings may break the graph where they read their structure; the outcome is the same."""
    model, batch = make(6, 30, dropout=0.0, rpe=[{"name": rpe}])
    compiled = torch.compile(model, backend="eager", dynamic=True)
    torch.testing.assert_close(compiled(batch), model(batch), rtol=1e-5, atol=1e-5)


def gradients(model: GraphTransformer, batch: Batch) -> list[Tensor]:
    torch.manual_seed(3)
    loss = model.train()(batch).square().sum()
    return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("rpe", [[], pytest.param([{"name": "sat"}], marks=pytest.mark.plugins)])
@pytest.mark.parametrize("balance", [False, True])
def test_recomputed_layers_have_the_same_gradients(balance: bool, rpe: list[dict[str, str]]) -> None:
    """Dropout included; moments gathered twice have the same mean."""
    options: dict[str, Any] = {"dropout": 0.5, "local": "GCN", "attention": {"balance": balance}, "rpe": rpe}
    kept, batch = make(6, 30, **options)
    recomputed, _ = make(6, 30, **options, recompute=True)
    with torch.random.fork_rng():
        for one, other in zip(gradients(kept, batch), gradients(recomputed, batch), strict=True):
            assert torch.equal(one, other)
    for model in (kept, recomputed):
        for module in model.modules():
            getattr(module, "after_optimizer_step", lambda: None)()
    for one, other in zip(kept.state_dict().values(), recomputed.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other)


def test_recomputing_batch_norm_is_refused() -> None:
    with pytest.raises(ArgumentError, match="running statistics"):
        make(6, norm="batch", recompute=True)

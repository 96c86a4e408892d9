"""The whole model: isolation, equivariance, degenerate graphs, its quadratic twin, and what it saves."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import to_undirected

from kdlgt.errors import ArgumentError, DtypeError, GraphError, NotPreparedError
from kdlgt.graph import Prepare
from kdlgt.model import Degree, GraphTransformer, TransformerLayer

MakeGraph = Callable[..., Data]
MakeModel = Callable[..., GraphTransformer]

ENCODINGS = ["none", "states", "additive", "kernel", "ineffective", "sum"]
MODES: list[dict[str, Any]] = [{"mode": "linear"}, {"mode": "exact"}, {"mode": "auto", "auto_threshold": 20}]


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_graph_in_a_batch_equals_the_graph_alone(
    encoding: str, options: dict[str, Any], make_graph: MakeGraph, make_model: MakeModel
) -> None:
    small, large = make_graph(5, 1), make_graph(300, 2)
    model = make_model(encoding, conv="GIN", **options)
    alone, batched = model(small), model(Batch.from_data_list([large, small]))[300:]
    torch.testing.assert_close(batched, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("readout", ["mean", "sum", "max", "attention"])
@pytest.mark.parametrize("conv", [None, "GCN", "GATv2", "PNA"])
def test_graph_outputs_are_isolated(
    readout: str, conv: str | None, make_graph: MakeGraph, make_model: MakeModel
) -> None:
    graphs = [make_graph(nodes, seed) for seed, nodes in enumerate([5, 300, 1, 12])]
    model = make_model("sum", level="graph", readout=readout, conv=conv)
    together = model(Batch.from_data_list(graphs))
    assert together.shape == (4, 3)
    torch.testing.assert_close(together, torch.cat([model(graph) for graph in graphs]), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("encoding", ["none", "sum"])
def test_other_graphs_do_not_move_output_or_gradient(
    encoding: str, training: bool, make_graph: MakeGraph, make_model: MakeModel
) -> None:
    model = make_model(encoding, conv="GIN").train(training)
    graph, results = make_graph(7, 1), []
    for seed in (2, 3):
        model.zero_grad()
        output = model(Batch.from_data_list([graph, make_graph(40, seed)]))[:7]
        output.square().sum().backward()
        results.append((output.detach(), gradients(model)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_batch_norm_is_opt_in_and_couples_graphs(make_graph: MakeGraph, make_model: MakeModel) -> None:
    model = make_model(norm="batch").train()
    graph = make_graph(7, 1)
    first, second = (model(Batch.from_data_list([graph, make_graph(40, seed)]))[:7] for seed in (2, 3))
    assert (first - second).abs().max() > 1e-3
    assert not any(isinstance(module, nn.BatchNorm1d) for module in make_model().modules())


def test_unsorted_batch_is_refused(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(5)
    graph.batch = torch.tensor([0, 1, 0, 1, 0])
    with pytest.raises(GraphError, match="not sorted"):
        make_model()(graph)


def test_batch_vector_without_ptr(make_graph: MakeGraph, make_model: MakeModel) -> None:
    batch = Batch.from_data_list([make_graph(5), make_graph(4, 1)])
    plain = Data(x=batch.x, edge_index=batch.edge_index, batch=batch.batch)
    torch.testing.assert_close(make_model()(plain), make_model()(batch))


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_permutation_equivariance(
    encoding: str, options: dict[str, Any], make_graph: MakeGraph, make_model: MakeModel
) -> None:
    graph = make_graph(25)
    order = torch.randperm(25, generator=torch.Generator().manual_seed(4))
    position = torch.argsort(order)
    moved = Prepare([Degree()])(Data(x=graph.x[order], edge_index=position[graph.edge_index]))
    model = make_model(encoding, conv="GCN", **options)
    torch.testing.assert_close(model(moved), model(graph)[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("conv", [None, "GIN", "GCN", "GAT", "SAGE", "PNA"])
@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (6, 0), (2, 1)])
def test_degenerate_graphs_are_finite(
    nodes: int, edges: int, conv: str | None, make_graph: MakeGraph, make_model: MakeModel
) -> None:
    for options in MODES:
        model = make_model("sum", conv=conv, level="graph", readout="attention", **options).train()
        output = model(make_graph(nodes, edges=edges))
        output.sum().backward()
        assert output.shape == (1, 3)
        assert bool(output.isfinite().all())
        assert all(bool(value.isfinite().all()) for value in gradients(model).values())


def test_disconnected_graph_is_finite(make_graph: MakeGraph, make_model: MakeModel) -> None:
    edges = to_undirected(torch.tensor([[0, 1, 4], [1, 2, 5]]))
    graph = Prepare([Degree()])(Data(x=make_graph(6).x, edge_index=edges))
    model = make_model("sum", conv="GCN")
    model(graph).sum().backward()
    assert all(bool(value.isfinite().all()) for value in gradients(model).values())


@pytest.mark.parametrize("encoding", ["none", "states", "additive", "kernel", "sum"])
def test_linear_converges_to_exact_on_the_same_parameters(
    encoding: str, make_graph: MakeGraph, make_model: MakeModel
) -> None:
    graph = make_graph(30)
    exact = make_model(encoding, mode="exact")(graph)

    def error(features: int) -> float:
        model, errors = make_model(encoding, num_features=features), []
        for seed in range(5):
            model.redraw(seed)
            errors.append(float((model(graph) - exact).detach().square().mean()))
        return math.sqrt(sum(errors) / 5)

    few, many = error(16), error(4096)
    assert many < few / 4, f"seeds 0..4: {few} at r=16, {many} at r=4096; the rate is r^-1/2, a factor of 16"


def test_exact_mode_takes_the_exact_form(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(30)
    exact = make_model("ineffective", mode="exact")
    plain = make_model("none", mode="exact")
    missing, _ = plain.load_state_dict(exact.state_dict(), strict=False)
    assert not missing
    assert (exact(graph) - plain(graph)).abs().max() > 1e-3


@pytest.mark.parametrize("saved", ["linear", "exact", "auto"])
def test_one_state_dict_for_all_modes(saved: str, make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph, source = make_graph(30), make_model("sum", mode=saved, auto_threshold=8)
    source.redraw(3)
    for mode in ("linear", "exact", "auto"):
        target = make_model("sum", mode=mode, auto_threshold=8)
        target.load_state_dict(source.state_dict())
        source.mode = mode
        torch.testing.assert_close(target(graph), source(graph), rtol=0, atol=0)


def test_deepcopy_and_two_evaluations_agree(make_graph: MakeGraph, make_model: MakeModel) -> None:
    model, graph = make_model("sum", conv="GIN"), make_graph(30)
    first = model(graph)
    torch.testing.assert_close(model(graph), first, rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(model)(graph), first, rtol=0, atol=0)


@pytest.mark.parametrize("encoding", ["none", "sum", "ineffective"])
def test_auto_takes_each_graph_by_its_own_size(encoding: str, make_graph: MakeGraph, make_model: MakeModel) -> None:
    sizes = [30, 5, 20, 21, 1]
    graphs = [make_graph(nodes, seed) for seed, nodes in enumerate(sizes)]
    by_mode = {mode: make_model(encoding, mode=mode, auto_threshold=20) for mode in ("linear", "exact", "auto")}
    expected = [by_mode["exact" if n <= 20 else "linear"](graph) for n, graph in zip(sizes, graphs, strict=True)]
    result = by_mode["auto"](Batch.from_data_list(graphs))
    torch.testing.assert_close(result, torch.cat(expected), rtol=1e-5, atol=1e-5)


def test_auto_refuses_a_mixed_batch_of_unknown_make(make_graph: MakeGraph, make_model: MakeModel) -> None:
    batch = Batch.from_data_list([make_graph(5), make_graph(30, 1)])
    plain = Data(x=batch.x, edge_index=batch.edge_index, batch=batch.batch)
    with pytest.raises(GraphError, match=r"Batch\.from_data_list"):
        make_model(mode="auto", auto_threshold=20)(plain)


def test_unknown_mode(make_graph: MakeGraph, make_model: MakeModel) -> None:
    with pytest.raises(ArgumentError, match=r"'quadratic'.*'linear', 'exact', 'auto'"):
        make_model(mode="quadratic")(make_graph(5))


@pytest.mark.parametrize("encoding", ["none", "sum"])
def test_checkpointing_a_layer_keeps_the_gradient(
    encoding: str, make_graph: MakeGraph, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(encoding, conv="GIN", share=True).train()
    batch = Batch.from_data_list([make_graph(7, 1), make_graph(30, 2)])
    model(batch).square().sum().backward()
    plain = gradients(model)
    model.zero_grad()
    forward = TransformerLayer.forward
    monkeypatch.setattr(
        TransformerLayer, "forward", lambda self, *inputs: checkpoint(forward, self, *inputs, use_reentrant=False)
    )
    model(batch).square().sum().backward()
    torch.testing.assert_close(gradients(model), plain, rtol=1e-6, atol=1e-7)


def test_float64_features_on_a_float32_model(make_graph: MakeGraph, make_model: MakeModel) -> None:
    with pytest.raises(DtypeError, match=r"torch.float64 and the model has torch.float32.*model.double\(\)"):
        make_model()(make_graph(5, dtype=torch.float64))


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_a_float64_model_is_float64_throughout(
    options: dict[str, Any], make_graph: MakeGraph, make_model: MakeModel
) -> None:
    model = make_model("sum", conv="GATv2", edge_features=3, degree=True, **options)
    single = model(Batch.from_data_list([make_graph(7), make_graph(30, 1)]))
    double = model.double()(
        Batch.from_data_list([make_graph(7, dtype=torch.float64), make_graph(30, 1, None, torch.float64)])
    )
    assert double.dtype == torch.float64
    assert double.shape == single.shape


def test_shared_encoding_is_evaluated_once(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(12)
    shared, own = make_model("additive", layers=3, share=True), make_model("additive", layers=3)
    shared(graph)
    assert shared.shared_rpe.calls == 1  # type: ignore[union-attr]
    own(graph)
    assert [block.rpe.calls for block in own.attention_blocks] == [1, 1, 1]  # type: ignore[union-attr]
    assert len(shared.state_dict()) == len(own.state_dict()) - 2


def test_shared_encoding_of_states_follows_the_layers(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(12)
    shared, own = make_model("states", share=True), make_model("states")
    state = {name: value for name, value in shared.state_dict().items() if not name.startswith("shared_rpe.")}
    for name, value in shared.shared_rpe.state_dict().items():  # type: ignore[union-attr]
        for number in range(2):
            state[f"layers.{number}.attention.rpe.{name}"] = value
    own.load_state_dict(state)
    torch.testing.assert_close(own(graph), shared(graph))


def test_unprepared_graph_says_what_to_do(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(5)
    with pytest.raises(NotPreparedError, match=r"kdlgt.prepare\(config.model\)"):
        make_model("additive")(Data(x=graph.x, edge_index=graph.edge_index))


def test_structures_are_listed(make_model: MakeModel) -> None:
    assert set(make_model("sum", degree=True).structures) == {Degree()}
    assert make_model("none").structures == ()


def test_each_layer_and_head_draws_its_own_projection(make_model: MakeModel) -> None:
    model = make_model(layers=3)
    drawn = torch.stack([block.features.projection for block in model.attention_blocks]).flatten(0, 1)  # type: ignore[misc]
    gaps = torch.cdist(drawn.flatten(1), drawn.flatten(1)) + torch.eye(len(drawn))
    assert gaps.min() > 0.1
    with pytest.raises(ArgumentError, match=r"seed = -1"):
        model.redraw(-1)


def test_redrawing_is_a_function_of_the_seed(make_graph: MakeGraph, make_model: MakeModel) -> None:
    model, graph = make_model(), make_graph(12)
    state = torch.get_rng_state()
    first = model(graph)
    model.redraw(1)
    changed = model(graph)
    model.redraw(0)
    assert torch.equal(model(graph), first)
    assert not torch.equal(changed, first)
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_only_in_training(make_graph: MakeGraph, make_model: MakeModel) -> None:
    model, graph = make_model(dropout=0.5), make_graph(12)
    assert torch.equal(model(graph), model(graph))
    model.train()
    assert not torch.equal(model(graph), model(graph))


def test_loader_batches(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graphs = [make_graph(nodes, seed) for seed, nodes in enumerate([4, 9, 1, 17, 6])]
    model = make_model("sum", level="graph")
    outputs = [model(batch) for batch in DataLoader(graphs, batch_size=2)]
    torch.testing.assert_close(torch.cat(outputs), model(Batch.from_data_list(graphs)), rtol=1e-5, atol=1e-5)


def test_every_parameter_learns(make_graph: MakeGraph, make_model: MakeModel) -> None:
    model = make_model("sum", conv="GIN", level="graph", readout="attention", normalise=True, degree=True).train()
    model(Batch.from_data_list([make_graph(9), make_graph(12, 1)])).square().sum().backward()
    silent = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()]
    # A row term and what only shifts all logits of a row cancel in the softmax: the key bias and one gate bias.
    assert all("gate_nn.bias" in name for name in silent), silent


def test_a_model_without_layers_is_refused(make_model: MakeModel) -> None:
    with pytest.raises(ArgumentError, match="layers = 0"):
        make_model(layers=0)

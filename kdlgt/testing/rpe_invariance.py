"""Node numbers do not matter, and the graphs of a batch do not see each other."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.rpe import RPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import assert_same
from kdlgt.testing.graphs import from_edges, random_order, relabelled, with_attributes
from kdlgt.testing.rpe_case import CHANNELS, Form, RPECase


def equivariance(case: RPECase) -> None:
    """On prepared data, the value commutes with relabelling the nodes, exactly."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        order = random_order(int(graph.num_nodes or 0))
        moved = relabelled(data, order)
        expected = case.observed(case.value(rpe, data), data)[:, order][:, :, order]
        assert_same(case.observed(case.value(rpe, moved), moved), expected, f"{name}, relabelled after preparation")


def preparation(case: RPECase) -> None:
    """Preparation commutes with relabelling too, where the spec says exactly."""
    if case.spec.equivariance != "exact":
        raise SkipCheck("tagged 'in law': preparation breaks ties by node number or draws")
    rpe = case.rpe()
    for name, graph in case.graphs.items():
        data = case.prepared(rpe, graph)
        order = random_order(int(graph.num_nodes or 0))
        moved = case.prepared(rpe, relabelled(graph, order))
        for form, make in case.forms(rpe).items():
            expected = case.observed(make(data), data)[:, order][:, :, order]
            got = case.observed(make(moved), moved)
            assert_same(got, expected, f"{name}, relabelled before preparation, {form}", rtol=1e-6, atol=1e-7)


def isolation(case: RPECase) -> None:
    """A batch gives each graph what it gives alone, and changing one graph leaves the others as they were."""
    rpe = case.rpe()
    for form, make in case.forms(rpe).items():
        _check_batch(case, rpe, form, make)
        _check_leak(case, rpe, form, make)


def _check_batch(case: RPECase, rpe: RPE, form: str, make: Form) -> None:
    singles = {name: case.prepared(rpe, graph) for name, graph in case.graphs.items()}
    batch = Batch.from_data_list(list(singles.values()))
    whole = case.observed(make(batch), batch)
    for (name, data), start in zip(singles.items(), batch.ptr.tolist(), strict=False):
        block = _block(whole, start, int(data.num_nodes or 0))
        alone = case.observed(make(data), data)
        assert_same(block, alone, f"{name} in a batch against alone, {form}")


def _check_leak(case: RPECase, rpe: RPE, form: str, make: Form) -> None:
    """Graph A beside B, and beside another graph as large as B."""
    graph, companion = case.ordinary["grid 3x4"], case.ordinary["random of 13 nodes"]
    nodes = int(companion.num_nodes or 0)
    changed = with_attributes(from_edges(nodes, [(0, node) for node in range(2, nodes)]), CHANNELS, seed=9)
    changed.x = 10.0 * changed.x
    first, second = (_first_block(case, rpe, make, [graph, other]) for other in (companion, changed))
    assert_same(first, second, f"a graph's value moved when another graph of its batch changed, {form}", rtol=1e-10)


def _first_block(case: RPECase, rpe: RPE, make: Form, graphs: list[Data]) -> Tensor:
    batch = case.batch(rpe, graphs)
    return _block(case.observed(make(batch), batch), 0, int(graphs[0].num_nodes or 0))


def _block(whole: Tensor, start: int, size: int) -> Tensor:
    return whole[:, start : start + size, start : start + size]

"""Graphormer's edge encoding: exact on all pairs, and on edges in the linear form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_geometric.data import Batch, Data

from kdlgt.errors import GraphError
from kdlgt.graph import Prepare
from kdlgt.graph.generate import grid, path, random_regular
from kdlgt_edge import PathEdgeOptions, PathEdgeRPE, path_edge_reference

pytestmark = pytest.mark.plugins


def _typed(data: Data) -> Data:
    data.edge_attr = torch.arange(data.edge_index.size(1)) % 4
    return data


def _rpe(length: int = 3, limit: int = 100) -> PathEdgeRPE:
    rpe = PathEdgeRPE(2, PathEdgeOptions(length=length, exact_limit=limit)).double()
    with torch.no_grad():
        rpe.table.copy_(torch.linspace(-1, 2, rpe.table.numel(), dtype=torch.float64).sin().view(rpe.table.shape))
    return rpe


GRAPHS: dict[str, Callable[[], Data]] = {
    "grid": lambda: _typed(grid(3, 4)),
    "path": lambda: _typed(path(6)),
    "regular": lambda: _typed(random_regular(12, 3, 0)),
    "disconnected": lambda: Data(
        edge_index=torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]), edge_attr=torch.tensor([0, 1, 2, 3]), num_nodes=5
    ),
    "no edges": lambda: Data(
        edge_index=torch.empty(2, 0, dtype=torch.long), edge_attr=torch.empty(0, dtype=torch.long), num_nodes=3
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("length", [1, 3, 9])
def test_exact_equals_the_reference_and_edges_equal_it_in_the_linear_form(name: str, length: int) -> None:
    rpe = _rpe(length)
    batch = Prepare(rpe.structures)(GRAPHS[name]())
    reference = path_edge_reference(rpe, GRAPHS[name]())
    torch.testing.assert_close(rpe.exact(batch).to_dense(), reference)
    ends = batch.edge_index
    linear = rpe(batch).to_dense()
    torch.testing.assert_close(linear[:, ends[0], ends[1]], reference[:, ends[0], ends[1]])
    assert int((linear[0] != 0).sum()) <= ends.size(1)


def test_a_batch_gives_what_each_graph_gives_alone() -> None:
    rpe = _rpe()
    whole = rpe.exact(Batch.from_data_list([Prepare(rpe.structures)(build()) for build in GRAPHS.values()])).to_dense()
    start = 0
    for build in GRAPHS.values():
        end = start + int(build().num_nodes or 0)
        torch.testing.assert_close(whole[:, start:end, start:end], path_edge_reference(rpe, build()))
        start = end


def test_each_table_entry_on_a_path_gets_a_gradient() -> None:
    rpe = _rpe(length=2)
    rpe.exact(Prepare(rpe.structures)(GRAPHS["grid"]())).to_dense().square().sum().backward()
    assert rpe.table.grad is not None
    assert bool((rpe.table.grad != 0).all())


def test_a_graph_above_the_limit_is_linear_only() -> None:
    rpe = _rpe(limit=5)
    batch = Prepare(rpe.structures)(GRAPHS["path"]())
    assert torch.isfinite(rpe(batch).to_dense()).all()
    with pytest.raises(GraphError, match="exact_limit = 5"):
        rpe.exact(batch)


def test_a_type_out_of_range_is_named() -> None:
    rpe = PathEdgeRPE(1, PathEdgeOptions(categories=2))
    with pytest.raises(GraphError, match="edge type 3"):
        rpe(Prepare(rpe.structures)(GRAPHS["path"]()))

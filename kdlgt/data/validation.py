"""What a data set must satisfy before anything is computed from it; errors name the graph."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.data.bundle import MISSING_CLASS, RawData
from kdlgt.data.split import labelled, labels_of
from kdlgt.errors import DataError, GraphError, KdlgtError
from kdlgt.graph import Graph
from kdlgt.graph.structure import check_features


def validated(raw: RawData, *, symmetrise: bool = False) -> RawData:
    """Return the data set on copies of its graphs, with labels in their normal form.

    Args:
        raw: what a plugin returned.
        symmetrise: add missing reverse edges, with the features of their counterparts.

    Raises:
        DataError: no graphs, several graphs at node level, or not a single label.
        GraphError: a graph with broken or directed edges, features that are not finite, or labels missing or out of
            range.
    """
    if not raw.graphs or (raw.level == "node" and len(raw.graphs) != 1):
        wanted = "exactly one graph" if raw.level == "node" else "at least one graph"
        raise DataError(f"the data set has {len(raw.graphs)} graphs; level {raw.level!r} needs {wanted}")
    graphs = [_copy(graph, raw.level) for graph in raw.graphs]
    _check_edges(graphs, symmetrise)
    for number, graph in enumerate(graphs):
        with naming(number, len(graphs)):
            _check_attributes(graph)
            graph.y = _label(graph, raw)
    checked = attrs.evolve(raw, graphs=[symmetrised(graph) for graph in graphs] if symmetrise else graphs)
    if not bool(labelled(labels_of(checked)).any()):
        raise DataError("all labels are missing; training needs some")
    return checked


@contextlib.contextmanager
def naming(number: int, total: int) -> Iterator[None]:
    """Put the number of the graph before the message of a :class:`KdlgtError`, when there are several."""
    try:
        yield
    except KdlgtError as error:
        raise type(error)(f"graph {number} (of {total}, from 0): {error}" if total > 1 else str(error)) from error


def symmetrised(graph: Data) -> Data:
    """A copy with the missing reverse edges appended; an edge feature goes with both directions."""
    row, col = graph.edge_index.long()
    code, reverse = row * graph.num_nodes + col, col * graph.num_nodes + row
    missing = ~torch.isin(reverse, code)
    result = copy.copy(graph)
    result.edge_index = torch.cat([graph.edge_index, graph.edge_index[:, missing].flip(0)], dim=1)
    if graph.edge_attr is not None:
        result.edge_attr = torch.cat([graph.edge_attr, graph.edge_attr[missing]])
    return result


def _copy(graph: Data, level: str) -> Data:
    """A shallow copy with an explicit number of nodes and two-dimensional features."""
    result = copy.copy(graph)
    if "num_nodes" not in graph:
        result.num_nodes = _count_nodes(graph, level)
    for name in ("x", "edge_attr"):
        value = graph.get(name)
        if isinstance(value, Tensor) and value.dim() == 1:
            result[name] = value[:, None]
    return result


def _count_nodes(graph: Data, level: str) -> int | None:
    if level == "node" and graph.get("x") is None and isinstance(graph.get("y"), Tensor):
        return len(graph.y)
    with warnings.catch_warnings():
        # Without features and labels PyG counts from the edges, and says that isolated nodes at the end are missed.
        warnings.filterwarnings("ignore", message="Unable to accurately infer 'num_nodes'", category=UserWarning)
        nodes: int | None = graph.num_nodes
    return nodes


def _check_edges(graphs: Sequence[Data], symmetrise: bool) -> None:
    """All graphs in one pass; one by one, for the message, only when something is wrong."""
    if _edges_are_sound(graphs, symmetrise):
        return
    for number, graph in enumerate(graphs):
        with naming(number, len(graphs)):
            Graph.from_data(graph, symmetrise=symmetrise)


def _edges_are_sound(graphs: Sequence[Data], symmetrise: bool) -> bool:
    if not all(_is_edge_index(graph.edge_index) and (graph.num_nodes or 0) > 0 for graph in graphs):
        return False
    nodes = torch.tensor([graph.num_nodes for graph in graphs])
    owner = torch.repeat_interleave(torch.tensor([graph.edge_index.size(1) for graph in graphs]))
    edges = torch.cat([graph.edge_index.long() for graph in graphs], dim=1)
    if bool((edges < 0).any() | (edges >= nodes[owner]).any()):
        return False
    source, target = edges + (nodes.cumsum(0) - nodes)[owner]
    total = int(nodes.sum())
    return symmetrise or torch.equal((source * total + target).unique(), (target * total + source).unique())


def _is_edge_index(value: Tensor | None) -> bool:
    whole = isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32)
    return value is not None and whole and value.dim() == 2 and value.size(0) == 2


def _check_attributes(graph: Data) -> None:
    check_features(graph)
    for name, rows, what in (("x", graph.num_nodes, "nodes"), ("edge_attr", graph.num_edges, "edges")):
        value = graph.get(name)
        if isinstance(value, Tensor) and value.size(0) != rows:
            raise GraphError(f"{name} has {value.size(0)} rows; the graph has {rows} {what}")
    features = graph.get("edge_attr")
    if isinstance(features, Tensor) and features.is_floating_point() and not bool(torch.isfinite(features).all()):
        bad = int((~torch.isfinite(features)).flatten(1).any(1).nonzero()[0])
        raise GraphError(f"edge features edge_attr hold NaN or inf, the first at edge {bad}; clean or impute them")


def _label(graph: Data, raw: RawData) -> Tensor:
    """``y`` in the normal form of :class:`RawData`."""
    y = graph.get("y")
    if not isinstance(y, Tensor) or not y.numel():
        raise GraphError(
            "the labels y are missing; give every graph a tensor y, with -1 (classes) or NaN (other targets) where a "
            "label is not known"
        )
    rows = graph.num_nodes if raw.level == "node" else 1
    columns = 1 if raw.task == "multiclass" else raw.out_features
    if y.numel() != rows * columns:
        raise GraphError(
            f"y has shape {list(y.shape)}; a {raw.level}-level {raw.task} task needs {columns} per {raw.level}, so "
            f"{rows} x {columns} here"
        )
    if raw.task == "multiclass":
        return _classes(y.flatten(), raw.out_features)
    return _targets(y.reshape(rows, -1), raw.task)


def _classes(y: Tensor, classes: int) -> Tensor:
    numbers = torch.nan_to_num(y, nan=MISSING_CLASS).long() if y.is_floating_point() else y.long()
    if y.is_floating_point() and not torch.equal(numbers[~y.isnan()].to(y.dtype), y[~y.isnan()]):
        raise GraphError('y holds fractions; classes are integers (or choose the task "regression")')
    low, high = int(numbers.min()), int(numbers.max())
    if low < MISSING_CLASS or high >= classes:
        raise GraphError(f"y holds the class numbers {low}..{high}; allowed: 0..{classes - 1}, and -1 where missing")
    return numbers


def _targets(y: Tensor, task: str) -> Tensor:
    targets = y if y.is_floating_point() else y.float()
    if bool(targets.isinf().any()):
        raise GraphError("y holds inf; targets must be finite, or NaN where they are missing")
    known = targets[~targets.isnan()]
    if task != "regression" and not bool(((known == 0) | (known == 1)).all()):
        low, high = float(known.min()), float(known.max())
        raise GraphError(f"y holds {low:g}..{high:g}; a {task} task has 0, 1 and NaN (missing)")
    return targets

"""MUTAG, COX2_MD, PROTEINS and NCI1: graph classification from the TU collection (Morris et al. 2020)."""

from __future__ import annotations

import functools
import pathlib

import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.data.bundle import RawData, feature_columns
from kdlgt.data.options import TUOptions
from kdlgt.data.raw import parsed


def tu(folder: str, root: pathlib.Path | None, options: TUOptions) -> RawData:
    """One TU data set by its name in the collection."""
    graphs = [_chosen(graph, options.attributes) for graph in parsed(root, folder, functools.partial(_parse, folder))]
    return RawData(
        graphs=graphs,
        level="graph",
        task="multiclass",
        out_features=int(max(int(graph.y) for graph in graphs)) + 1,
        in_features=feature_columns(graph.x for graph in graphs),
        edge_features=feature_columns((graph.edge_attr for graph in graphs), "edge_attr"),
    )


def _parse(folder: str, place: pathlib.Path) -> list[Data]:
    from torch_geometric.datasets import TUDataset

    dataset = TUDataset(str(place), folder, use_node_attr=True, use_edge_attr=True)
    return [_separated(graph, dataset.num_node_attributes, dataset.num_edge_attributes) for graph in dataset]


def _separated(graph: Data, node_attributes: int, edge_attributes: int) -> Data:
    """PyG joins attributes and one-hot labels in one table; keep them apart."""
    parts = {"node": (graph.x, node_attributes), "edge": (graph.edge_attr, edge_attributes)}
    fields = {
        f"{side}_{kind}": value for side, (table, width) in parts.items() for kind, value in _columns(table, width)
    }
    return Data(edge_index=graph.edge_index, y=graph.y, num_nodes=graph.num_nodes, **fields)


def _columns(table: Tensor | None, attributes: int) -> list[tuple[str, Tensor]]:
    if table is None:
        return []
    found = [("attribute", table[:, :attributes]), ("label", table[:, attributes:])]
    return [(kind, value) for kind, value in found if value.size(1)]


def _chosen(graph: Data, attributes: bool) -> Data:
    return Data(
        x=_features(graph, "node", attributes),
        edge_index=graph.edge_index,
        edge_attr=_features(graph, "edge", attributes),
        y=graph.y,
        num_nodes=graph.num_nodes,
    )


def _features(graph: Data, side: str, attributes: bool) -> Tensor | None:
    """Labels as category numbers [n, 1]; with attributes, [attributes, one-hot labels] as floats."""
    label, attribute = graph.get(f"{side}_label"), graph.get(f"{side}_attribute")
    if attributes and attribute is not None:
        return attribute if label is None else torch.cat([attribute, label], dim=1)
    return None if label is None else label.argmax(1, keepdim=True)

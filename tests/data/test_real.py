"""The data sets on disk, against the counts in their description."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch

Load = Any


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "split"),
    [
        ("cora", 2708, 5278, 1433, 7, (140, 500, 1000)),
        pytest.param("citeseer", 3327, 4552, 3703, 6, (120, 500, 1000), marks=pytest.mark.slow),
        pytest.param("pubmed", 19717, 44324, 500, 3, (60, 500, 1000), marks=pytest.mark.slow),
        ("lastfm-asia", 7624, 27806, None, 18, (5337, 1143, 1144)),
    ],
)
def test_node_level(
    load: Load, data_root: pathlib.Path, name: str, nodes: int, edges: int, features: int | None, classes: int,
    split: tuple[int, int, int],
) -> None:  # fmt: skip
    bundle = load(name, root=data_root)
    assert (bundle.graph.num_nodes, bundle.graph.num_edges) == (nodes, 2 * edges)
    assert (bundle.in_features, bundle.out_features) == (features, classes)
    assert tuple(len(part) for part in bundle.split.parts.values()) == split


@pytest.mark.slow
def test_pubmed_features(load: Load, data_root: pathlib.Path) -> None:
    assert int((load("pubmed", root=data_root).graph.x != 0).sum()) == 988_031


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "node_labels", "edge_labels", "classes"),
    [
        ("mutag", 188, 17.93, 19.79, 7, 4, (63, 125)),
        pytest.param("cox2_md", 303, 26.28, 335.12, 7, 5, (155, 148), marks=pytest.mark.slow),
        pytest.param("proteins", 1113, 39.06, 72.82, 3, None, (663, 450), marks=pytest.mark.slow),
        pytest.param("nci1", 4110, 29.87, 32.30, 37, None, (2053, 2057), marks=pytest.mark.slow),
    ],
)
def test_graph_classification(
    load: Load, data_root: pathlib.Path, name: str, graphs: int, nodes: float, edges: float, node_labels: int,
    edge_labels: int | None, classes: tuple[int, int],
) -> None:  # fmt: skip
    bundle = load(name, root=data_root)
    assert len(bundle.graphs) == graphs
    assert sum(graph.num_nodes for graph in bundle.graphs) / graphs == pytest.approx(nodes, abs=0.005)
    assert sum(graph.num_edges for graph in bundle.graphs) / graphs / 2 == pytest.approx(edges, abs=0.005)
    assert bundle.in_features == (node_labels,)
    assert bundle.edge_features == (None if edge_labels is None else (edge_labels,))
    assert tuple(torch.bincount(torch.cat([graph.y for graph in bundle.graphs])).tolist()) == classes


@pytest.mark.slow
def test_attributes(load: Load, data_root: pathlib.Path) -> None:
    assert load("proteins", root=data_root, options={"attributes": True}).in_features == 1 + 3
    assert load("cox2_md", root=data_root, options={"attributes": True}).edge_features == 1 + 5


@pytest.mark.slow
def test_zinc(load: Load, data_root: pathlib.Path) -> None:
    bundle = load("zinc", root=data_root)
    assert [len(part) for part in (bundle.train, bundle.val, bundle.test)] == [10_000, 1000, 1000]
    assert sum(graph.num_nodes for graph in bundle.graphs) / 12_000 == pytest.approx(23.16, abs=0.005)
    assert sum(graph.num_edges for graph in bundle.graphs) / 12_000 == pytest.approx(49.83, abs=0.005)
    assert (bundle.train[0].num_nodes, bundle.train[0].num_edges) == (29, 64)
    assert torch.cat([graph.x for graph in bundle.graphs]).unique().tolist() == list(range(21))
    assert torch.cat([graph.edge_attr for graph in bundle.graphs]).unique().tolist() == [1, 2, 3]
    targets = bundle.train_labels()
    assert float(targets.mean()) == pytest.approx(0.0152, abs=1e-4)
    assert float(targets.std()) == pytest.approx(2.010, abs=1e-3)


@pytest.mark.slow
def test_molhiv(load: Load, data_root: pathlib.Path) -> None:
    bundle = load("ogbg-molhiv", root=data_root)
    assert len(bundle.graphs) == 41_127
    assert sum(graph.num_nodes for graph in bundle.graphs) == 1_049_163
    assert sum(graph.num_edges for graph in bundle.graphs) == 2 * 1_129_688
    active = [int(torch.cat([graph.y for graph in part]).sum()) for part in (bundle.train, bundle.val, bundle.test)]
    assert active == [1232, 81, 130]
    assert [len(part) for part in (bundle.train, bundle.val, bundle.test)] == [32_901, 4113, 4113]
    highest = torch.cat([graph.x for graph in bundle.graphs]).amax(0)
    assert (highest < torch.tensor(bundle.in_features)).all()

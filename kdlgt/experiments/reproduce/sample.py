"""A part of a data set as a data set of its own, for the small budget."""

from __future__ import annotations

import pathlib
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from kdlgt.data.bundle import RawData, Split
from kdlgt.graph import Graph
from kdlgt.graph.search import breadth_first_distances
from kdlgt.registry import DatasetSpec, Registry, hookimpl

SUFFIX = "-sample"


@attrs.frozen
class Sample:
    """A plugin with one data set, ``<name>-sample``: at most ``limit`` graphs, or nodes at node level.

    Graphs are drawn at random, from each part of a public split in proportion. At node level the nodes are those
    nearest to the training nodes of the public split, or to one node of the largest component without one, so that the
    part keeps its distances; validation and test nodes are then nearer to labels than in the whole graph.

    Attributes:
        spec: the whole data set.
        limit: how many graphs or nodes.
        seed: seed of the draw.
    """

    spec: DatasetSpec
    limit: int
    seed: int

    @hookimpl
    def kdlgt_datasets(self) -> list[DatasetSpec]:
        """The data set."""
        name, summary = f"{self.spec.name}{SUFFIX}", f"{self.limit} of {self.spec.summary}"
        return [attrs.evolve(self.spec, name=name, summary=summary, factory=self.read)]

    def read(self, root: pathlib.Path | None, options: Any) -> RawData:
        """Read the whole and take the part."""
        raw: RawData = self.spec.factory(root, options)
        generator = np.random.default_rng(self.seed)
        if raw.level == "node":
            return _nodes(raw, self.limit, generator)
        return _graphs(raw, self.limit, generator)


def with_sample(registry: Registry, name: str, limit: int, seed: int) -> Registry:
    """The registry with the data set ``<name>-sample``.

    Raises:
        UnknownNameError: no such data set.
    """
    spec = registry.spec("dataset", name)
    assert isinstance(spec, DatasetSpec)
    return registry.with_plugin(Sample(spec, limit, seed), owner="kdlgt reproduce", name="sample")


def _graphs(raw: RawData, limit: int, generator: np.random.Generator) -> RawData:
    total = len(raw.graphs)
    if total <= limit:
        return raw
    groups = [torch.arange(total)] if raw.split is None else list(raw.split.parts.values())
    counts = [max(1, round(limit * group.numel() / total)) for group in groups]
    kept = [
        group[torch.from_numpy(generator.permutation(group.numel())[:count])].sort().values
        for group, count in zip(groups, counts, strict=True)
    ]
    graphs = [raw.graphs[int(number)] for part in kept for number in part]
    return attrs.evolve(raw, graphs=graphs, split=_consecutive(raw.split, counts))


def _consecutive(split: Split | None, counts: list[int]) -> Split | None:
    if split is None:
        return None
    train, val, test = torch.arange(sum(counts)).split(counts)
    return attrs.evolve(split, train=train, val=val, test=test)


def _nodes(raw: RawData, limit: int, generator: np.random.Generator) -> RawData:
    whole = raw.graphs[0]
    if int(whole.num_nodes or 0) <= limit:
        return raw
    kept = _ball(Graph.from_data(whole, symmetrise=True), raw.split, limit, generator)
    place = torch.full((int(whole.num_nodes or 0),), -1)
    place[kept] = torch.arange(kept.numel())
    split = None if raw.split is None else _renumbered(raw.split, place)
    return attrs.evolve(raw, graphs=[_induced(whole, kept)], split=split)


def _ball(graph: Graph, split: Split | None, limit: int, generator: np.random.Generator) -> Tensor:
    """The ``limit`` nodes nearest to the training nodes, equal distances in random order."""
    if split is None:
        largest = np.flatnonzero(graph.component == np.bincount(graph.component).argmax())
        start = np.array([generator.choice(largest)])
    else:
        start = split.train.numpy()
    hops = breadth_first_distances(graph.adjacency, [start])[:, 0]
    far = np.where(hops < 0, graph.num_nodes, hops)
    order = np.lexsort((generator.random(graph.num_nodes), far))
    return torch.from_numpy(np.sort(order[:limit]))


def _renumbered(split: Split, place: Tensor) -> Split:
    train, val, test = (renamed[renamed >= 0] for renamed in (place[part] for part in split.parts.values()))
    return attrs.evolve(split, train=train, val=val, test=test)


def _induced(whole: Data, kept: Tensor) -> Data:
    edges, attributes = subgraph(kept, whole.edge_index, whole.get("edge_attr"), relabel_nodes=True)
    rows = {name: whole[name][kept] for name in ("x", "y") if whole.get(name) is not None}
    return Data(edge_index=edges, edge_attr=attributes, num_nodes=kept.numel(), **rows)

"""Synthetic tasks: random regular graphs of any size, and a task that only distance can answer."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from kdlgt.data.bundle import RawData
from kdlgt.data.options import DistanceOptions, RegularOptions
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import generate


def regular(root: pathlib.Path | None, options: RegularOptions) -> RawData:
    """One random regular graph (the paper's efficiency graphs) with Gaussian features X and labels to learn.

    ``y_i = argmax_c (mean of X over i and its neighbours  W)_c`` with a fixed Gaussian W [F, C].

    Raises:
        ArgumentError: no such graph exists.
    """
    require_at_least("features", options.features, 1)
    require_at_least("classes", options.classes, 2)
    data = generate.random_regular(options.nodes, options.degree, options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    data.x = torch.randn(options.nodes, options.features, generator=generator)
    weight = torch.randn(options.features, options.classes, generator=generator)
    source, target = data.edge_index
    around = scatter(data.x[source], target, dim=0, dim_size=options.nodes, reduce="sum")
    data.y = ((data.x + around) @ weight).argmax(1)
    return RawData(
        graphs=[data], level="node", task="multiclass", out_features=options.classes, in_features=options.features
    )


def distance(root: pathlib.Path | None, options: DistanceOptions) -> RawData:
    """Cycles of equal size with two marked nodes; the class says in which range their distance lies.

    Distances 1..nodes // 2 are cut into ``classes`` ranges as equal as can be, and classes are drawn uniformly, then
    the distance within the range. All graphs have the same multiset of node features, and all nodes the same degree, so
    a transformer without a positional encoding computes the same output for each: its accuracy is that of a constant,
    1 / classes in expectation. Message passing of L layers sees distances up to 2 L only.

    Raises:
        ArgumentError: cycles too short for the number of classes.
    """
    require_at_least("graphs", options.graphs, 1)
    require_at_least("nodes", options.nodes, 3)
    require_at_least("classes", options.classes, 2)
    longest = options.nodes // 2
    if longest < options.classes:
        raise ArgumentError(
            f"cycles of {options.nodes} nodes have distances 1..{longest}, too few for {options.classes} classes"
        )
    generator = np.random.default_rng(options.seed)
    ranges = np.array_split(np.arange(1, longest + 1), options.classes)
    cycle = generate.cycle(options.nodes).edge_index
    graphs = []
    for label in generator.integers(options.classes, size=options.graphs):
        first, apart = generator.integers(options.nodes), generator.choice(ranges[label])
        marked = torch.zeros(options.nodes, 1, dtype=torch.long)
        marked[[int(first), int((first + apart) % options.nodes)]] = 1
        graphs.append(Data(x=marked, edge_index=cycle.clone(), y=torch.tensor([int(label)])))
    return RawData(
        graphs=graphs,
        level="graph",
        task="multiclass",
        out_features=options.classes,
        in_features=(2,),
        classes=tuple(f"{part[0]}..{part[-1]}" for part in ranges),
    )

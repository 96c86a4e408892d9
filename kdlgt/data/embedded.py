"""Data sets that need no files: handwritten digits as a neighbour graph, and the karate club."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from torch_geometric.data import Data

from kdlgt.data.bundle import RawData
from kdlgt.data.options import DigitsOptions, KarateOptions
from kdlgt.data.raw import quiet_warnings
from kdlgt.errors import require_at_least


def digits(root: pathlib.Path | None, options: DigitsOptions) -> RawData:
    """scikit-learn's 1,797 handwritten digits (8 x 8 pixels in 0..1) as a nearest-neighbour graph, made symmetric."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    require_at_least("neighbours", options.neighbours, 1)
    require_at_least("labels_per_class", options.labels_per_class, 1)
    pixels, label = load_digits(return_X_y=True)
    near = kneighbors_graph(pixels, options.neighbours)
    row, col = (near + near.T).nonzero()
    data = Data(
        x=torch.from_numpy(pixels / 16).float(),
        edge_index=torch.from_numpy(np.stack([row, col]).astype(np.int64)),
        y=torch.from_numpy(label.astype(np.int64)),
    )
    return RawData(
        graphs=[data],
        level="node",
        task="multiclass",
        out_features=10,
        in_features=64,
        classes=tuple("0123456789"),
        train_per_class=options.labels_per_class,
    )


def karate(root: pathlib.Path | None, options: KarateOptions) -> RawData:
    """Zachary's karate club (34 members, 78 ties, 4 communities), each member with a feature of its own."""
    from torch_geometric.datasets import KarateClub

    require_at_least("labels_per_class", options.labels_per_class, 1)
    with quiet_warnings():
        data = KarateClub()[0]
    return RawData(
        graphs=[Data(x=data.x, edge_index=data.edge_index, y=data.y)],
        level="node",
        task="multiclass",
        out_features=4,
        in_features=34,
        train_per_class=options.labels_per_class,
    )

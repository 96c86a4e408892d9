"""LastFM-Asia: users, their mutual follows, and the country of each (Rozemberczki and Sarkar 2020)."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from kdlgt.data.bundle import RawData, feature_columns
from kdlgt.data.options import LastFMOptions
from kdlgt.data.raw import downloaded, source_folder
from kdlgt.errors import DataError


def lastfm_asia(root: pathlib.Path | None, options: LastFMOptions) -> RawData:
    """The graph and its 18 classes; without features from the CSV files, with 128 from PyG's download.

    Raises:
        DataError: the files are missing or broken.
    """
    folder = source_folder(root, "lastfm_asia")
    data = _download(root) if folder is None else _read(folder)
    return RawData(
        graphs=[data],
        level="node",
        task="multiclass",
        out_features=int(data.y.max()) + 1,
        in_features=feature_columns([data.x]),
    )


def _download(root: pathlib.Path | None) -> Data:
    from torch_geometric.datasets import LastFMAsia

    (data,) = downloaded(root, "LastFMAsia", lambda place: [LastFMAsia(str(place))[0]])
    return Data(x=data.x, y=data.y, edge_index=to_undirected(data.edge_index), num_nodes=data.num_nodes)


def _read(folder: pathlib.Path) -> Data:
    edges, target = (_table(folder / f"lastfm_asia_{name}.csv") for name in ("edges", "target"))
    labels = torch.full((len(target),), -1)
    labels[target[:, 0]] = target[:, 1]
    return Data(edge_index=to_undirected(edges.T.contiguous(), num_nodes=len(labels)), y=labels, num_nodes=len(labels))


def _table(path: pathlib.Path) -> Tensor:
    try:
        return torch.from_numpy(np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, ndmin=2))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as two columns of integers below a header: {error}") from error

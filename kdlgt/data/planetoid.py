"""Cora, Citeseer and PubMed: citation graphs with bag-of-words features and the public split (Yang et al. 2016)."""

from __future__ import annotations

import functools
import pathlib

from torch_geometric.data import Data

from kdlgt.data.bundle import RawData, Split
from kdlgt.data.options import PlanetoidOptions
from kdlgt.data.raw import parsed


def planetoid(folder: str, root: pathlib.Path | None, options: PlanetoidOptions) -> RawData:
    """One citation graph; ``folder`` is PyG's name, such as ``CiteSeer``."""
    (data,) = parsed(root, folder, functools.partial(_parse, folder))
    if options.normalise:
        data.x = data.x / data.x.sum(1, keepdim=True).clamp(min=1e-12)
    train, val, test = (data.pop(f"{part}_mask").nonzero().flatten() for part in ("train", "val", "test"))
    return RawData(
        graphs=[data],
        level="node",
        task="multiclass",
        out_features=int(data.y.max()) + 1,
        in_features=data.x.size(1),
        split=Split(train=train, val=val, test=test),
    )


def _parse(folder: str, place: pathlib.Path) -> list[Data]:
    from torch_geometric.datasets import Planetoid

    return [Planetoid(str(place), folder)[0]]

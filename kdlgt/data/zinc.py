"""ZINC, the 12,000-molecule subset: regression of constrained solubility (Dwivedi et al. 2020)."""

from __future__ import annotations

import pathlib

import torch
from torch_geometric.data import Data

from kdlgt.data.bundle import RawData, Split
from kdlgt.data.options import ZincOptions
from kdlgt.data.raw import parsed

_PARTS = ("train", "val", "test")
_ATOMS = 28
_BONDS = 4


def zinc(root: pathlib.Path | None, options: ZincOptions) -> RawData:
    """Atom types (28, of which the subset uses 21) and bond types as categories; the public split."""
    graphs = parsed(root, "ZINC", _parse)
    part = torch.tensor([int(graph.pop("part")) for graph in graphs])
    train, val, test = ((part == number).nonzero().flatten() for number in range(3))
    return RawData(
        graphs=graphs,
        level="graph",
        task="regression",
        out_features=1,
        in_features=(_ATOMS,),
        edge_features=(_BONDS,),
        metric="mae",
        split=Split(train=train, val=val, test=test),
    )


def _parse(place: pathlib.Path) -> list[Data]:
    from torch_geometric.datasets import ZINC

    return [
        Data(
            x=graph.x,
            edge_index=graph.edge_index,
            edge_attr=graph.edge_attr[:, None],
            y=graph.y[:, None],
            part=torch.tensor([number]),
        )
        for number, part in enumerate(_PARTS)
        for graph in ZINC(str(place / "ZINC"), subset=True, split=part)
    ]

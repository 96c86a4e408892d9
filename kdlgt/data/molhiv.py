"""OGBG-MOLHIV: does a molecule inhibit HIV replication (Hu et al. 2020); scaffold split, ROC-AUC.

OGB's files are plain tables, and reading them here needs neither ogb nor unsafe loading.
"""

from __future__ import annotations

import gzip
import hashlib
import pathlib
import shutil

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, download_url, extract_zip

from kdlgt.data.bundle import RawData, Split
from kdlgt.data.cache import FORMAT, as_fields, as_graph, cached, digest
from kdlgt.data.options import MolhivOptions
from kdlgt.data.raw import downloaded, source_folder
from kdlgt.errors import DataError

URL = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip"
_FOLDER = "ogbg_molhiv"
_TABLES = ("num-node-list", "num-edge-list", "node-feat", "edge", "edge-feat", "graph-label")
# OGB's feature dimensions (ogb.utils.features): a model built for them takes molecules outside this data set too.
_ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
_BOND = (5, 6, 2)


def molhiv(root: pathlib.Path | None, options: MolhivOptions) -> RawData:
    """Nine atom and three bond features as categories, bonds in both directions.

    Raises:
        DataError: the files are missing or broken.
    """
    folder = source_folder(root, _FOLDER) or _download(root)
    graphs = [as_graph(fields) for fields in cached("parsed", _key(folder), lambda: _graphs(folder))]
    train, val, test = (_table(folder, f"split/scaffold/{part}").flatten() for part in ("train", "valid", "test"))
    return RawData(
        graphs=graphs,
        level="graph",
        task="binary",
        out_features=1,
        in_features=_ATOM,
        edge_features=_BOND,
        metric="roc_auc",
        classes=("inactive", "active"),
        split=Split(train=train, val=val, test=test),
    )


def _download(root: pathlib.Path | None) -> pathlib.Path:
    def fetch(place: pathlib.Path) -> list[Data]:
        archive = download_url(URL, str(place.parent), log=False)
        extract_zip(archive, str(place.parent), log=False)
        shutil.move(place.parent / "hiv", place)
        pathlib.Path(archive).unlink()
        return []

    downloaded(root, _FOLDER, fetch)
    found = source_folder(root, _FOLDER)
    if found is None:
        raise DataError(f"the archive at {URL} holds no raw files; put them into <data root>/{_FOLDER}/raw")
    return found


def _key(folder: pathlib.Path) -> str:
    files = [_path(folder, f"raw/{name}") for name in _TABLES]
    return digest([FORMAT, _FOLDER, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)])


def _path(folder: pathlib.Path, name: str) -> pathlib.Path:
    path = folder / f"{name}.csv.gz"
    if not path.is_file():
        raise DataError(f"{path} is missing; OGBG-MOLHIV needs raw/*.csv.gz and split/scaffold/*.csv.gz")
    return path


def _table(folder: pathlib.Path, name: str) -> Tensor:
    path = _path(folder, name)
    try:
        with gzip.open(path, "rt") as file:
            return torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2))
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _graphs(folder: pathlib.Path) -> list[dict[str, Tensor]]:
    nodes, bonds, x, edge, edge_attr, y = (_table(folder, f"raw/{name}") for name in _TABLES)
    atoms, counts = nodes.flatten().tolist(), bonds.flatten().tolist()
    if sum(atoms) != len(x) or sum(counts) != len(edge) or len(edge) != len(edge_attr) or len(y) != len(atoms):
        raise DataError(f"the tables in {folder / 'raw'} do not fit together; compare them with the published ones")
    rows = zip(x.split(atoms), edge.split(counts), edge_attr.split(counts), y, strict=True)
    return [as_fields(_graph(*row)) for row in rows]


def _graph(x: Tensor, bonds: Tensor, bond_features: Tensor, y: Tensor) -> Data:
    return Data(
        x=x,
        edge_index=torch.cat([bonds, bonds.flip(1)]).T.contiguous(),
        edge_attr=torch.cat([bond_features, bond_features]),
        y=y[None].float(),
    )

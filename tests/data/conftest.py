"""Small data sets in the raw formats of the public ones, and a cache folder of each test's own."""

from __future__ import annotations

import gzip
import pathlib
import pickle
from collections.abc import Callable

import attrs
import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from kdlgt.config.schema import Component, DataConfig
from kdlgt.data import DataBundle, load_data
from kdlgt.graph import Graph, Prepare, Structure
from kdlgt.registry import Registry, load_plugins

Load = Callable[..., DataBundle]


@attrs.frozen
class Degrees(Structure):
    """A cheap structure, with one field of each sort that the protocol allows."""

    power: int = 1

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        degree = torch.from_numpy(graph.degree)
        row, col = (torch.from_numpy(ends.astype(np.int64)) for ends in graph.adjacency.nonzero())
        return {
            "degree": degree**self.power,
            "table": torch.stack([degree, degree + 1], dim=1).float(),
            "pair_index": torch.stack([row, col]),
            "total": degree.sum()[None],
        }


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Nothing outside the test's own folder is read or written."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KDLGT_CACHE", str(folder))
    monkeypatch.delenv("KDLGT_DATA", raising=False)
    return folder


@pytest.fixture(scope="session")
def registry() -> Registry:
    return load_plugins(allow=["datasets"])


@pytest.fixture
def load(registry: Registry) -> Load:
    """``load(name, root=..., seed=..., options={...}, **data_config)``."""

    def run(
        name: str,
        *,
        root: pathlib.Path | None = None,
        prepare: Prepare | None = None,
        seed: int = 0,
        options: dict[str, object] | None = None,
        **data: object,
    ) -> DataBundle:
        typed = registry.options("dataset", name, options or {})
        config = DataConfig(dataset=Component(name=name, options=typed), **data)  # type: ignore[arg-type]
        return load_data(config, root=root, prepare=prepare, seed=seed, registry=registry)

    return run


@pytest.fixture
def degrees() -> type[Degrees]:
    return Degrees


@pytest.fixture
def raw(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a tiny copy of each raw format, read-only like the real one."""
    root = tmp_path / "raw_data"
    _tu(root / "MUTAG" / "raw", "MUTAG", edge_labels=True)
    _tu(root / "PROTEINS" / "raw", "PROTEINS", attributes=True)
    _planetoid(root / "Cora" / "raw", "cora")
    _zinc(root / "ZINC" / "raw")
    _molhiv(root / "ogbg_molhiv")
    _lastfm(root / "lastfm_asia")
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return root


def _write(path: pathlib.Path, lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))  # type: ignore[attr-defined]


def _tu(raw: pathlib.Path, name: str, *, edge_labels: bool = False, attributes: bool = False) -> None:
    """Twenty paths of 3 or 4 nodes; the class is the length."""
    sizes = [3 + graph % 2 for graph in range(20)]
    starts = np.cumsum([0, *sizes[:-1]])
    edges = [(s + i + 1, s + i + 2) for s, n in zip(starts, sizes, strict=True) for i in range(n - 1)]
    both = [pair for a, b in edges for pair in ((a, b), (b, a))]
    nodes = [(graph + 1, i) for graph, n in enumerate(sizes) for i in range(n)]
    _write(raw / f"{name}_A.txt", [f"{a}, {b}" for a, b in both])
    _write(raw / f"{name}_graph_indicator.txt", [graph for graph, _ in nodes])
    _write(raw / f"{name}_graph_labels.txt", [1 if n == 3 else -1 for n in sizes])
    _write(raw / f"{name}_node_labels.txt", [i for _, i in nodes])
    if edge_labels:
        _write(raw / f"{name}_edge_labels.txt", [a % 2 for a, b in edges for _ in range(2)])
    if attributes:
        _write(raw / f"{name}_node_attributes.txt", [graph + i / 10 for graph, i in nodes])


def _planetoid(raw: pathlib.Path, name: str) -> None:
    """A cycle of 600 nodes: 6 train, the next 500 validate (PyG's rule), the last 40 test, in shuffled order."""
    generator = np.random.default_rng(0)
    features = csr_matrix((generator.random((600, 12)) < 0.3).astype(np.float32))
    onehot = np.eye(3, dtype=np.int32)[np.arange(600) % 3]
    order = generator.permutation(np.arange(560, 600))
    parts = {
        "x": features[:6], "allx": features[:560], "tx": features[order],
        "y": onehot[:6], "ally": onehot[:560], "ty": onehot[order],
        "graph": {node: [(node + 1) % 600, (node - 1) % 600] for node in range(600)},
    }  # fmt: skip
    _write(raw / f"ind.{name}.test.index", order)
    for part, value in parts.items():
        (raw / f"ind.{name}.{part}").write_bytes(pickle.dumps(value))


def _zinc(raw: pathlib.Path) -> None:
    raw.mkdir(parents=True)
    for number, (part, count) in enumerate((("train", 5), ("val", 3), ("test", 2))):
        molecules = [
            {
                "atom_type": torch.tensor([graph, 1, 20]),
                "bond_type": torch.tensor([[0, 1, 0], [1, 0, 3], [0, 3, 0]]),
                "logP_SA_cycle_normalized": torch.tensor([number + graph / 10]),
            }
            for graph in range(count)
        ]
        (raw / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
        _write(raw / f"{part}.index", [",".join(map(str, range(count)))])


def _molhiv(folder: pathlib.Path) -> None:
    """Ten molecules of 2 and 3 atoms in a row, every third one active."""
    sizes = [2 + graph % 2 for graph in range(10)]
    tables: dict[str, list[str]] = {
        "raw/num-node-list": [str(n) for n in sizes],
        "raw/num-edge-list": [str(n - 1) for n in sizes],
        "raw/node-feat": [f"{i},0,1,2,3,0,0,0,1" for n in sizes for i in range(n)],
        "raw/edge": [f"{i},{i + 1}" for n in sizes for i in range(n - 1)],
        "raw/edge-feat": [f"{i},0,1" for n in sizes for i in range(n - 1)],
        "raw/graph-label": [str(int(graph % 3 == 0)) for graph in range(10)],
        "split/scaffold/train": ["0", "2", "4", "6", "8", "9"],
        "split/scaffold/valid": ["1", "3"],
        "split/scaffold/test": ["5", "7"],
    }
    for name, lines in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def _lastfm(folder: pathlib.Path) -> None:
    """A cycle of 60 users in 3 countries; the target table is not in order."""
    _write(folder / "lastfm_asia_edges.csv", ["node_1,node_2", *(f"{i},{(i + 1) % 60}" for i in range(60))])
    _write(folder / "lastfm_asia_target.csv", ["id,target", *(f"{i},{i % 3}" for i in reversed(range(60)))])

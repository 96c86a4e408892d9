"""The readers of public formats, on tiny data sets in the same raw files."""

from __future__ import annotations

import pathlib
import pickle
import shutil
import zipfile
from typing import Any

import pytest
import torch

import kdlgt.data.molhiv
from kdlgt.errors import DataError

Load = Any


def snapshot(folder: pathlib.Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_tu_node_and_edge_labels_are_categories(load: Load, raw: pathlib.Path) -> None:
    bundle = load("mutag", root=raw)
    assert (bundle.level, bundle.task, bundle.metric, bundle.out_features) == ("graph", "multiclass", "accuracy", 2)
    assert (bundle.in_features, bundle.edge_features) == ((4,), (2,))
    assert len(bundle.graphs) == 20
    first = bundle.graphs[0]
    assert first.x.tolist() == [[0], [1], [2]]
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert first.edge_attr.tolist() == [[1], [1], [0], [0]]
    assert [int(graph.y) for graph in bundle.graphs[:4]] == [1, 0, 1, 0]


def test_tu_attributes_are_an_option(load: Load, raw: pathlib.Path) -> None:
    assert load("proteins", root=raw).in_features == (4,)
    bundle = load("proteins", root=raw, options={"attributes": True})
    assert bundle.in_features == 5
    torch.testing.assert_close(bundle.graphs[0].x[1], torch.tensor([1.1, 0, 1, 0, 0]))


def test_planetoid_has_its_public_split(load: Load, raw: pathlib.Path) -> None:
    bundle = load("cora", root=raw)
    assert (bundle.level, bundle.in_features, bundle.out_features) == ("node", 12, 3)
    assert torch.equal(bundle.graph.y, torch.arange(600) % 3)
    assert bundle.graph.edge_index.size(1) == 1200
    assert bundle.split.train.tolist() == list(range(6))
    assert bundle.split.val.tolist() == list(range(6, 506))
    assert bundle.split.test.tolist() == list(range(560, 600))
    assert torch.equal(bundle.graph.test_mask.nonzero().flatten(), bundle.split.test)
    assert bundle.split.source == "public"


def test_planetoid_features_can_be_normalised(load: Load, raw: pathlib.Path) -> None:
    sums = load("cora", root=raw, options={"normalise": True}).graph.x.sum(1)
    assert (torch.isclose(sums, torch.ones(())) | (sums == 0)).all()


def test_zinc(load: Load, raw: pathlib.Path) -> None:
    bundle = load("zinc", root=raw)
    assert (bundle.task, bundle.metric, bundle.higher_is_better) == ("regression", "mae", False)
    assert (bundle.in_features, bundle.edge_features) == ((28,), (4,))
    assert [len(part) for part in (bundle.train, bundle.val, bundle.test)] == [5, 3, 2]
    graph = bundle.val[1]
    assert graph.x.tolist() == [[1], [1], [20]]
    assert graph.edge_attr.tolist() == [[1], [1], [3], [3]]
    torch.testing.assert_close(graph.y, torch.tensor([[1.1]]))


def test_molhiv(load: Load, raw: pathlib.Path) -> None:
    bundle = load("ogbg-molhiv", root=raw)
    assert (bundle.task, bundle.metric, bundle.out_features) == ("binary", "roc_auc", 1)
    assert bundle.split.val.tolist() == [1, 3]
    graph = bundle.graphs[3]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.edge_attr.tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 1], [1, 0, 1]]
    assert graph.y.tolist() == [[1.0]]
    assert bundle.class_counts().tolist() == [3]


def test_lastfm_has_no_features(load: Load, raw: pathlib.Path) -> None:
    bundle = load("lastfm-asia", root=raw)
    assert bundle.in_features is None
    assert torch.equal(bundle.graph.y, torch.arange(60) % 3)
    assert bundle.graph.edge_index.size(1) == 120
    assert bundle.split.source == "random"


@pytest.mark.parametrize("name", ["mutag", "cora", "zinc", "ogbg-molhiv", "lastfm-asia"])
def test_the_data_folder_is_never_written_to(load: Load, raw: pathlib.Path, name: str) -> None:
    before = snapshot(raw)
    load(name, root=raw)
    assert snapshot(raw) == before


def test_the_environment_names_the_data_folder(load: Load, raw: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDLGT_DATA", str(raw))
    assert len(load("mutag").graphs) == 20


def test_changed_raw_files_are_read_anew(load: Load, raw: pathlib.Path, tmp_path: pathlib.Path) -> None:
    load("mutag", root=raw)
    changed = tmp_path / "changed"
    shutil.copytree(raw / "MUTAG", changed / "MUTAG")
    labels = changed / "MUTAG" / "raw" / "MUTAG_graph_labels.txt"
    labels.chmod(0o644)
    labels.write_text(labels.read_text().replace("-1", "1", 1))
    assert [int(graph.y) for graph in load("mutag", root=changed).graphs[:4]] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("mutag", "MUTAG/raw/MUTAG_A.txt", b"1, 2\n1"),
        ("cora", "Cora/raw/ind.cora.allx", b"no pickle"),
        ("zinc", "ZINC/raw/val.pickle", b""),
        ("ogbg-molhiv", "ogbg_molhiv/raw/edge.csv.gz", b"no gzip"),
        ("lastfm-asia", "lastfm_asia/lastfm_asia_edges.csv", b"node_1,node_2\n1,x\n"),
    ],
)
def test_broken_raw_files_are_named(load: Load, raw: pathlib.Path, name: str, file: str, content: bytes) -> None:
    (raw / file).chmod(0o644)
    (raw / file).write_bytes(content)
    with pytest.raises(DataError, match=str((raw / file).parent)):
        load(name, root=raw)


def test_tables_of_molhiv_must_fit_together(load: Load, raw: pathlib.Path) -> None:
    target = raw / "ogbg_molhiv/raw/edge.csv.gz"
    target.chmod(0o644)
    shutil.copyfile(raw / "ogbg_molhiv/raw/num-node-list.csv.gz", target)
    with pytest.raises(DataError, match="do not fit together"):
        load("ogbg-molhiv", root=raw)


@pytest.mark.parametrize(("name", "kind"), [("mutag", "TUDataset"), ("cora", "Planetoid"), ("zinc", "ZINC")])
def test_what_is_not_there_is_downloaded_once(
    load: Load, raw: pathlib.Path, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    import torch_geometric.datasets as datasets

    calls = []

    def download(self: Any) -> None:
        calls.append(self.raw_dir)
        folder = pathlib.Path(self.raw_dir)
        shutil.copytree(raw / folder.parent.name / "raw", folder, dirs_exist_ok=True)

    monkeypatch.setattr(getattr(datasets, kind), "download", download)
    first = load(name)
    again = load(name)
    assert len(calls) == 1
    assert calls[0].startswith(str(cache))
    assert all(torch.equal(a.edge_index, b.edge_index) for a, b in zip(first.graphs, again.graphs, strict=True))


def test_molhiv_is_downloaded_as_an_archive(
    load: Load, raw: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "hiv.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (raw / "ogbg_molhiv").rglob("*.gz"):
            file.write(path, pathlib.Path("hiv") / path.relative_to(raw / "ogbg_molhiv"))

    def download(url: str, folder: str, log: bool) -> str:
        assert url == kdlgt.data.molhiv.URL
        return str(shutil.copy(archive, pathlib.Path(folder) / "hiv.zip"))

    monkeypatch.setattr(kdlgt.data.molhiv, "download_url", download)
    assert len(load("ogbg-molhiv").graphs) == 10


def test_a_failed_download_says_where_files_are_expected(
    load: Load, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_geometric.datasets as datasets

    def download(self: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(datasets.TUDataset, "download", download)
    with pytest.raises(DataError, match=r"NCI1 is not in .*no network.*data root"):
        load("nci1", root=tmp_path)


def test_digits(load: Load) -> None:
    bundle = load("digits")
    assert (bundle.in_features, bundle.out_features, bundle.graph.num_nodes) == (64, 10, 1797)
    assert 0 <= bundle.graph.x.min() < bundle.graph.x.max() <= 1
    assert bundle.class_counts().tolist() == [10] * 10
    assert torch.bincount(bundle.graph.edge_index[0]).min() >= 10
    fewer = load("digits", options={"labels_per_class": 3, "neighbours": 4})
    assert fewer.class_counts().tolist() == [3] * 10
    assert fewer.graph.num_edges < bundle.graph.num_edges


def test_karate(load: Load) -> None:
    bundle = load("karate")
    assert (bundle.graph.num_nodes, bundle.graph.num_edges, bundle.out_features) == (34, 156, 4)
    assert bundle.class_counts().tolist() == [2] * 4


def test_pickled_code_in_a_parsed_cache_file_does_not_run(load: Load, raw: pathlib.Path, cache: pathlib.Path) -> None:
    load("mutag", root=raw)
    (file,) = (cache / "parsed").glob("*.safetensors")
    file.write_bytes(pickle.dumps(_Bomb()))
    assert len(load("mutag", root=raw).graphs) == 20


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle ran",)

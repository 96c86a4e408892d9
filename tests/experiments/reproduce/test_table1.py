"""Table 1."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
from torch_geometric.data import Data

from kdlgt.data.bundle import RawData
from kdlgt.experiments.reproduce import table1
from kdlgt.experiments.reproduce.datasets import DATA_SETS, DataSet


def raw(edges: list[list[int]], labels: list[int], **values: Any) -> RawData:
    graph = Data(edge_index=torch.tensor(edges), y=torch.tensor(labels), num_nodes=len(labels))
    return RawData(graphs=[graph], level="node", task="multiclass", out_features=2, **values)


def test_an_edge_counts_once_and_a_loop_not_at_all() -> None:
    counted = table1.count(raw([[0, 1, 1, 2, 2, 1, 1], [1, 0, 2, 1, 2, 2, 2]], [0, 0, 1]))
    assert counted.entry["mean edges"] == 2
    assert counted.entry["mean nodes"] == 3


def test_homogeneity_is_the_share_of_edges_within_a_class() -> None:
    counted = table1.count(raw([[0, 1, 1, 2], [1, 0, 2, 1]], [0, 0, 1]))
    assert counted.homogeneity == pytest.approx(0.5)


def test_features_in_words() -> None:
    entry = table1.count(raw([[0], [1]], [0, 1], in_features=(3, 2), edge_features=5)).entry
    assert entry["node features"] == "2 categorical (3, 2 values)"
    assert entry["edge features"] == "5"


def test_the_table_of_the_karate_club(request_of: Any, tiny_nodes: DataSet) -> None:
    outcome = table1.run(request_of("table1"), [tiny_nodes])
    (row,) = outcome.tables[0].records
    assert (row["data set"], row["mean nodes"], row["mean edges"], row["outputs"]) == ("karate", 34, 78, 4)
    assert outcome.claims[0].verdict == "not tested"
    assert "karate" in outcome.claims[0].measured


def test_a_data_set_that_cannot_be_read_says_so_in_its_row(request_of: Any, tiny_nodes: DataSet) -> None:
    outcome = table1.run(request_of("table1"), [attrs.evolve(tiny_nodes, name="karat", title="karat"), tiny_nodes])
    missing, found = outcome.tables[0].records
    assert "Did you mean 'karate'" in str(missing["remark"])
    assert found["graphs"] == 1


@pytest.mark.parametrize(("lastfm", "verdict"), [(0.2, "holds"), (0.87, "does not hold")])
def test_the_claim_on_homogeneity(lastfm: float, verdict: str) -> None:
    shares: dict[str, float | None] = {"Cora": 0.81, "Citeseer": 0.74, "PubMed": 0.8, "LastFM-Asia": lastfm}
    assert table1._homogeneity(shares).verdict == verdict


@pytest.mark.slow
def test_the_ten_data_sets(request_of: Any, data_root: Any) -> None:
    outcome = table1.run(request_of("table1", data_root=data_root))
    rows = {row["data set"]: row for row in outcome.tables[0].records}
    assert list(rows) == [data.title for data in DATA_SETS]
    assert (rows["OGBG-MOLHIV"]["graphs"], rows["ZINC"]["graphs"]) == (41127, 12000)
    assert (rows["Cora"]["mean edges"], rows["PubMed"]["mean edges"]) == (5278, 44324)

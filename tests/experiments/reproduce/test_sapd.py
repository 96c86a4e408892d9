"""SAPD against SPD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kdlgt.experiments.reproduce import sapd
from kdlgt.graph import Graph, generate
from kdlgt.graph.anchors import anchor_distances
from kdlgt.registry import load_plugins

SETTINGS = sapd.Settings(
    nodes=49, hops=(1, 2), sizes=(32, 64), caps=(1, 2, 4, 8), decays=(1.0,), pooling_hops=1, pooling_nodes=49
)


@pytest.mark.plugins
def test_gap_is_attained_at_twice_k_and_the_claims_follow(request_of: Any) -> None:
    outcome = sapd.run(request_of("sapd"), SETTINGS)
    gaps: Any = outcome.tables[0].records
    assert all(row["smallest gap"] >= 0 and row["largest gap"] <= row["2R"] for row in gaps)
    assert any(row["largest gap"] == row["2k"] for row in gaps if row["cap"] is None)
    verdicts = {claim.key: claim.verdict for claim in outcome.claims}
    assert verdicts["sapd.error"] == "does not hold"
    assert verdicts["sapd.double"] == "holds"
    assert verdicts["sapd.pooling"] == "does not hold"


def test_gap_on_a_path_by_hand() -> None:
    """Three nodes, the middle one covers all: 0 to itself it is 2 hops from an end over the anchor, 0 apart."""
    graph = Graph.from_data(generate.path(3))
    found = sapd._gap(anchor_distances(graph, 1), sapd.all_distances(graph), 1)
    assert (found["anchors"], found["radius R"], found["largest gap"]) == (1, 1, 2)
    assert found["mean gap"] == pytest.approx(4 / 9, abs=1e-3)


def test_all_distances_of_a_cycle() -> None:
    distance = sapd.all_distances(Graph.from_data(generate.cycle(6)))
    assert distance[0].tolist() == [0, 1, 2, 3, 2, 1]
    assert np.array_equal(distance, distance.T)


@pytest.mark.plugins
def test_mean_pooling_gives_every_row_the_same_attention() -> None:
    registry, data = load_plugins(), generate.path(12)
    mean = sapd.attention_rows(data, registry, "mean", 1, 1.0)
    softmin = sapd.attention_rows(data, registry, "softmin", 1, 1.0)
    assert torch.allclose(mean, mean[:1].expand_as(mean))
    assert not torch.allclose(softmin, softmin[:1].expand_as(softmin))
    assert torch.allclose(softmin.sum(1), torch.ones(12, dtype=torch.float64))


def test_coverage_grows_with_the_cap() -> None:
    rows: Any = sapd.cover_records({"grid": generate.grid(7, 7)}, SETTINGS)
    covered = [row["covered"] for row in rows if row["k"] == 2]
    assert covered == sorted(covered)
    assert covered[0] < covered[-1]

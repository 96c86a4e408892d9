"""Every first-party encoding's structure is computed once and then read from the cache."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import kdlgt.data.preparation
from kdlgt.data.preparation import prepared
from kdlgt.graph import Prepare, generate
from kdlgt.registry import load_plugins

pytestmark = pytest.mark.plugins

ENCODINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sapd": ("sapd", {}),
    "sat, k-subtree": ("sat", {}),
    "sat, k-subgraph": ("sat", {"extractor": "k-subgraph"}),
    "spectral": ("spectral", {"rank": 4}),
    "operator": ("operator", {"rank": 4}),
    **{f"spd, {name}": ("spd", {"approximation": name}) for name in ("sapd", "eigen", "nystrom", "local")},
    "path_edge": ("path_edge", {"categories": 3}),
    "walk": ("walk", {}),
    "grf": ("grf", {}),
    "degree": ("degree", {}),
    "edge": ("edge", {"categories": [3]}),
}


def graphs() -> list[Data]:
    found = [generate.grid(3, 4), generate.path(7), generate.star(6)]
    for graph in found:
        graph.edge_attr = torch.zeros(graph.edge_index.size(1), 1, dtype=torch.long)
    return found


@pytest.mark.filterwarnings("ignore::kdlgt.graph.anchors.AnchorWarning")
@pytest.mark.parametrize("case", ENCODINGS)
def test_the_second_time_nothing_is_computed(
    case: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDLGT_CACHE", str(tmp_path))
    name, options = ENCODINGS[case]
    transform = Prepare(load_plugins().rpe(name, heads=2, channels=8, **options).structures)
    first = prepared(graphs(), transform, workers=1)
    monkeypatch.setattr(kdlgt.data.preparation, "_compute", lambda *_: pytest.fail("computed again"))
    second = prepared(graphs(), transform, workers=1)
    for one, two in zip(first, second, strict=True):
        assert set(one.keys()) == set(two.keys())
        assert all(torch.equal(one[key], two[key]) for key in one.keys() if torch.is_tensor(one[key]))  # noqa: SIM118

"""Encodings against the exact shortest path bias, and preparation beside scipy, on small graphs."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
import torch

from kdlgt.cli.app import run
from kdlgt.errors import ArgumentError
from kdlgt.experiments.benchmark_prepare import ACTION, ENCODINGS, TOPOLOGIES, preparation_methods
from kdlgt.experiments.encodings import METHODS, NOTHING, cora_pieces, encoding_errors, example_graphs
from kdlgt.graph import Graph
from kdlgt.graph.generate import grid, path
from kdlgt.registry import Registry, load_plugins

pytestmark = pytest.mark.plugins


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_plugins()


def test_softmin_is_far_below_mean_and_local_below_softmin(registry: Registry) -> None:
    """Mean pooling is worth nothing, softmin much, a correction within two hops most (at c = -1)."""
    graphs = {"grid": [grid(14, 14)], "path": [path(100)]}
    found = {(e.graph, e.method): e.total_variation for e in encoding_errors(registry, graphs, (-1.0,))}
    for graph in graphs:
        nothing = found[graph, NOTHING]
        assert found[graph, "SAPD mean"] == pytest.approx(nothing, abs=0.03)
        assert found[graph, "SAPD softmin"] < 0.55 * nothing
        assert found[graph, "local h=2"] < found[graph, "local h=1"] < found[graph, "SAPD softmin"]
        assert found[graph, "local h=2"] < 0.15


def test_no_rpe_is_measured_against_the_definition(registry: Registry) -> None:
    """Path of 3, c = -1: rows of softmax(-d) against a third each, by hand."""
    weights = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]).neg().softmax(1)
    expected = float((weights - 1 / 3).abs().sum(1).mean() / 2)
    (error, *_) = encoding_errors(registry, {"path": [path(3)]}, (-1.0,), width=3)
    assert (error.method, error.nodes) == (NOTHING, 3)
    assert error.total_variation == pytest.approx(expected)


def test_bias_that_grows_is_refused(registry: Registry) -> None:
    with pytest.raises(ArgumentError, match="numbers < 0"):
        encoding_errors(registry, {"path": [path(3)]}, (0.5,))


def test_pieces_are_connected_and_of_the_size_asked_for() -> None:
    for piece in cora_pieces(grid(10, 10), 30, seed=0):
        assert piece.num_nodes == 30
        assert Graph.from_data(piece).num_components == 1


@pytest.mark.slow
def test_cora_is_among_the_graphs(registry: Registry, data_root: pathlib.Path) -> None:
    pieces = example_graphs(100, 0, registry, data_root)["Cora"]
    assert [piece.num_nodes for piece in pieces] == [100, 100, 100]


def test_command_prints_and_writes_the_table(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "encodings", "--nodes", "36", "--width", "8", "--json", str(tmp_path / "table.json")]) == 0
    tree = json.loads((tmp_path / "table.json").read_text())
    graphs = {error["graph"] for error in tree["errors"]}
    assert graphs >= {"6-regular", "grid", "Barabasi-Albert", "path"}
    assert len(tree["errors"]) == len(graphs) * 2 * (1 + len(METHODS))
    assert "local h=2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("encoding", "method"), [(encoding, method) for encoding, methods in ENCODINGS.items() for method in methods]
)
def test_every_way_to_prepare_runs(encoding: str, method: str) -> None:
    for topology in TOPOLOGIES:
        build: Callable[[int], object] = preparation_methods(encoding, topology, 4, [method])[method]
        actions = build(64)()  # type: ignore[operator]
        assert actions[ACTION]() is not None

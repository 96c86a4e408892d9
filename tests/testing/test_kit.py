"""The parts of the kit: options that are swept, outcomes, relabelling, the guard."""

from __future__ import annotations

import unittest
import warnings
from typing import Literal

import attrs
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from kdlgt.graph import Graph
from kdlgt.graph.generate import grid
from kdlgt.graph.landmarks import farthest_first
from kdlgt.graph.refinement import structural_colours
from kdlgt.testing import Check, LargeTensorError, NoSquare, SkipCheck, label, run_checks, sweep
from kdlgt.testing.check import checks_of
from kdlgt.testing.graphs import asymmetric_tree, degenerate_graphs, ordinary_graphs, random_order, relabelled
from kdlgt.testing.purity import same_fields, untouched_random_state


@attrs.frozen(kw_only=True)
class Options:
    way: Literal["a", "b", "c"] = "b"
    flag: bool = False
    maybe: Literal["x", "y"] | None = None
    number: int = 3


def test_the_sweep_varies_each_choice_alone() -> None:
    assert [label(options) for options in sweep(Options)] == [
        "default",
        "way='a'",
        "way='c'",
        "flag=True",
        "maybe='x'",
        "maybe='y'",
    ]


def test_options_without_defaults_are_not_swept() -> None:
    @attrs.frozen
    class Required:
        size: int

    assert list(sweep(Required)) == []


def check(function: object, *needs: Check, name: str = "it") -> Check:
    return Check(name=name, options="default", function=function, needs=needs)  # type: ignore[arg-type]


def fails() -> None:
    raise AssertionError("it is wrong")


def breaks() -> None:
    raise ZeroDivisionError("by zero")


def skips() -> None:
    raise SkipCheck("it does not apply")


def passes() -> None:
    warnings.warn("tiny graphs", UserWarning, stacklevel=1)


def test_outcomes() -> None:
    results = run_checks([check(passes), check(fails), check(breaks), check(skips)])
    assert [result.status for result in results] == ["passed", "failed", "failed", "skipped"]
    assert results[1].reason == "it is wrong"
    assert results[2].reason.startswith("ZeroDivisionError: by zero (test_kit.py, line ")
    assert results[3].reason == "it does not apply"
    assert results[0].to_dict().keys() == {"check", "options", "status", "reason", "needs", "seconds"}


def test_a_check_is_a_test() -> None:
    check(passes)()
    with pytest.raises(AssertionError, match="it is wrong"):
        check(fails)()
    with pytest.raises(unittest.SkipTest):
        check(skips)()
    assert str(check(passes)) == "it [default]"


def test_what_needs_a_failing_check_is_skipped_with_that_reason() -> None:
    results = run_checks(checks_of(None, {"first": lambda _: fails(), "second": lambda _: passes()}, "default"))
    assert [result.status for result in results] == ["failed", "skipped"]
    assert results[1].reason == "needs the check 'first', which fails"
    assert [result.needs for result in results] == ["", "first"]


def test_a_skip_of_its_own_names_no_other_check() -> None:
    results = run_checks(checks_of(None, {"first": lambda _: passes(), "second": lambda _: skips()}, "default"))
    assert [(result.status, result.needs) for result in results] == [("passed", ""), ("skipped", "")]


def test_structure_alone_tells_the_nodes_of_the_asymmetric_tree_apart() -> None:
    graph = Graph.from_data(asymmetric_tree(1))
    assert (graph.num_nodes, graph.adjacency.nnz, graph.component.max()) == (16, 30, 0), "a tree"
    assert np.unique(structural_colours(graph)).size == 16
    landmarks, hops = farthest_first(graph, 4)
    nearest = hops[:, :3].min(1)
    assert landmarks[0] == np.flatnonzero(graph.degree == 5).item()
    assert landmarks[3] == np.flatnonzero(nearest == nearest.max()).item()


@pytest.mark.parametrize("name", [*ordinary_graphs(1), *degenerate_graphs(1), "tree"])
def test_relabelling_is_an_isomorphism_that_carries_all_attributes(name: str) -> None:
    data = {**ordinary_graphs(2), **degenerate_graphs(2), "tree": asymmetric_tree(2)}[name]
    order = random_order(int(data.num_nodes or 0))
    moved = relabelled(data, order)
    dense, moved_dense = (torch.from_numpy(Graph.from_data(graph).adjacency.toarray()) for graph in (data, moved))
    assert torch.equal(moved_dense, dense[order][:, order])
    assert torch.equal(moved.x, data.x[order])

    def edges(graph: Data, position: torch.Tensor) -> list[tuple[int, int, int, float]]:
        ends = position[graph.edge_index].T.tolist()
        attributes = zip(graph.edge_attr[:, 0].tolist(), graph.edge_weight.tolist(), strict=True)
        return sorted((i, j, *rest) for (i, j), rest in zip(ends, attributes, strict=True))

    assert edges(moved, order) == edges(data, torch.arange(len(order)))


def test_relabelling_after_preparation_moves_structure_with_its_rows() -> None:
    data = grid(2, 3)
    data.near_12345678_pair_index = torch.tensor([[0, 0, 1], [1, 2, 2]])
    data.near_12345678_hops = torch.tensor([10, 20, 30])
    moved = relabelled(data, torch.tensor([2, 1, 0, 3, 4, 5]))
    assert moved.near_12345678_pair_index.tolist() == [[1, 2, 2], [0, 0, 1]]
    assert moved.near_12345678_hops.tolist() == [30, 20, 10]


def test_the_guard_rejects_n_squared_and_measures() -> None:
    with NoSquare(10) as guard:
        torch.ones(9, 11)
    assert guard.largest == 99
    with pytest.raises(LargeTensorError, match=r"shape \(10, 10\); 100 elements are forbidden"), NoSquare(10):
        torch.ones(10, 1) @ torch.ones(1, 10)


def test_the_guard_sees_the_backward_pass() -> None:
    x = torch.ones(50, 1, requires_grad=True)
    with NoSquare(50), pytest.raises(LargeTensorError):
        (x * x.T).sum().backward()


def test_differences_between_graphs_are_named() -> None:
    data = ordinary_graphs(2)["grid 3x4"]
    assert same_fields(data, data.clone()) == ""
    changed = data.clone()
    changed.x = changed.x + 1
    assert same_fields(data, changed) == "x"
    changed.more = torch.ones(1)
    assert same_fields(data, changed) == "fields ['more']"


def test_touched_random_states_are_named() -> None:
    expected = pytest.raises(AssertionError, match="here changes the global random state of torch")
    with expected, untouched_random_state("here"):
        torch.rand(1)

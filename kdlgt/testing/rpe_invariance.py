"""Node numbers do not matter, and the graphs of a batch do not see each other."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.algebra import Decomposition
from kdlgt.rpe import RPE
from kdlgt.testing.compare import assert_same, is_mixture
from kdlgt.testing.graphs import asymmetric_tree, from_edges, random_order, relabelled, with_attributes
from kdlgt.testing.rpe_case import CHANNELS, Form, RPECase
from kdlgt.testing.seeds import DEVIATIONS, DRAWS, averaged, has_seed, reseeded, symbol

RTOL, ATOL = 1e-6, 1e-7
"""What rounding may differ by when sums run over nodes in another order."""

ORDERS = 4
TREE = "tree of 16 nodes, no two of them alike"
ADVICE = (
    "so the encoding is a function of node numbers: break ties by structure "
    "(kdlgt.graph.refinement.structural_colours), or draw from a generator of your own with the option `seed`"
)


def equivariance(case: RPECase) -> None:
    """On prepared data, the value commutes with relabelling the nodes, exactly."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        order = random_order(int(graph.num_nodes or 0))
        moved = relabelled(data, order)
        expected = case.observed(case.value(rpe, data), data)[:, order][:, :, order]
        assert_same(case.observed(case.value(rpe, moved), moved), expected, f"{name}, relabelled after preparation")


def preparation(case: RPECase) -> None:
    """Preparation commutes with relabelling too: on every graph, or in law.

    In law: it commutes exactly where no two nodes are alike, or else in the mean over the option ``seed``.
    """
    if case.spec.equivariance == "in law":
        _check_law(case)
        return
    for name, graph in case.graphs.items():
        _check_relabelled(case, name, graph)


def _check_relabelled(case: RPECase, name: str, graph: Data, seed: int = 1) -> None:
    rpe = case.rpe()
    order = random_order(int(graph.num_nodes or 0), seed)
    data, moved = case.prepared(rpe, graph), case.prepared(rpe, relabelled(graph, order))
    for form, make in case.forms(rpe).items():
        expected = case.observed(make(data), data)[:, order][:, :, order]
        got = case.observed(make(moved), moved)
        assert_same(got, expected, f"{name}, relabelled before preparation, {form}", rtol=RTOL, atol=ATOL)


def _check_law(case: RPECase) -> None:
    graph = asymmetric_tree(CHANNELS)
    try:
        # One order alone may leave two tied nodes as they were.
        for seed in range(ORDERS):
            _check_relabelled(case, TREE, graph, seed)
    except AssertionError as error:
        if not has_seed(case):
            raise AssertionError(f"{error}; {ADVICE}") from error
        _check_law_in_mean(case, graph)


def _check_law_in_mean(case: RPECase, graph: Data) -> None:
    """Both forms, entry by entry: the graph and the relabelled one, mapped back, have the same mean over seeds."""
    rpe = case.rpe()
    draws = torch.stack([_both_labellings(case, reseeded(case, rpe, seed), graph, seed) for seed in range(DRAWS)])
    got, expected = draws.mean(0)
    standard_error = (draws[:, 0] - draws[:, 1]).std(0) / DRAWS**0.5
    off = (got - expected).abs() > DEVIATIONS * standard_error + RTOL * expected.abs() + ATOL
    if bool(off.any()):
        form, *entry = first = tuple(off.nonzero()[0].tolist())
        raise AssertionError(
            f"{TREE}, {tuple(case.forms(rpe))[form]}: the mean of {symbol(case)} over {DRAWS} seeds is "
            f"{float(expected[first]):.4g} at entry (head, i, j) = {tuple(entry)}, and {float(got[first]):.4g} for the "
            f"same nodes when they are relabelled before preparation; {ADVICE}"
        )


def _both_labellings(case: RPECase, rpe: RPE, graph: Data, seed: int) -> Tensor:
    """The graph relabelled at random, mapped back, and the graph itself [2, forms, H, N, N]."""
    order = random_order(int(graph.num_nodes or 0), seed)
    back = order.argsort()
    data, moved = case.prepared(rpe, graph), case.prepared(rpe, relabelled(graph, order))
    forms = case.forms(rpe).values()
    there = torch.stack([_averaged(case, make(moved), moved)[:, back][:, :, back] for make in forms])
    here = torch.stack([_averaged(case, make(data), data) for make in forms])
    return torch.stack([there, here])


def _averaged(case: RPECase, value: Decomposition, data: Data) -> Tensor:
    """What the mean is taken of; attention weights, where the value averages softmaxes."""
    seen = case.observed(value, data)
    return seen.detach() if is_mixture(value) else averaged(case, seen)


def isolation(case: RPECase) -> None:
    """A batch gives each graph what it gives alone, and changing one graph leaves the others as they were."""
    rpe = case.rpe()
    for form, make in case.forms(rpe).items():
        _check_batch(case, rpe, form, make)
        _check_leak(case, rpe, form, make)


def _check_batch(case: RPECase, rpe: RPE, form: str, make: Form) -> None:
    singles = {name: case.prepared(rpe, graph) for name, graph in case.graphs.items()}
    batch = Batch.from_data_list(list(singles.values()))
    whole = case.observed(make(batch), batch)
    for (name, data), start in zip(singles.items(), batch.ptr.tolist(), strict=False):
        block = _block(whole, start, int(data.num_nodes or 0))
        alone = case.observed(make(data), data)
        assert_same(block, alone, f"{name} in a batch against alone, {form}")


def _check_leak(case: RPECase, rpe: RPE, form: str, make: Form) -> None:
    """Graph A beside B, and beside another graph as large as B."""
    graph, companion = case.ordinary["grid 3x4"], case.ordinary["random of 13 nodes"]
    nodes = int(companion.num_nodes or 0)
    changed = with_attributes(from_edges(nodes, [(0, node) for node in range(2, nodes)]), CHANNELS, seed=9)
    changed.x = 10.0 * changed.x
    first, second = (_first_block(case, rpe, make, [graph, other]) for other in (companion, changed))
    assert_same(first, second, f"a graph's value moved when another graph of its batch changed, {form}", rtol=1e-10)


def _first_block(case: RPECase, rpe: RPE, make: Form, graphs: list[Data]) -> Tensor:
    batch = case.batch(rpe, graphs)
    return _block(case.observed(make(batch), batch), 0, int(graphs[0].num_nodes or 0))


def _block(whole: Tensor, start: int, size: int) -> Tensor:
    return whole[:, start : start + size, start : start + size]

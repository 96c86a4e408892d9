"""SAPD: its values equal the reference, stay finite, keep components and graphs apart."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader

from kdlgt.algebra import Mixture, lower
from kdlgt.attention import exact_attention
from kdlgt.errors import AlgebraError, ArgumentError, NotPreparedError
from kdlgt.graph import Graph, Prepare, generate, graph_ids, graph_ptr, read_structure
from kdlgt.graph.anchors import AnchorWarning
from kdlgt.registry import load_plugins
from kdlgt_sapd.reference import all_distances, dense_sapd
from kdlgt_sapd.sapd import SAPD, SapdOptions
from kdlgt_sapd.structure import SapdStructure

pytestmark = pytest.mark.plugins
POOLINGS = ["softmin", "mean", "paper"]
Make = Callable[..., Data]


def sapd(pooling: Any = "softmin", *, heads: int = 2, k: int = 1, max_anchors: int = 32, decay: float = 1.0) -> SAPD:
    rpe = SAPD(heads, SapdOptions(k=k, max_anchors=max_anchors, pooling=pooling, initial_decay=decay)).double()
    with torch.no_grad():
        rpe.theta.add_(torch.arange(heads).double() / 3)
    return rpe


def attend(rpe: SAPD, batch: Data, seed: int = 0) -> Tensor:
    """Exact attention on random inputs that belong to the nodes' places within their graphs."""
    nodes = int(batch.num_nodes or 0)
    ids, ptr = graph_ids(batch), graph_ptr(batch)
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(64, 3, rpe.heads, 4, generator=generator, dtype=torch.float64)
    q, k, v = table[torch.arange(nodes) - ptr[ids]].unbind(1)
    return exact_attention(q, k, v, rpe(batch), ptr=ptr)


@pytest.mark.parametrize("order", ["degree", "gain"])
@pytest.mark.parametrize("max_anchors", [1, 2, 32])
@pytest.mark.parametrize("pooling", ["softmin", "paper"])
@pytest.mark.filterwarnings("ignore::kdlgt.graph.anchors.AnchorWarning")
def test_equals_the_reference_with_gradient(zoo: list[Data], pooling: Any, max_anchors: int, order: Any) -> None:
    rpe = SAPD(2, SapdOptions(1, max_anchors, pooling, order, 0.7)).double()
    for data in zoo:
        ready = Prepare(rpe.structures)(data)
        dense, reference = rpe(ready).to_dense(), dense_sapd(rpe, ready)
        torch.testing.assert_close(dense.double(), reference)
        within = torch.isfinite(reference)
        (gradient,) = torch.autograd.grad(dense[within].sum(), rpe.theta)
        (expected,) = torch.autograd.grad(reference[within].sum(), rpe.theta)
        torch.testing.assert_close(gradient, expected)


def test_mean_averages_one_softmax_per_anchor(zoo: list[Data]) -> None:
    rpe = sapd("mean")
    for data in zoo:
        ready = Prepare(rpe.structures)(data)
        generator = torch.Generator().manual_seed(0)
        q, k, v = torch.randn(3, data.num_nodes, 2, 4, generator=generator, dtype=torch.float64)
        distance = all_distances(ready)
        anchors = (read_structure(ready, rpe.structure, "distance") == 0).any(1).nonzero().flatten()
        expected = torch.zeros_like(v)
        for i in range(len(v)):
            own = [int(a) for a in anchors if math.isfinite(distance[i, a])]
            near = torch.isfinite(distance[i])
            for a in own:
                bias = rpe.decay[:, None] * (distance[i, a] + distance[a, near])
                logits = torch.einsum("hd,jhd->hj", q[i], k[near]) / 2 + bias
                expected[i] += torch.einsum("hj,jhd->hd", logits.softmax(-1), v[near]) / len(own)
        torch.testing.assert_close(exact_attention(q, k, v, rpe(ready), ptr=graph_ptr(ready)), expected)
    with pytest.raises(AlgebraError, match="averages softmaxes"):
        dense_sapd(rpe, ready)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_finite_forward_and_backward(zoo: list[Data], pooling: Any) -> None:
    """One node, no edges, components: row 4, 6, 7 of the cases."""
    for data in zoo:
        rpe = sapd(pooling)
        out = attend(rpe, Prepare(rpe.structures)(data))
        out.square().sum().backward()
        assert torch.isfinite(out).all()
        assert rpe.theta.grad is not None
        assert torch.isfinite(rpe.theta.grad).all()


def test_one_node_is_its_own_anchor(make: Make) -> None:
    structure = SapdStructure()
    fields = structure.compute(Graph.from_data(make(1, [])))
    assert fields["distance"][:, 0].tolist() == [0]
    assert (fields["distance"][:, 1:] == -1).all()
    isolated = structure.compute(Graph.from_data(make(6, [])))
    assert isolated["distance"][:, 0].tolist() == [0] * 6
    assert [isolated[name].item() for name in ("slots", "anchors", "radius", "covered")] == [1, 6, 0, 1.0]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("cap", [1, 2, 4])
def test_no_weight_between_components(make: Make, pooling: Any, cap: int) -> None:
    """Values of other components do not move the output, under any cap."""
    rpe = sapd(pooling, max_anchors=cap)
    ready = Prepare(rpe.structures)(make(6, [(0, 1), (1, 2), (4, 5)]))
    own = read_structure(ready, rpe.structure, "distance") == 0
    for nodes in ([0, 1, 2], [3], [4, 5]):
        assert own[nodes].any()
        outside = [node for node in range(6) if node not in nodes]
        q, k, v = torch.randn(3, 6, 2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        v.requires_grad_()
        exact_attention(q, k, v, rpe(ready), ptr=graph_ptr(ready))[nodes].sum().backward()
        assert v.grad is not None
        assert (v.grad[outside] == 0).all()
        assert (v.grad[nodes] != 0).all()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("batch_size", [2, 3, 6])
def test_a_loader_changes_nothing(zoo: list[Data], pooling: Any, batch_size: int) -> None:
    """Graphs with different anchor counts through PyG's own loader equal the graphs alone."""
    rpe = sapd(pooling)
    ready = [Prepare(rpe.structures)(data) for data in zoo]
    assert len({int(read_structure(data, rpe.structure, "slots")) for data in ready}) > 1
    alone = torch.cat([attend(rpe, data) for data in ready])
    together = torch.cat([attend(rpe, batch) for batch in DataLoader(ready, batch_size=batch_size)])
    torch.testing.assert_close(together, alone)


def test_unsorted_batch_is_the_sorted_one_permuted(zoo: list[Data]) -> None:
    rpe = sapd()
    batch = Batch.from_data_list([Prepare(rpe.structures)(data) for data in zoo[3:5]])
    order = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    mixed = Data(num_nodes=15, batch=batch.batch[order])
    for key, value in batch.to_dict().items():
        if key.startswith(rpe.structure.key):
            mixed[key] = value[order] if value.size(0) == 15 else value
    torch.testing.assert_close(rpe(mixed).to_dense(), rpe(batch).to_dense()[:, order][:, :, order])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_relabelled_prepared_data_permutes_the_output(zoo: list[Data], pooling: Any) -> None:
    rpe = sapd(pooling)
    ready = Prepare(rpe.structures)(zoo[3])
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    moved = ready.clone()
    moved.edge_index = torch.argsort(order)[ready.edge_index]
    for name in ("distance", "component"):
        moved[f"{rpe.structure.key}_{name}"] = read_structure(ready, rpe.structure, name)[order]
    a, b = lower(rpe(ready).permute(order)), lower(rpe(moved))
    for mine, other in zip(a.parts, b.parts, strict=True):
        if not isinstance(mine, Mixture):
            assert torch.equal(mine.to_dense(), other.to_dense())
        else:
            assert isinstance(other, Mixture)
            assert torch.equal(mine.column, other.column)
            assert torch.equal(mine.valid, other.valid)


class Paths(InMemoryDataset):  # type: ignore[misc]
    """Paths of 2, 3, 7 nodes, prepared as ``pre_transform`` and cached."""

    def __init__(self, root: pathlib.Path, pre_transform: Prepare) -> None:
        super().__init__(str(root), pre_transform=pre_transform, log=False)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> list[str]:
        return ["paths.pt"]

    def process(self) -> None:
        self.save([self.pre_transform(generate.path(n)) for n in (2, 3, 7)], self.processed_paths[0])


def test_works_as_pre_transform(tmp_path: pathlib.Path) -> None:
    rpe = sapd()
    for dataset in (Paths(tmp_path, Prepare(rpe.structures)), Paths(tmp_path, Prepare(rpe.structures))):
        for data, n in zip(dataset, (2, 3, 7), strict=True):
            assert torch.equal(rpe(data).to_dense(), rpe(Prepare(rpe.structures)(generate.path(n))).to_dense())


@pytest.mark.parametrize("decay", [1.0, 3.0])
def test_long_path_does_not_underflow(decay: float) -> None:
    """Path of 2000, 8 anchors, float32: every row of the kernel has a finite sum, equal to the exact one."""
    rpe = SAPD(1, SapdOptions(k=2, max_anchors=8, initial_decay=decay))
    ready = Prepare(rpe.structures)(generate.path(2_000))
    kernel = lower(rpe(ready)).kernel
    assert kernel is not None
    rows = kernel.log_query_features[:, 0]
    keys = kernel.log_key_features[:, 0].logsumexp(0)
    found = (rows + keys).logsumexp(-1)
    position = torch.arange(2_000, dtype=torch.float64)
    anchors = (read_structure(ready, rpe.structure, "distance") == 0).any(1).nonzero().flatten().double()
    to_anchor = -decay * (position[:, None] - anchors).abs()
    expected = torch.stack([(row + to_anchor).logsumexp(-1).logsumexp(0) for row in to_anchor])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)
    found.sum().backward()
    assert rpe.theta.grad is not None
    assert torch.isfinite(rpe.theta.grad).all()


@pytest.mark.parametrize("decay", [1e-3, 1.0, 5.0, 1000.0])
def test_initial_decay(decay: float) -> None:
    rpe = SAPD(3, SapdOptions(initial_decay=decay))
    torch.testing.assert_close(rpe.decay, torch.full((3,), -decay), rtol=1e-5, atol=0.0)


def test_half_precision_keeps_distances_apart() -> None:
    """Distances beyond 256 are no bfloat16 numbers; the features are float32."""
    rpe = SAPD(1, SapdOptions(k=1, max_anchors=1)).bfloat16()
    kernel = lower(rpe(Prepare(rpe.structures)(generate.path(1_000)))).kernel
    assert kernel is not None
    assert kernel.log_key_features.dtype == torch.float32
    assert kernel.log_key_features.unique().numel() > 400


@pytest.mark.parametrize(("pooling", "width"), [("softmin", 0), ("mean", 0), ("paper", 2)])
def test_factor_width_is_declared(pooling: Any, width: int) -> None:
    rpe = sapd(pooling)
    assert rpe.factor_width == lower(rpe(Prepare(rpe.structures)(generate.path(7)))).factor_width == width


def test_reports_per_graph(zoo: list[Data]) -> None:
    structure = SapdStructure(k=1, max_anchors=1)
    batch = Batch.from_data_list([Prepare([structure])(data) for data in zoo[3:]])
    reports = structure.reports(batch)
    assert [report.anchors for report in reports] == [3, 1, 1]
    assert [report.radius for report in reports] == [1, 3, 6]
    assert [report.covered for report in reports] == pytest.approx([1.0, 4 / 9, 3 / 12])


def test_more_anchors_than_nodes_warns_once() -> None:
    rpe = sapd(max_anchors=16)
    with pytest.warns(AnchorWarning, match="max_anchors = 16") as caught:
        ready = Prepare(rpe.structures)(generate.path(3))
    assert len(caught) == 1
    torch.testing.assert_close(rpe(ready).to_dense(), dense_sapd(rpe, ready))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": -1}, r"k = -1; allowed: an integer >= 1"),
        ({"max_anchors": 0}, r"max_anchors = 0; allowed: an integer >= 1"),
        ({"order": "up"}, r"order = 'up'; allowed: degree, gain"),
        ({"pooling": "max"}, r"pooling = 'max'; allowed: softmin, mean, paper"),
        ({"initial_decay": 0.0}, r"initial_decay = 0.0; allowed: a finite number > 0"),
        ({"initial_decay": math.nan}, r"initial_decay = nan; allowed: a finite number > 0"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        SAPD(2, SapdOptions(**options))
    with pytest.raises(ArgumentError, match="heads = 0"):
        SAPD(0)


def test_unprepared_data_is_an_error() -> None:
    with pytest.raises(NotPreparedError, match=r"slots.*apply kdlgt\.prepare"):
        sapd()(generate.path(3))


def test_is_found_through_its_entry_point() -> None:
    registry = load_plugins()
    spec = registry.rpe_specs["sapd"]
    rpe = registry.rpe("sapd", heads=4, k=3, max_anchors=8)
    assert isinstance(rpe, SAPD)
    assert rpe.structure == SapdStructure(3, 8, "degree")
    assert (spec.kind, spec.equivariance, spec.reference) == ("kernel", "in law", dense_sapd)

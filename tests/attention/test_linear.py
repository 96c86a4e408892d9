"""Linear attention: converges to exact, isolates graphs, stays finite, and never builds an N x N tensor."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import kdlgt.attention.linear as linear_module
from kdlgt.algebra import Additive, Decomposition, Kernel, Lowered, Mixture, Partition
from kdlgt.attention import Layout, exact_attention, linear_attention
from kdlgt.attention.inputs import gather_inputs
from kdlgt.attention.sums import shifted_sums
from kdlgt.errors import ArgumentError, DtypeError
from kdlgt.features import FavorPlus
from kdlgt.testing import LargeTensorError, NoSquare

Make = Callable[..., Any]


def favor(problem: Any, bias: Decomposition | None, features: int, seed: int = 0) -> FavorPlus:
    from kdlgt.algebra import lower

    lowered = lower(bias) if bias is not None else Lowered(num_nodes=problem.nodes)
    return FavorPlus(problem.q.size(2) + lowered.factor_width, features, problem.q.size(1), seed=seed)


def relative_error(problem: Any, bias: Decomposition | None, ptr: Tensor, features: int, seeds: int) -> float:
    exact = exact_attention(problem.q, problem.k, problem.v, bias, ptr=ptr)
    kept = torch.isfinite(exact)
    errors = [
        (
            linear_attention(
                problem.q, problem.k, problem.v, bias, ptr=ptr, features=favor(problem, bias, features, seed)
            )
            - exact
        )[kept]
        for seed in range(seeds)
    ]
    return float(torch.stack(errors).square().mean().sqrt() / exact[kept].square().mean().sqrt())


def test_converges_to_exact_at_the_rate_of_monte_carlo(make_problem: Make, kind: str) -> None:
    """The root mean square error over 8 seeds falls by about 4 when r grows by 16, and is small at r = 4096."""
    problem = make_problem(24, std=0.7)
    bias = problem.bias(kind)
    ptr = torch.tensor([0, 10, 24])
    few, many = (relative_error(problem, bias, ptr, features, seeds=8) for features in (256, 4096))
    assert 2.0 < few / many < 8.0, (few, many)
    assert many < 0.1, many


@pytest.mark.parametrize("joint", [False, True])
def test_gradients(make_problem: Make, joint: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if joint:
        monkeypatch.setattr(linear_module, "SEPARABLE_RANGE", -1.0)
    problem = make_problem(5)
    bias = problem.bias("additive+kernel")
    features = FavorPlus(4, 3, 2).double()
    part = torch.tensor([0, 1, 0, 0, 0])

    def attention(q: Tensor, k: Tensor, v: Tensor, column: Tensor, log_f: Tensor, log_g: Tensor) -> Tensor:
        value = Additive(column, column) + Kernel(log_f, log_g) + Partition(part)
        return linear_attention(q, k, v, value, ptr=torch.tensor([0, 3, 5]), features=features)

    kernel = bias.terms[1]
    tensors = [
        problem.q,
        problem.k,
        problem.v,
        bias.terms[0].column,
        kernel.log_query_features.clamp_min(-4),
        kernel.log_key_features.clamp_min(-4),
    ]
    assert torch.autograd.gradcheck(attention, [tensor.detach().requires_grad_() for tensor in tensors])


def test_gradients_of_the_near_field(make_problem: Make) -> None:
    problem = make_problem(7)
    bias = problem.bias("sparse")
    features = FavorPlus(4, 5, 2).double()

    def attention(q: Tensor, k: Tensor, v: Tensor, values: Tensor) -> Tensor:
        import attrs

        return linear_attention(q, k, v, attrs.evolve(bias, values=values), features=features)

    tensors = [problem.q, problem.k, problem.v, bias.values]
    assert torch.autograd.gradcheck(attention, [tensor.detach().requires_grad_() for tensor in tensors])


def test_a_mixture_is_the_average_of_its_components(make_problem: Make) -> None:
    problem = make_problem(12)
    column = problem.draw(12, 2, 3)
    column[:4, :, 2] = -torch.inf
    valid = torch.ones(12, 3, dtype=torch.bool)
    features = FavorPlus(4, 16, 2)
    actual = linear_attention(problem.q, problem.k, problem.v, Mixture(column, valid), features=features)
    parts = [
        linear_attention(problem.q, problem.k, problem.v, Additive(column[..., m], column[..., m]), features=features)
        for m in range(3)
    ]
    torch.testing.assert_close(actual, torch.stack(parts).mean(0))


# -- isolation (CASES 1, 2, 3) -----------------------------------------------------------------------------------------


def select(bias: Decomposition | None, nodes: slice) -> Decomposition | None:
    return None if bias is None else bias.permute(torch.arange(nodes.start, nodes.stop))


@pytest.mark.parametrize("kind", ["none", "multiplicative", "additive", "kernel", "partition", "kernel+multiplicative"])
@pytest.mark.parametrize("std", [0.5, 2.0])
def test_a_graph_alone_equals_the_graph_in_a_batch(make_problem: Make, kind: str, std: float) -> None:
    problem = make_problem(305, std=std, dtype=torch.float32)
    bias = problem.bias(kind)
    features = favor(problem, bias, 32)
    small = slice(0, 5)
    both = linear_attention(problem.q, problem.k, problem.v, bias, ptr=torch.tensor([0, 5, 305]), features=features)
    alone = linear_attention(
        problem.q[small], problem.k[small], problem.v[small], select(bias, small), features=features
    )
    torch.testing.assert_close(both[small], alone, rtol=1e-5, atol=1e-5)


def test_another_graphs_features_move_neither_output_nor_gradient(make_problem: Make) -> None:
    problem = make_problem(50, dtype=torch.float32)
    ptr = torch.tensor([0, 20, 50])
    bias = problem.bias("kernel+additive")
    features = favor(problem, bias, 16)

    def run(scale: float) -> tuple[Tensor, Tensor]:
        q, k, v = (
            torch.cat([side[:20], scale * side[20:]]).requires_grad_() for side in (problem.q, problem.k, problem.v)
        )
        output = linear_attention(q, k, v, bias, ptr=ptr, features=features)[:20]
        (gradient,) = torch.autograd.grad(output.square().sum(), k)
        return output, gradient

    (first, first_gradient), (second, second_gradient) = run(1.0), run(9.0)
    torch.testing.assert_close(first, second, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(first_gradient, second_gradient, rtol=1e-6, atol=1e-6)
    assert bool((first_gradient[20:] == 0).all())


def test_cost_follows_the_sum_of_sizes() -> None:
    """Sizes 1, 2 and 5000 in one batch are laid out in little more than 5003 rows."""
    segment = torch.repeat_interleave(torch.tensor([1, 2, 5000]))
    layout = Layout.of(segment, 5003)
    assert layout.num_blocks * layout.block < 1.25 * 5003


def test_graphs_of_similar_sizes_are_one_block_each() -> None:
    sizes = torch.tensor([10, 28, 19, 25])
    layout = Layout.of(torch.repeat_interleave(sizes), int(sizes.sum()))
    assert layout.whole
    assert (layout.num_blocks, layout.block) == (4, 28)


@pytest.mark.parametrize("kind", ["none", "additive", "kernel", "kernel+multiplicative"])
def test_whole_blocks_equal_cut_ones(make_problem: Make, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shorter way through graphs of similar sizes gives the value and the gradients of the longer one."""
    problem = make_problem(60)
    bias = problem.bias(kind)
    features = favor(problem, bias, 16)
    ptr = torch.tensor([0, 17, 40, 60])

    def run() -> tuple[Tensor, ...]:
        q, k, v = (side.clone().requires_grad_() for side in (problem.q, problem.k, problem.v))
        output = linear_attention(q, k, v, bias, ptr=ptr, features=features)
        return output, *torch.autograd.grad(output.square().sum(), (q, k, v))

    whole = run()
    monkeypatch.setattr("kdlgt.attention.layout._PADDING", 0.0)
    assert not Layout.of(torch.repeat_interleave(ptr.diff()), 60).whole
    torch.testing.assert_close(whole, run())


# -- extreme inputs (CASES 10, 11, 12, 14, 26) -------------------------------------------------------------------------


@pytest.mark.parametrize("std", [0.25, 0.5, 1.0, 2.0, 8.0, 64.0])
@pytest.mark.parametrize("features", [16, 64, 256])
def test_finite_at_every_logit_scale(std: float, features: int) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(200, 2, 16, generator=generator) for _ in range(3))
    q, k = (side.mul(std).requires_grad_() for side in (q, k))
    output = linear_attention(q, k, v, features=FavorPlus(16, features, 2), ptr=torch.tensor([0, 3, 200]))
    output.square().sum().backward()
    assert q.grad is not None
    assert k.grad is not None
    for tensor in (output, q.grad, k.grad):
        assert bool(torch.isfinite(tensor).all())
    assert bool((output.abs() <= v.abs().max() + 1e-4).all()), "an average of values"


@pytest.mark.parametrize("std", [0.25, 2.0, 64.0])
def test_denominators_are_at_least_one(std: float) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(100, 2, 16, generator=generator) * std for _ in range(3))
    inputs = gather_inputs(q, k, v, None, torch.tensor([0, 40, 100]), None)
    layout = Layout.of(inputs.segment, 100)
    sums, _ = shifted_sums(linear_module._blocks(inputs, layout), FavorPlus(16, 32, 2), layout)
    assert float(layout.to_nodes(sums)[..., -1].min()) >= 1.0


def test_tiny_key_weights_equal_exact_attention() -> None:
    """Far nodes, c = -10 and distance 100: weights down to exp(-1000) are no 0/0."""
    nodes = 101
    column = -10.0 * torch.arange(nodes, dtype=torch.float32)[:, None]
    bias = Additive(torch.zeros(nodes, 1), column.flip(0))
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(nodes, 2, 3, generator=generator)
    q = torch.zeros(nodes, 2, 4)
    for part in (torch.zeros(nodes, dtype=torch.long), torch.arange(nodes) // 7):
        value = bias + Partition(part)
        torch.testing.assert_close(
            linear_attention(q, q, v, value), exact_attention(q, q, v, value), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("decay", [-1.0, -3.0])
@pytest.mark.parametrize("cancel", [False, True])
def test_a_path_of_2000_nodes_has_no_zero_by_zero(decay: float, cancel: bool) -> None:
    """8 anchors on a path: row sums equal the kernel's own to rounding, also when key weights cancel the decay."""
    nodes, anchors = 2000, torch.arange(8) * 250 + 125
    distance = (torch.arange(nodes)[:, None] - anchors[None]).abs().float()
    log = (decay * distance)[:, None, :]
    column = -decay * distance.amin(1, keepdim=True) if cancel else torch.zeros(nodes, 1)
    bias = Kernel(log, log) + Additive(torch.zeros(nodes, 1), column)
    q = torch.zeros(nodes, 1, 4)
    v = torch.randn(nodes, 1, 3, generator=torch.Generator().manual_seed(0))
    weights = (log[:, 0, None, :].double() + log[None, :, 0].double()).logsumexp(-1) + column[:, 0].double()
    expected = weights.softmax(1) @ v[:, 0].double()
    actual = linear_attention(q, q, v, bias, features=FavorPlus(4, 8))
    torch.testing.assert_close(actual[:, 0].double(), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_accumulates_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(4096, 2, 16, generator=generator) * 0.5 for _ in range(3))
    features = FavorPlus(16, 64, 2)
    half = linear_attention(q.to(dtype), k.to(dtype), v.to(dtype), features=features)
    assert half.dtype == dtype
    torch.testing.assert_close(half.float(), linear_attention(q, k, v, features=features), rtol=2e-2, atol=2e-2)


def test_mixed_float64_and_float32_is_a_dtype_error(make_problem: Make) -> None:
    problem = make_problem(4)
    with pytest.raises(DtypeError, match=r"q torch.float32, k torch.float64"):
        linear_attention(problem.q.float(), problem.k, problem.v)
    with pytest.raises(DtypeError, match=r"bias torch.float32"):
        linear_attention(problem.q, problem.k, problem.v, Additive(torch.zeros(4, 1), torch.zeros(4, 1)))


@pytest.mark.parametrize("features", [1, 3, 4, 40])
def test_any_number_of_features_works(make_problem: Make, features: int) -> None:
    problem = make_problem(6)
    output = linear_attention(problem.q, problem.k, problem.v, features=FavorPlus(4, features, 2))
    assert bool(torch.isfinite(output).all())


def test_arguments_out_of_range_are_refused(make_problem: Make) -> None:
    problem = make_problem(6)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: FavorPlus(4, 0), "num_features = 0"),
        (lambda: FavorPlus(4, 8, 0), "heads = 0"),
        (lambda: FavorPlus(0, 8), "dim = 0"),
        (lambda: linear_attention(problem.q, problem.k[:3], problem.v), "expected q and k"),
        (lambda: linear_attention(problem.q[0], problem.k[0], problem.v[0]), "expected q and k"),
        (lambda: linear_attention(problem.q, problem.k, problem.v, ptr=torch.tensor([0, 4])), "number of nodes 6"),
        (lambda: linear_attention(problem.q, problem.k, problem.v, ptr=torch.tensor([0, 4, 2, 6])), "increasing"),
        (lambda: linear_attention(problem.q, problem.k, problem.v, features=FavorPlus(5, 8, 2)), "dim=5"),
        (lambda: linear_attention(problem.q, problem.k, problem.v, make_problem(5).bias("additive")), "5 nodes"),
    ]
    for build, message in cases:
        with pytest.raises(ArgumentError, match=message):
            build()


# -- state (CASES 15, 27) ----------------------------------------------------------------------------------------------


def test_projections_are_saved_buffers_from_their_own_generator() -> None:
    state = torch.get_rng_state()
    first, second = FavorPlus(4, 8, 2, seed=3), FavorPlus(4, 8, 2, seed=4)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(first.projection, second.projection)
    second.load_state_dict(first.state_dict())
    for other in (second, copy.deepcopy(first), FavorPlus(4, 8, 2, seed=3)):
        assert torch.equal(other.projection, first.projection)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_rows_are_uniform_in_direction(orthogonal: bool) -> None:
    """Each row's mean is zero and its covariance the identity: QR alone would fix the sign of an entry and bias phi."""
    drawn = FavorPlus(4, 4, 20_000, orthogonal=orthogonal).projection
    assert float(drawn.mean(0).abs().max()) < 0.04
    covariance = torch.einsum("hri,hrj->rij", drawn, drawn) / drawn.size(0)
    assert float((covariance - torch.eye(4)).abs().max()) < 0.06


def test_orthogonal_rows_keep_gaussian_norms() -> None:
    drawn = FavorPlus(16, 16, 400).projection
    gram = drawn @ drawn.transpose(1, 2)
    off_diagonal = gram - torch.diag_embed(gram.diagonal(dim1=1, dim2=2))
    assert float(off_diagonal.abs().max()) < 1e-4
    norms = gram.diagonal(dim1=1, dim2=2)
    assert abs(float(norms.mean()) - 16) < 0.3
    assert abs(float(norms.var()) - 32) < 3, "squared norms are chi-squared with D degrees of freedom"


def test_activation_checkpointing_leaves_the_gradient_alone(make_problem: Make) -> None:
    problem = make_problem(30)
    bias = problem.bias("kernel+additive")
    features = favor(problem, bias, 16)

    def run(q: Tensor) -> Tensor:
        return linear_attention(q, problem.k, problem.v, bias, features=features)

    gradients = []
    for recompute in (False, True):
        q = problem.q.clone().requires_grad_()
        output = checkpoint(run, q, use_reentrant=False) if recompute else run(q)
        gradients.append(torch.autograd.grad(output.square().sum(), q)[0])
    assert torch.equal(*gradients)


# -- no N x N (CASES 19) -----------------------------------------------------------------------------------------------


def test_no_tensor_with_n_squared_elements(make_problem: Make, kind: str) -> None:
    problem = make_problem(3000, dtype=torch.float32)
    bias = problem.bias(kind)
    q = problem.q.clone().requires_grad_()
    features = favor(problem, bias, 16)
    with NoSquare(3000) as guard:
        linear_attention(q, problem.k, problem.v, bias, features=features).sum().backward()
    assert guard.largest >= 3000 * 16


def test_the_guard_sees_exact_attention(make_problem: Make) -> None:
    problem = make_problem(300, dtype=torch.float32)
    with pytest.raises(LargeTensorError, match="made a tensor"), NoSquare(300):
        exact_attention(problem.q, problem.k, problem.v, implementation="dense")


def test_khatri_rao_products_are_never_built() -> None:
    """With K = 64 and r = 64, no tensor comes near the N K r elements of the product."""
    nodes, width = 20_000, 64
    generator = torch.Generator().manual_seed(0)
    log = torch.randn(nodes, 1, width, generator=generator)
    q = torch.randn(nodes, 1, 8, generator=generator).requires_grad_()
    with NoSquare(nodes, limit=nodes * width * 64 // 4) as guard:
        linear_attention(q, q, q, Kernel(log, log), features=FavorPlus(8, 64)).sum().backward()
    assert guard.largest > 0


def test_runs_on_every_device(make_problem: Make, device: torch.device, kind: str) -> None:
    problem = make_problem(20, dtype=torch.float32)
    bias = problem.bias(kind)
    features = favor(problem, bias, 16)
    expected = linear_attention(problem.q, problem.k, problem.v, bias, features=features)
    moved = bias.to(device) if bias is not None else None
    actual = linear_attention(
        problem.q.to(device),
        problem.k.to(device),
        problem.v.to(device),
        moved,
        features=copy.deepcopy(features).to(device),
    )
    assert actual.device.type == device.type
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_two_hundred_thousand_nodes_with_sixteen_anchors() -> None:
    """N = 200,000, K = 16, r = 64: forward and backward, the largest tensor linear in N."""
    nodes = 200_000
    generator = torch.Generator().manual_seed(0)
    log = -torch.randint(1, 12, (nodes, 1, 16), generator=generator).float()
    q = torch.randn(nodes, 1, 8, generator=generator).requires_grad_()
    with NoSquare(nodes) as guard:
        output = linear_attention(q, q, q, Kernel(log, log), features=FavorPlus(8, 64))
        output.sum().backward()
    assert bool(torch.isfinite(output).all())
    assert guard.largest <= nodes * 17


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_kernel_column_that_no_key_has_adds_nothing(dtype: torch.dtype) -> None:
    """The query's weight on such a column may be as large as it likes: the column is empty."""
    inf = math.inf
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 1, 4, generator=generator, dtype=dtype).requires_grad_() for _ in range(3))
    query = torch.tensor([[-900.0, 0.0], [0.0, 0.0]], dtype=dtype)[:, None].requires_grad_()
    key = torch.tensor([[0.0, -inf], [-900.0, -inf]], dtype=dtype)[:, None]
    bias = Kernel(query, key)
    features = FavorPlus(4, 256, 1).to(dtype)
    linear, exact = linear_attention(q, k, v, bias, features=features), exact_attention(q, k, v, bias)
    torch.testing.assert_close(linear, exact, rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(linear.square().sum(), (q, k, v, query))
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)

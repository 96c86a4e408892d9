"""Variance reduction: the answer stays, the error falls, and buffers move between steps only."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kdlgt.attention import exact_attention, linear_attention
from kdlgt.features import Conditioned, FavorPlus, FavorPlusPlus, FeatureMap
from kdlgt.features.conditioned import balance_matrix

HEADS, DIM = 2, 6


def inputs(nodes: int = 120, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys with means and unequal scales: what balancing is for."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.linspace(0.3, 2.0, DIM, dtype=dtype)
    q, k, v = (torch.randn(nodes, HEADS, DIM, dtype=dtype, generator=generator) for _ in range(3))
    return q * scale + 0.8, k / scale - 0.5, v


def fitted(features: Conditioned, q: Tensor, k: Tensor, v: Tensor) -> Conditioned:
    features.train()
    linear_attention(q, k, v, features=features)
    features.after_optimizer_step()
    return features.eval()


def total_variation(features: FeatureMap, q: Tensor, k: Tensor) -> float:
    identity = torch.eye(q.size(0), dtype=q.dtype)[:, None, :].expand(-1, HEADS, -1)
    exact = exact_attention(q, k, identity)
    return float((linear_attention(q, k, identity, features=features) - exact).abs().sum(-1).mean() / 2)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("balance", [False, True])
def test_the_softmax_does_not_see_it(centre: bool, balance: bool) -> None:
    """Logits change by a constant per row: exact attention of conditioned inputs equals that of the originals."""
    q, k, v = inputs()
    features = fitted(Conditioned(FavorPlus(DIM, 8, HEADS).double(), centre=centre, balance=balance).double(), q, k, v)
    query, key, weight = features.precondition(q.transpose(0, 1), k.transpose(0, 1), None)
    logits = query @ key.transpose(1, 2) + (0 if weight is None else weight[:, None, :])
    plain = q.transpose(0, 1) @ k.transpose(0, 1).transpose(1, 2)
    torch.testing.assert_close(logits.softmax(-1), plain.softmax(-1))


def test_the_error_falls() -> None:
    q, k, v = inputs()
    plain, conditioned = (
        sum(total_variation(make(seed), q, k) for seed in range(6))
        for make in (
            lambda seed: FavorPlus(DIM, 32, HEADS, seed=seed).double(),
            lambda seed: fitted(Conditioned(FavorPlus(DIM, 32, HEADS, seed=seed).double()).double(), q, k, v),
        )
    )
    assert conditioned < 0.8 * plain


def test_balance_is_the_best_matrix() -> None:
    """No M near it has a smaller ``tr(M Sq M) + tr(M^-1 Sk M^-1)``."""
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(2, 1, DIM, DIM, dtype=torch.float64, generator=generator)
    query, key = factors @ factors.transpose(-1, -2)

    def cost(matrix: Tensor) -> float:
        inverse = torch.linalg.inv(matrix)
        return float((matrix @ query @ matrix + inverse @ key @ inverse).diagonal(dim1=1, dim2=2).sum())

    best = balance_matrix(query, key)
    for _ in range(20):
        change = 0.02 * torch.randn(DIM, DIM, dtype=torch.float64, generator=generator)
        assert cost(best + change + change.T) > cost(best)


def test_zero_columns_do_not_make_it_singular() -> None:
    moment = torch.diag(torch.tensor([1.0, 2.0, 0.0, 0.0], dtype=torch.float64))[None]
    matrix = balance_matrix(moment, moment)
    assert bool(torch.isfinite(torch.linalg.inv(matrix)).all())


def test_buffers_move_between_steps_only() -> None:
    q, k, v = inputs()
    features = Conditioned(FavorPlus(DIM, 8, HEADS).double()).double().train()
    first = linear_attention(q, k, v, features=features)
    assert torch.equal(linear_attention(q, k, v, features=features), first), "a forward does not read its own moments"
    features.after_optimizer_step()
    assert not torch.equal(linear_attention(q, k, v, features=features), first)
    committed = copy.deepcopy(features.state_dict())
    features.eval()
    linear_attention(q, k, v, features=features)
    features.pending.zero_()
    features.after_optimizer_step()
    assert torch.equal(features.balance_matrix, committed["balance_matrix"]), "nothing pending, nothing committed"


def test_another_graph_does_not_move_this_one_in_training() -> None:
    q, k, v = inputs()
    features = fitted(Conditioned(FavorPlus(DIM, 8, HEADS).double()).double(), q, k, v).train()
    ptr = torch.tensor([0, 50, 120])
    outputs = []
    for scale in (1.0, 5.0):
        changed_q, changed_k, changed_v = (torch.cat([side[:50], scale * side[50:]]) for side in (q, k, v))
        outputs.append(linear_attention(changed_q, changed_k, changed_v, ptr=ptr, features=features)[:50])
    assert torch.equal(*outputs)


def test_activation_checkpointing_gives_the_same_gradient() -> None:
    q, k, v = inputs()
    gradients = []
    for recompute in (False, True):
        features = fitted(Conditioned(FavorPlus(DIM, 8, HEADS).double()).double(), q, k, v).train()
        x = q.clone().requires_grad_()

        def run(x: Tensor, features: Conditioned = features) -> Tensor:
            return linear_attention(x, k, v, features=features)

        output = checkpoint(run, x, use_reentrant=False) if recompute else run(x)
        gradients.append(torch.autograd.grad(output.square().sum(), x)[0])
    assert torch.equal(*gradients)


def test_state_with_pending_moments_goes_through_a_state_dict() -> None:
    q, k, v = inputs()
    features = fitted(Conditioned(FavorPlus(DIM, 8, HEADS).double()).double(), q, k, v).train()
    linear_attention(k, q, v, features=features)
    other = Conditioned(FavorPlus(DIM, 8, HEADS, seed=9).double()).double()
    other.load_state_dict(features.state_dict())
    for each in (features, other):
        each.after_optimizer_step()
        each.eval()
    assert torch.equal(linear_attention(q, k, v, features=other), linear_attention(q, k, v, features=features))


def test_moments_are_weighted_by_the_key_weights() -> None:
    """Keys that weigh exp(-30) do not pull the mean."""
    q, k, _ = (side.transpose(0, 1) for side in inputs())
    heavy = torch.zeros(1, 120, dtype=torch.float64)
    heavy[:, 60:] = -30.0
    features = Conditioned(FavorPlus(DIM, 8, HEADS).double()).double().train()
    features.precondition(q, k, heavy)
    features.after_optimizer_step()
    torch.testing.assert_close(features.key_mean, k[:, :60].mean(1, keepdim=True), rtol=1e-6, atol=1e-6)


def test_it_tunes_favor_plus_plus() -> None:
    q, k, v = inputs()
    inner = FavorPlusPlus(DIM, 8, HEADS).double()
    start = inner.constant.clone()
    fitted(Conditioned(inner).double(), q, k, v)
    assert not torch.equal(inner.constant, start)
    assert bool((inner.constant < 1 / 8).all())

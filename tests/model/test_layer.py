"""A layer's parts and its arguments."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kdlgt.errors import ArgumentError
from kdlgt.model import LocalBranch, TransformerLayer, make_norm


def test_branches_and_feed_forward_are_residual() -> None:
    layer = TransformerLayer(8, None, LocalBranch("GCN", 8), feed_forward=16)
    x, edges = torch.randn(4, 8), torch.tensor([[0, 1], [1, 0]])
    assert layer.local is not None
    assert layer.feed_forward is not None
    middle = x + layer.local(layer.norm(x), edges)
    torch.testing.assert_close(layer(x, (), edges), middle + layer.feed_forward(middle))


def test_no_feed_forward() -> None:
    layer = TransformerLayer(8, None, LocalBranch("GCN", 8), feed_forward=0)
    assert layer.feed_forward is None
    assert layer(torch.randn(4, 8), (), torch.tensor([[0], [1]])).shape == (4, 8)


def test_a_layer_without_branches_is_refused() -> None:
    with pytest.raises(ArgumentError, match="neither attention nor a local branch"):
        TransformerLayer(8, None, None, feed_forward=16)
    with pytest.raises(ArgumentError, match="feed_forward = -1"):
        TransformerLayer(8, None, LocalBranch("GCN", 8), feed_forward=-1)


@pytest.mark.parametrize(
    ("kind", "expected"), [("layer", nn.LayerNorm), ("rms", nn.RMSNorm), ("batch", nn.BatchNorm1d)]
)
def test_norms(kind: str, expected: type[nn.Module]) -> None:
    assert isinstance(make_norm(kind, 8), expected)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="norm = 'group'; allowed: 'layer', 'rms', 'batch'"):
        make_norm("group", 8)  # type: ignore[arg-type]

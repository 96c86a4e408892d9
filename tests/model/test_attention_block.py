"""The attention block: heads, normalised logits, and its arguments."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError
from kdlgt.features import FavorPlus
from kdlgt.model import AttentionBlock, head_width, plan_segments


def test_exact_block_is_softmax_attention() -> None:
    torch.manual_seed(0)
    block, x = AttentionBlock(8, 2, FavorPlus(4, 16, 2)), torch.randn(6, 8)
    segments = plan_segments(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=6), "exact")
    q, k, v = (side.transpose(0, 1) for side in block.project(x))
    expected = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(4), -1) @ v
    torch.testing.assert_close(block(x, segments), block.out(expected.transpose(0, 1).flatten(1)))


def test_fused_and_dense_agree() -> None:
    torch.manual_seed(0)
    block, x = AttentionBlock(8, 2, FavorPlus(4, 16, 2)), torch.randn(6, 8)
    segments = plan_segments(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=6), "exact")
    fused = block(x, segments)
    block.implementation = "dense"
    torch.testing.assert_close(block(x, segments), fused)


def test_normalised_logits_are_temperature_times_cosine() -> None:
    torch.manual_seed(0)
    block, x = AttentionBlock(8, 2, FavorPlus(4, 16, 2), normalise=True), 100 * torch.randn(6, 8)
    assert block.log_temperature is not None
    block.log_temperature.data = torch.tensor([3.0, 0.5]).log()
    assert block.scale == 1.0
    q, k, _ = block.project(x)
    logits = torch.einsum("ihd,jhd->hij", q, k)
    raw_q, raw_k, _ = block.projection(x).unflatten(-1, (3, 2, 4)).unbind(1)
    cosine = torch.cosine_similarity(raw_q[:, None], raw_k[None], dim=-1).permute(2, 0, 1)
    torch.testing.assert_close(logits, cosine * torch.tensor([3.0, 0.5])[:, None, None])


@pytest.mark.parametrize(
    ("hidden", "heads", "message"),
    [
        (10, 4, "hidden = 10 is not a multiple of heads = 4; the nearest multiples are 8 and 12"),
        (2, 4, "hidden = 2 is not a multiple of heads = 4"),
        (8, 0, "heads = 0; allowed: an integer >= 1"),
        (0, 1, "hidden = 0; allowed: an integer >= 1"),
    ],
)
def test_sizes_that_do_not_fit(hidden: int, heads: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        head_width(hidden, heads)


def test_feature_map_of_another_width() -> None:
    with pytest.raises(ArgumentError, match="dim = 3; heads of this block are 4 wide"):
        AttentionBlock(8, 2, FavorPlus(3, 16, 2))

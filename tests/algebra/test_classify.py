"""Classification of given matrices (paper section 4.2)."""

from __future__ import annotations

import pytest
import torch

from kdlgt.algebra import decompose
from kdlgt.errors import ArgumentError


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_additive() -> None:
    matrix = randn(2, 9, 1) + randn(2, 1, 9, seed=1)
    found = decompose(matrix)
    assert (found.kind, found.rank) == ("additive", 2)
    assert found.value is not None
    torch.testing.assert_close(found.value.to_dense(), matrix)


@pytest.mark.parametrize("rank", [1, 3])
def test_multiplicative_with_its_rank(rank: int) -> None:
    matrix = randn(12, rank) @ randn(rank, 12, seed=1)
    found = decompose(matrix)
    assert (found.kind, found.rank) == ("multiplicative", rank)
    assert found.value is not None
    torch.testing.assert_close(found.value.to_dense()[0], matrix)


def test_full_rank_is_ineffective() -> None:
    found = decompose(randn(8, 8))
    assert (found.kind, found.rank, found.value) == ("ineffective", 8, None)


def test_zero_is_additive_and_noise_below_the_tolerance_does_not_count() -> None:
    assert decompose(torch.zeros(4, 4)).kind == "additive"
    noisy = randn(10, 1) @ randn(1, 10, seed=1) + 1e-9 * randn(10, 10, seed=2)
    assert decompose(noisy, tolerance=1e-6).rank == 1
    assert decompose(noisy, tolerance=1e-12).kind == "ineffective"


@pytest.mark.parametrize("bad", [torch.zeros(3, 4), torch.full((3, 3), torch.nan), torch.zeros(3)])
def test_bad_matrices_are_refused(bad: torch.Tensor) -> None:
    with pytest.raises(ArgumentError):
        decompose(bad)

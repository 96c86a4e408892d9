"""Lemma 1."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kdlgt.experiments.reproduce import lemma1
from kdlgt.registry import load_plugins

SETTINGS = lemma1.Settings(nodes=8, dim=4, features=(64,), scales=(0.3, 1.0, 3.0), draws=64)


def test_c_is_the_largest_relative_error_of_an_entry() -> None:
    point = lemma1.measure(SETTINGS, 64, 0.3, 0, load_plugins())
    import torch

    generator = torch.Generator().manual_seed(0)
    q, k = (0.3 * torch.randn(8, 1, 4, generator=generator).double() for _ in range(2))
    square = (q + k.transpose(0, 1)).square().sum(-1).max() / math.sqrt(4)
    assert point.c == pytest.approx(math.sqrt((math.exp(square) - 1) / 64))


def test_means_lie_within_the_bound_and_large_logits_break_the_assumption(request_of: Any) -> None:
    outcome = lemma1.run(request_of("lemma1"), SETTINGS)
    rows: Any = outcome.tables[0].records
    assert [row["within"] for row in rows] == ["yes", "c >= 1", "c >= 1"]
    assert rows[0]["lowest mean P'/P"] < 1 < rows[0]["highest mean P'/P"]
    verdicts = {claim.key: claim.verdict for claim in outcome.claims}
    assert verdicts == {"lemma1.bound": "holds", "lemma1.assumption": "does not hold"}


def test_a_bound_that_is_too_tight_is_seen() -> None:
    import torch

    mean = torch.tensor([[1.5]])
    assert lemma1._inside(mean, torch.tensor([[0.0]]), 0.3)
    assert not lemma1._inside(mean, torch.tensor([[0.0]]), 0.1)


def test_without_a_setting_below_one_nothing_is_tested(request_of: Any) -> None:
    outcome = lemma1.run(request_of("lemma1"), lemma1.Settings(nodes=4, dim=4, features=(8,), scales=(3.0,), draws=8))
    assert [claim.verdict for claim in outcome.claims] == ["not tested", "not tested"]

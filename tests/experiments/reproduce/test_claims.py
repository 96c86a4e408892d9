"""Verdicts."""

from __future__ import annotations

import math

import pytest

from kdlgt.errors import UnknownNameError
from kdlgt.experiments.reproduce.claims import CLAIMS, Claim, judge, lemma_factor


@pytest.mark.parametrize(("holds", "verdict"), [(True, "holds"), (False, "does not hold"), (None, "not tested")])
def test_verdicts(holds: bool | None, verdict: str) -> None:
    claim = judge("lemma1.bound", holds, "a figure")
    assert claim.to_dict() == {
        "key": "lemma1.bound",
        "claim": CLAIMS["lemma1.bound"],
        "verdict": verdict,
        "measured": "a figure",
    }


def test_an_unknown_claim_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'lemma1.bound'"):
        Claim(key="lemma1.bund", verdict="holds", measured="")


def test_the_factors_that_the_paper_prints() -> None:
    assert lemma_factor(0.1) == pytest.approx(1.22, abs=0.005)
    assert lemma_factor(0.3) == pytest.approx(1.86, abs=0.005)
    assert lemma_factor(0.0) == 1
    assert math.isinf(lemma_factor(1.0))
    assert math.isinf(lemma_factor(7.0))

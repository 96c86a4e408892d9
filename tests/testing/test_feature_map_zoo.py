"""A sound feature map, and broken ones: each is caught by exactly its own check."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
from torch import Tensor

from kdlgt.features import FavorPlus, FeatureMap, LogFeatures, Side
from kdlgt.registry import FeatureMapSpec
from kdlgt.testing import check_feature_map
from kdlgt.testing.feature_map import CHECKS


@attrs.frozen(kw_only=True)
class Options:
    num_features: int = 8


class Biased(FavorPlus):
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return LogFeatures(super().forward(x, side).log + 0.05)


class Overflows(FavorPlus):
    """Leaves the logs too early."""

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return LogFeatures(super().forward(x, side).log.exp().log())


class CentresByTheBatch(FavorPlus):
    estimates_softmax = False

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return super().forward(x - x.mean(1, keepdim=True), side)


class Negative(FavorPlus):
    estimates_softmax = False

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        log = super().forward(x, side).log
        return LogFeatures(log, torch.where(x[..., :1] > 0, 1.0, -1.0).expand_as(log).to(log))


class PromisesTooMuch(FavorPlus):
    estimates_softmax = True


class ChangesTheSoftmax(FavorPlus):
    def precondition(self, query: Tensor, key: Tensor, key_log_weight: Tensor | None) -> Any:
        return query, 1.5 * key, key_log_weight


class Quadratic(FavorPlus):
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        scores = x @ x.transpose(1, 2)
        return super().forward(x + 0.0 * scores.sum(-1, keepdim=True), side)


class WrongCount(FavorPlus):
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return LogFeatures(super().forward(x, side).log[..., 1:])


class WrongGradient(FavorPlus):
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return super().forward(2 * x - x.detach(), side)


class AlwaysDouble(FavorPlus):
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return LogFeatures(super().forward(x, side).log.double())


class NotSaved(FavorPlus):
    """Redraws something that no buffer holds."""

    factor = 1.0

    def redraw(self, seed: int) -> None:
        super().redraw(seed)
        self.factor = 1.0 + seed % 8 / 20

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        return super().forward(x * self.factor if side == "query" else x / self.factor, side)


class DrawsAnew(FavorPlus):
    """Draws without a seed."""

    def __init__(self, dim: int, num_features: int, heads: int = 1) -> None:
        super().__init__(dim, num_features, heads, seed=torch.Generator().seed() % 2**31)


class DrawsGlobally(FavorPlus):
    def redraw(self, seed: int) -> None:
        torch.rand(1)
        super().redraw(seed)


class Mutates(FavorPlus):
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        features = super().forward(x.clone(), side)
        if not x.requires_grad:
            x.mul_(2.0)
        return features


def _drift(value: int) -> int:
    return value + 1


@attrs.frozen(kw_only=True)
class DriftingOptions:
    num_features: int = attrs.field(default=8, converter=_drift)


OTHER_KERNEL = {"estimates_softmax": False}
ZOO: dict[str, tuple[type[FeatureMap], dict[str, Any], str]] = {
    "wrong number of features": (WrongCount, {}, "works"),
    "no summary": (FavorPlus, {"summary": ""}, "works"),
    "claims to be positive": (Negative, OTHER_KERNEL, "tags"),
    "claims to estimate the softmax": (PromisesTooMuch, OTHER_KERNEL, "tags"),
    "leaves the logs": (Overflows, {}, "finite"),
    "biased": (Biased, {}, "kernel"),
    "changes the softmax": (ChangesTheSoftmax, {}, "precondition"),
    "leaks between nodes": (CentresByTheBatch, OTHER_KERNEL, "isolation"),
    "N x N tensor": (Quadratic, {}, "memory"),
    "wrong gradient": (WrongGradient, {}, "gradcheck"),
    "one dtype for all": (AlwaysDouble, {}, "dtype"),
    "not saved": (NotSaved, {}, "saving"),
    "not deterministic": (DrawsAnew, {}, "determinism"),
    "draws from torch's global state": (DrawsGlobally, {}, "random state"),
    "mutates its input": (Mutates, {}, "inputs"),
    "options that do not come back": (FavorPlus, {"options": DriftingOptions}, "config"),
}


def failures(cls: type[FeatureMap], claims: dict[str, Any]) -> dict[str, str]:
    declared: dict[str, Any] = {
        "name": "specimen",
        "factory": lambda dim, heads, options: cls(dim, options.num_features, heads),  # type: ignore[call-arg]
        "options": Options,
        "summary": "a specimen of the zoo",
    }
    results = check_feature_map(FeatureMapSpec(**(declared | claims)))
    return {result.check: result.reason for result in results if result.status == "failed"}


def test_the_sound_pass() -> None:
    assert failures(FavorPlus, {}) == {}


@pytest.mark.parametrize("specimen", ZOO)
def test_each_fault_is_caught_by_its_own_check_alone(specimen: str) -> None:
    cls, claims, check = ZOO[specimen]
    found = failures(cls, claims)
    assert set(found) == {check}, found


def test_every_check_has_a_specimen() -> None:
    assert {check for _, _, check in ZOO.values()} == set(CHECKS)

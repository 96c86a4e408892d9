"""A registry of plain components, so that configs are tested without any plugin of the real world."""

from __future__ import annotations

import pathlib
from typing import Any, Literal

import attrs
import pytest

from kdlgt.registry import AbsoluteSpec, DatasetSpec, FeatureMapSpec, Registry, RPESpec, hookimpl


@attrs.frozen(kw_only=True)
class SAPDOptions:
    k: int = attrs.field(default=2, validator=attrs.validators.ge(1))
    max_anchors: int | None = 16
    pooling: Literal["softmin", "mean"] = "softmin"
    init: float = 1.0
    hops: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class FavorOptions:
    num_features: int = 64
    orthogonal: bool = True


@attrs.frozen(kw_only=True)
class FileOptions:
    file: pathlib.Path


@attrs.frozen(kw_only=True)
class NoOptions:
    pass


def _never(*arguments: Any) -> Any:
    raise AssertionError("reading a config builds nothing")


class Plugin:
    @hookimpl
    def kdlgt_rpes(self) -> list[RPESpec]:
        return [
            RPESpec(name="sapd", factory=_never, options=SAPDOptions, kind="kernel", summary="anchors"),
            RPESpec(name="plain", factory=_never, options=NoOptions, kind="additive", summary="nothing to set"),
        ]

    @hookimpl
    def kdlgt_absolute_encodings(self) -> list[AbsoluteSpec]:
        return [AbsoluteSpec(name="laplacian", factory=_never, options=FavorOptions, summary="eigenvectors")]

    @hookimpl
    def kdlgt_feature_maps(self) -> list[FeatureMapSpec]:
        return [FeatureMapSpec(name="favor+", factory=_never, options=FavorOptions, summary="features")]

    @hookimpl
    def kdlgt_datasets(self) -> list[DatasetSpec]:
        return [
            DatasetSpec(name="digits", factory=_never, options=NoOptions, summary="digits", level="graph"),
            DatasetSpec(name="file", factory=_never, options=FileOptions, summary="a file", level="node"),
        ]


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry().with_plugin(Plugin())


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Any:
    """Write a TOML text to a file and return its path."""

    def written(text: str) -> pathlib.Path:
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written

"""Which distribution each component of a config comes from: part of what is needed to repeat a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kdlgt.config.schema import Config
from kdlgt.registry import EXTENSIONS, ComponentKind, Registry


def component_owners(config: Config, registry: Registry) -> dict[str, str]:
    """Distribution and version of every component of a config, by kind and name."""
    return {f"{kind} {name}": registry.spec(kind, name).owner for kind, name in _components(config)}


def missing_owners(recorded: Mapping[str, str], registry: Registry) -> list[str]:
    """What a run recorded and this installation lacks: components with their distributions, in words."""
    lacking = []
    for component, owner in recorded.items():
        kind, _, name = component.partition(" ")
        if not any(kind == known and name in registry.specs(known) for known in EXTENSIONS):
            lacking.append(f"{name!r} of {owner}")
    return lacking


def _components(config: Config) -> Iterator[tuple[ComponentKind, str]]:
    model = config.model
    yield "dataset", config.data.dataset.name
    yield "feature_map", model.features.name
    yield from (("rpe", component.name) for component in model.rpe)
    yield from (("absolute", component.name) for component in model.encoder.absolute)

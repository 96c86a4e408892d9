"""Plugins: specs, hooks, and the registry that finds and validates them."""

from kdlgt.registry.hookspecs import hookimpl
from kdlgt.registry.loading import BrokenPlugin, Plugin
from kdlgt.registry.registry import Conflict, Registry, load_plugins
from kdlgt.registry.specs import (
    EXTENSIONS,
    AbsoluteSpec,
    ComponentKind,
    DatasetSpec,
    Extension,
    FeatureMapSpec,
    RPESpec,
    Spec,
)

__all__ = [
    "EXTENSIONS",
    "AbsoluteSpec",
    "BrokenPlugin",
    "ComponentKind",
    "Conflict",
    "DatasetSpec",
    "Extension",
    "FeatureMapSpec",
    "Plugin",
    "RPESpec",
    "Registry",
    "Spec",
    "hookimpl",
    "load_plugins",
]

"""Plugins: specs, hooks, and the registry that finds and validates them."""

from kdlgt.registry.hookspecs import hookimpl
from kdlgt.registry.registry import BrokenPlugin, Registry, load_plugins
from kdlgt.registry.specs import DatasetSpec, FeatureMapSpec, RPESpec, Spec

__all__ = ["BrokenPlugin", "DatasetSpec", "FeatureMapSpec", "RPESpec", "Registry", "Spec", "hookimpl", "load_plugins"]

"""Options through a config and back."""

from __future__ import annotations

import tomllib
import types
from typing import Any

from kdlgt.config import config_to_toml
from kdlgt.registry import EXTENSIONS, ComponentKind, Registry, Spec, hookimpl


def check_round_trip(kind: ComponentKind, spec: Spec, options: Any) -> None:
    """Write options as TOML, read them as a config does, and compare."""
    registry = Registry().with_plugin(plugin_of(kind, spec))
    read = registry.options(kind, spec.name, tomllib.loads(config_to_toml(options)))
    assert read == options, f"{options} came back from a config as {read}"


def plugin_of(kind: ComponentKind, spec: Spec) -> types.ModuleType:
    """A plugin that provides one spec."""
    plugin = types.ModuleType(f"only_{spec.name}")

    def provide() -> list[Spec]:
        return [spec]

    setattr(plugin, EXTENSIONS[kind].hook, hookimpl(provide))
    return plugin

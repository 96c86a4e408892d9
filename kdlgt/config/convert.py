"""Between plain trees and configs: strict in, exact out."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import attrs
import tomli_w
from cattrs import BaseConverter, Converter

from kdlgt.config.schema import Component, Config, Provides
from kdlgt.errors import ConfigError, PluginError, UnknownNameError
from kdlgt.registry import EXTENSIONS, Registry, load_plugins
from kdlgt.registry.faults import NONE, UNKNOWN_KEY, Fault, RejectedError, faults_message, rejected
from kdlgt.registry.strict import Hook, strict_converter


def config_from_dict(tree: Mapping[str, Any], registry: Registry | None = None, *, where: str = "config") -> Config:
    """Make a config from a plain tree, strictly: every component gets typed options, defaults filled in.

    Args:
        tree: tables as a TOML file holds them; what is left out takes its default.
        registry: where component names are looked up; ``None`` loads the installed plugins.
        where: what to call the tree in errors.

    Raises:
        ConfigError: one for all faults, each with its path in the tree and, where something is near, a suggestion.
    """
    converter = config_converter(load_plugins() if registry is None else registry)
    try:
        config: Config = converter.structure(tree, Config)
    except RejectedError as error:
        raise ConfigError(faults_message(where, map(_with_home, error.faults))) from None
    return config


def _with_home(fault: Fault) -> Fault:
    """Say where a key belongs that stands in the wrong table."""
    homes = [path for path in _paths(Config) if path.rpartition(".")[2] == fault.path[-1]] if fault.path else []
    if not homes or not fault.text.startswith(UNKNOWN_KEY):
        return fault
    return attrs.evolve(fault, text=f"{fault.text} There is {' and '.join(homes)}.")


def _paths(table: type[Any], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all fields below a table."""
    attrs.resolve_types(table)
    for field in attrs.fields(table):
        yield f"{prefix}{field.name}"
        if isinstance(field.type, type) and attrs.has(field.type):
            yield from _paths(field.type, f"{prefix}{field.name}.")


def config_converter(registry: Registry) -> Converter:
    """The strict converter that also looks components up in a registry."""
    converter = strict_converter()

    def component_hook(kind: Any, within: BaseConverter) -> Hook:
        provides = _provides(kind)
        return lambda value, _: _component(value, provides, registry, within)

    converter.register_structure_hook_factory(_is_component, component_hook)
    return converter


def _is_component(kind: Any) -> bool:
    return get_origin(kind) is Annotated and get_args(kind)[0] is Component


def _provides(kind: Any) -> Provides:
    return next(mark for mark in get_args(kind)[1:] if isinstance(mark, Provides))


def _component(value: Any, provides: Provides, registry: Registry, converter: BaseConverter) -> Component:
    tree = {"name": value} if isinstance(value, str) else value
    if not isinstance(tree, Mapping):
        raise rejected(value, Component)
    if "name" not in tree:
        label, names = EXTENSIONS[provides.kind].label, ", ".join(registry.specs(provides.kind)) or "none"
        raise RejectedError([Fault(("name",), f": missing; give the name of the {label}, installed: {names}.")])
    name = tree["name"]
    if not isinstance(name, str):
        raise RejectedError(rejected(name, str).below("name"))
    try:
        spec = registry.spec(provides.kind, name)
    except (UnknownNameError, PluginError) as error:
        raise RejectedError([Fault(("name",), f": {error}")]) from None
    given = {key: option for key, option in tree.items() if key != "name"}
    return Component(name=name, options=converter.structure(given, spec.options))


def config_to_dict(config: Any) -> dict[str, Any]:
    """The plain tree of a config or of one table, JSON-safe, with every value; :func:`config_from_dict` inverts it."""
    return {field.name: _plain(getattr(config, field.name)) for field in attrs.fields(type(config)) if field.init}


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        return {"name": value.name, **_plain_options(value.options)}
    if attrs.has(type(value)):
        return config_to_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, pathlib.Path) else value


def _plain_options(options: Any) -> dict[str, Any]:
    if options is None:
        return {}
    if isinstance(options, Mapping):
        return {key: _plain(value) for key, value in options.items()}
    return config_to_dict(options)


def config_to_toml(config: Any) -> str:
    """A config as TOML, every value written; None is written as the string ``"none"``, which reads back as None."""
    return tomli_w.dumps(_without_null(config_to_dict(config)))


def _without_null(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_null(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_without_null(value) for value in tree]
    return NONE if tree is None else tree

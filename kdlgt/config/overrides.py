"""Overrides from the command line: ``model.rpe.0.k=3`` sets one value in a config tree."""

from __future__ import annotations

import copy
import tomllib
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import attrs

from kdlgt.config.schema import Component, Config
from kdlgt.errors import ConfigError
from kdlgt.registry.faults import NONE, is_union, shown
from kdlgt.registry.strict import shorthand_field


def apply_overrides(tree: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy of a config tree with overrides ``path=value`` applied in order; list entries are numbers from 0.

    A value is read as TOML where it is TOML (``3``, ``[1, 2]``, ``true``, ``"text"``), else as a plain string. Fields
    that take strings take the text as it stands. Whether keys exist and values fit is checked when the tree is
    converted.

    Raises:
        ConfigError: no ``=``, an empty key, an index outside a list, a path through a plain value.
    """
    result = copy.deepcopy(dict(tree))
    for override in overrides:
        _apply(result, override)
    return result


def set_value(tree: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a config tree with one plain value in place; ``path`` as in :func:`apply_overrides`.

    Raises:
        ConfigError: an empty key, an index outside a list, a path through a plain value.
    """
    result = copy.deepcopy(dict(tree))
    keys = path.split(".")
    if not all(keys):
        raise ConfigError(f"path {path!r}; write keys with dots between them, e.g. model.rpe.0.k")
    node, _ = _parent(result, keys)
    node[_slot(node, keys[-1], keys)] = value
    return result


def _apply(tree: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"override {override!r}; write path=value, e.g. model.rpe.0.k=3")
    node, kind = _parent(tree, keys)
    node[_slot(node, keys[-1], keys)] = _value(text.strip(), kind)


def _parent(tree: dict[str, Any], keys: list[str]) -> tuple[Any, Any]:
    """The table or list that holds the last key, made where it is missing, and the type that belongs there."""
    node: Any = tree
    kind: Any = Config
    for depth, key in enumerate(keys[:-1]):
        kind = _field_kind(kind, key)
        node = _descend(node, key, kind, keys[: depth + 1])
    return node, _field_kind(kind, keys[-1])


def _descend(node: Any, key: str, kind: Any, path: list[str]) -> Any:
    slot = _slot(node, key, path)
    child = node[slot] if isinstance(node, list) else node.get(slot)
    if isinstance(child, str):
        child = node[slot] = _expanded(child, kind)
    if child is None:
        child = node[slot] = [] if _is_tuple(kind) else {}
    if not isinstance(child, dict | list):
        raise ConfigError(f"{'.'.join(path)} = {shown(child)} is a value; it has no entries to set")
    return child


def _expanded(text: str, kind: Any) -> Any:
    """The table that a plain string stands for, so that an override can add to it."""
    short = shorthand_field(kind)
    if short is None:
        return text
    return None if text == NONE else {short: text}


def _slot(node: Any, key: str, path: list[str]) -> Any:
    """The key of a table, or the checked index of a list."""
    if not isinstance(node, list):
        return key
    where = ".".join(path[:-1])
    hint = f"set the whole list with {where}='[...]'"
    allowed = f"0..{len(node) - 1}" if node else "none, it is empty"
    if not (key.isascii() and key.isdecimal()) or int(key) >= len(node):
        raise ConfigError(f"{'.'.join(path)}: {where} has {len(node)} entries; allowed: {allowed}, or {hint}")
    return int(key)


def _field_kind(kind: Any, key: str) -> Any:
    """Type of the field or entry ``key`` of a type, without None and marks; None where it is not known."""
    if _is_tuple(kind):
        return _bare(get_args(kind)[0])
    if kind is None or kind is Component or not attrs.has(kind):
        return None
    attrs.resolve_types(kind)
    field = attrs.fields_dict(kind).get(key)
    return None if field is None else _bare(field.type)


def _bare(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if is_union(kind):
        members = [member for member in get_args(kind) if member is not types.NoneType]
        return _bare(members[0]) if len(members) == 1 else None
    return kind


def _is_tuple(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is tuple


def _value(text: str, kind: Any) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could smuggle in more keys.
    value = parsed["value"] if len(parsed) == 1 else text
    return text if _takes_text(kind) and not isinstance(value, str) else value


def _takes_text(kind: Any) -> bool:
    literal: Any = get_origin(kind)
    return kind is str or (literal is Literal and all(isinstance(choice, str) for choice in get_args(kind)))

"""Which options are checked: the defaults, each choice of the typed options, and what the spec adds."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from kdlgt.registry import Spec


def sweep(options: type[Any]) -> Iterator[Any]:
    """The default options, then one variation for each other value of a ``Literal`` or ``bool`` field, one at a time.

    Options without defaults cannot be swept: nothing is yielded, and the spec has to give ``variants``.
    """
    fields = attrs.fields(options)
    if any(field.default is attrs.NOTHING for field in fields):
        return
    default = options()
    yield default
    hints = get_type_hints(options)
    for field in fields:
        present = getattr(default, field.name)
        for choice in _choices(hints[field.name]):
            if choice != present:
                yield attrs.evolve(default, **{field.alias or field.name: choice})


def options_of(spec: Spec) -> list[Any]:
    """All options that the kit checks a component with, each once."""
    found: list[Any] = []
    for options in itertools.chain(sweep(spec.options), spec.variants):
        if options not in found:
            found.append(options)
    return found


def label(options: Any) -> str:
    """Options in words: what differs from the defaults."""
    fields = attrs.fields(type(options))
    values = {field.name: getattr(options, field.name) for field in fields}
    changed = [f"{field.name}={values[field.name]!r}" for field in fields if values[field.name] != field.default]
    return ", ".join(changed) or "default"


def _choices(hint: Any) -> tuple[Any, ...]:
    if hint is bool:
        return (False, True)
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(itertools.chain.from_iterable(map(_choices, get_args(hint))))
    return ()

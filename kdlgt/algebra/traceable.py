"""Frozen values that ``torch.compile`` can follow."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import attrs
import torch

T = TypeVar("T")


def traceable(cls: type[T]) -> type[T]:
    """Let ``torch.compile`` follow the construction of a frozen attrs class; put it above ``@attrs.frozen``.

    attrs sets the fields of frozen classes through a bound C method, at which the compiler breaks its graph. While it
    traces, fields are set one by one, and ``__attrs_post_init__`` does not run: it only checks.

    Raises:
        TypeError: the class has converters, validators or default factories, which tracing would leave out.
    """
    kind: Any = cls
    factory: Any = attrs.Factory
    fields = attrs.fields(kind)
    for field in fields:
        if field.converter or field.validator or isinstance(field.default, factory):
            raise TypeError(f"{cls.__name__}.{field.name} has a converter, validator or factory; traceable takes none")
    names = tuple(field.name for field in fields if not field.kw_only)
    defaults = {field.name: field.default for field in fields if field.default is not attrs.NOTHING}
    generated = kind.__init__

    @functools.wraps(generated)
    def init(self: T, *args: Any, **kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            generated(self, *args, **kwargs)
            return
        for name, value in {**defaults, **dict(zip(names, args, strict=False)), **kwargs}.items():
            object.__setattr__(self, name, value)

    kind.__init__ = init
    return cls

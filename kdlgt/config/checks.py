"""Validators of config fields; messages read ``name = value; allowed: ...``, and loading puts the path before them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from kdlgt.errors import ConfigError

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def refused(field: attrs.Attribute[Any], value: object, allowed: str) -> ConfigError:
    """The error for a field with a value outside its range."""
    return ConfigError(f"{field.name} = {value!r}; allowed: {allowed}")


def integer(minimum: int, maximum: int | None = None) -> Validator:
    """An integer in ``[minimum, maximum]``."""
    allowed = f"an integer >= {minimum}" if maximum is None else f"an integer in {minimum}..{maximum}"

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < minimum or (maximum is not None and value > maximum):
            raise refused(field, value, allowed)

    return check


def number(allowed: str, test: Callable[[float], bool]) -> Validator:
    """A finite number that passes a test."""

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and test(value)):
            raise refused(field, value, allowed)

    return check


def each(member: Validator) -> Validator:
    """Every entry of a tuple passes a validator."""

    def check(owner: object, field: attrs.Attribute[Any], value: Any) -> None:
        for entry in value:
            member(owner, field, entry)

    return check


positive = number("a number > 0", lambda value: value > 0)
non_negative = number("a number >= 0", lambda value: value >= 0)
fraction = number("a number in [0, 1)", lambda value: 0 <= value < 1)

#: Seeds that torch, numpy and scikit-learn all take.
seed = integer(0, 2**32 - 1)

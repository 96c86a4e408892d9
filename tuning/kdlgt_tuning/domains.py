"""Sets of values that a search draws from, and the TOML tables that stand for them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import attrs

from kdlgt.errors import suggestion
from kdlgt.registry.faults import shown


class DomainError(ValueError):
    """A table that stands for no set of values; the message says what to write."""


@attrs.frozen
class Choice:
    """One of some values, which may be of any type that TOML has.

    Attributes:
        values: the values, all different.
    """

    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[Any, ...]:
        """What a search engine sees: numbers and strings as they are, tables and lists as JSON."""
        return tuple(json.dumps(value) if isinstance(value, list | dict) else value for value in self.values)

    def decode(self, label: Any) -> Any:
        """The value of a label."""
        # 1, 1.0 and True are equal in Python.
        return next(
            value
            for value, own in zip(self.values, self.labels, strict=True)
            if type(own) is type(label) and own == label
        )

    @property
    def probes(self) -> tuple[Any, ...]:
        """Values whose validity stands for that of all."""
        return self.values


@attrs.frozen
class IntegerRange:
    """Integers from ``low`` to ``high``, both included, uniform in the number or in its logarithm."""

    low: int
    high: int
    log: bool = False

    def decode(self, raw: Any) -> int:
        """A plain integer: engines return their own kinds."""
        return int(raw)

    @property
    def probes(self) -> tuple[int, int]:
        """The ends."""
        return self.low, self.high


@attrs.frozen
class RealRange:
    """Numbers from ``low`` to ``high``, uniform in the number or in its logarithm."""

    low: float
    high: float
    log: bool = False

    def decode(self, raw: Any) -> float:
        """A number with four digits, so that configs stay readable; the rounding stays within the range."""
        return min(max(float(f"{raw:.4g}"), self.low), self.high)

    @property
    def probes(self) -> tuple[float, float]:
        """The ends."""
        return self.low, self.high


Domain = Choice | IntegerRange | RealRange

#: What may stand in a space, with an example of each.
KINDS: Mapping[str, str] = {
    "choice": "{choice = [8, 16, 32]}",
    "int": "{int = [1, 4]}",
    "log_int": "{log_int = [16, 512]}",
    "float": "{float = [0.0, 0.5]}",
    "uniform": "{uniform = [0.0, 0.5]}",
    "log": "{log = [1e-4, 1e-2]}",
}


def parse_domain(table: Any) -> Domain:
    """The domain that a table such as ``{int = [1, 4]}`` stands for.

    Raises:
        DomainError: no such kind, an empty choice, a range upside down or of the wrong type.
    """
    if not isinstance(table, Mapping) or len(table) != 1 or not KINDS.keys() >= table.keys():
        raise DomainError(_not_a_domain(table))
    [(kind, values)] = table.items()
    return _choice(values) if kind == "choice" else _range(kind, values)


def _not_a_domain(table: Any) -> str:
    got = _inline(table)
    if not isinstance(table, Mapping):
        return f" = {got}: a value, not a set of values. Did you mean {{choice = [{got}]}}?"
    near = next((hint for key in table if key not in KINDS and (hint := suggestion(str(key), KINDS))), "")
    return f" = {got}; allowed: one of {', '.join(KINDS.values())}.{near}"


def _choice(values: Any) -> Choice:
    if not isinstance(values, list):
        raise DomainError(
            f" = {{choice = {shown(values)}}}; allowed: a list. Did you mean {{choice = [{_inline(values)}]}}?"
        )
    if not values:
        raise DomainError(" = {choice = []}: an empty choice; give at least one value, e.g. {choice = [8, 16, 32]}")
    domain = Choice(tuple(values))
    twice = [label for index, label in enumerate(map(repr, domain.labels)) if label in map(repr, domain.labels[:index])]
    if twice:
        raise DomainError(f" = {{choice = {shown(values)}}}: {twice[0]} stands there twice; leave one out")
    return domain


def _range(kind: str, values: Any) -> IntegerRange | RealRange:
    whole, log = kind.endswith("int"), kind.startswith("log")
    if not isinstance(values, list) or len(values) != 2 or not all(_is_number(value, whole) for value in values):
        words = "two integers" if whole else "two numbers"
        raise DomainError(f" = {{{kind} = {_inline(values)}}}; allowed: {words}, both included, e.g. {KINDS[kind]}")
    low, high = values
    if low > high:
        raise DomainError(
            f" = {{{kind} = [{low}, {high}]}}: the range is upside down. Did you mean {{{kind} = [{high}, {low}]}}?"
        )
    if low == high:
        raise DomainError(f" = {{{kind} = [{low}, {high}]}}: one value is nothing to search; set it in the config")
    if log and low <= 0:
        raise DomainError(f" = {{{kind} = [{low}, {high}]}}: a logarithmic range starts above 0, e.g. {KINDS[kind]}")
    return IntegerRange(low, high, log) if whole else RealRange(float(low), float(high), log)


def _is_number(value: Any, whole: bool) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) if whole else isinstance(value, int | float) and math.isfinite(value)


def _inline(value: Any) -> str:
    """A value as TOML writes it in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_inline(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else shown(value)

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdlgt_tuning.domains import KINDS, Choice, DomainError, IntegerRange, RealRange, parse_domain


@pytest.mark.parametrize(
    ("table", "domain"),
    [
        ({"choice": [8, "a", [1, 2]]}, Choice((8, "a", [1, 2]))),
        ({"int": [1, 4]}, IntegerRange(1, 4)),
        ({"log_int": [16, 512]}, IntegerRange(16, 512, log=True)),
        ({"float": [0, 0.5]}, RealRange(0.0, 0.5)),
        ({"uniform": [0, 0.5]}, RealRange(0.0, 0.5)),
        ({"log": [1e-4, 1e-2]}, RealRange(1e-4, 1e-2, log=True)),
    ],
)
def test_every_kind(table: dict[str, Any], domain: object) -> None:
    assert parse_domain(table) == domain


def test_the_examples_of_the_kinds_are_kinds() -> None:
    import tomllib

    for kind, example in KINDS.items():
        table = tomllib.loads(f"x = {example}")["x"]
        assert list(table) == [kind]
        assert parse_domain(table).probes


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"choice": []}, "an empty choice; give at least one value"),
        ({"choice": 8}, r"Did you mean {choice = \[8\]}"),
        ({"choice": [8, 8]}, "8 stands there twice"),
        ({"int": [4, 1]}, r"upside down. Did you mean {int = \[1, 4\]}"),
        ({"log": [1e-2, 1e-4]}, r"upside down. Did you mean {log = \[0.0001, 0.01\]}"),
        ({"int": [1.5, 4]}, "allowed: two integers"),
        ({"int": [True, 4]}, "allowed: two integers"),
        ({"float": ["a", 4]}, "allowed: two numbers"),
        ({"float": [0.0, math.inf]}, "allowed: two numbers"),
        ({"float": [1, 2, 3]}, "allowed: two numbers"),
        ({"int": [3, 3]}, "one value is nothing to search"),
        ({"log": [0.0, 1.0]}, "a logarithmic range starts above 0"),
        ({"log_int": [0, 8]}, "a logarithmic range starts above 0"),
        ({"chioce": [1, 2]}, "Did you mean 'choice'"),
        ({"int": [1, 4], "step": 2}, "allowed: one of"),
        (7, r"a value, not a set of values. Did you mean {choice = \[7\]}"),
        ("a", r"Did you mean {choice = \[\"a\"\]}"),
    ],
)
def test_what_is_no_domain(table: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        parse_domain(table)


@given(st.lists(st.one_of(st.booleans(), st.integers(), st.text(), st.lists(st.integers())), min_size=1))
def test_labels_decode_to_their_values(values: list[Any]) -> None:
    unique = list({repr(value): value for value in values}.values())
    domain = Choice(tuple(unique))
    decoded = [domain.decode(label) for label in domain.labels]
    assert [(type(value), value) for value in decoded] == [(type(value), value) for value in unique]
    assert all(isinstance(label, bool | int | float | str) for label in domain.labels)


@given(st.floats(0.0, 1.0))
def test_numbers_are_rounded_within_their_range(share: float) -> None:
    domain = RealRange(1.23456e-4, 9.87654e-2, log=True)
    raw = domain.low * (domain.high / domain.low) ** share
    value = domain.decode(raw)
    assert domain.low <= value <= domain.high
    assert value == pytest.approx(raw, rel=1e-3)

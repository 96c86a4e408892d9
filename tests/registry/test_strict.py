"""Strict conversion: what each type takes, what it refuses, and where the fault is said to be."""

from __future__ import annotations

import pathlib
from typing import Any, Literal

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdlgt.registry.faults import RejectedError, describe, faults_message
from kdlgt.registry.strict import strict_converter

CONVERTER = strict_converter()


@attrs.frozen(kw_only=True)
class Leaf:
    k: int = 1
    low: int = 0
    high: int = attrs.field(default=10)

    @high.validator
    def _above_low(self, field: Any, value: int) -> None:
        if value <= self.low:
            raise ValueError(f"high = {value}; allowed: above low = {self.low}")


@attrs.frozen(kw_only=True)
class Tree:
    leaf: Leaf = Leaf()
    leaves: tuple[Leaf, ...] = ()
    maybe: Leaf | None = None
    either: int | Leaf = 1
    needed: str


def convert(value: Any, kind: Any) -> Any:
    return CONVERTER.structure(value, kind)


def faults(value: Any, kind: Any) -> list[str]:
    with pytest.raises(RejectedError) as caught:
        CONVERTER.structure(value, kind)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, 3, 3),
        (int, np.int64(3), 3),
        (float, 3, 3.0),
        (float, 2.5, 2.5),
        (float, np.float32(0.5), 0.5),
        (str, "x", "x"),
        (bool, False, False),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (Literal["a", 1], 1, 1),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, float], (1, 2), (1, 2.0)),
        (int | None, None, None),
        (int | None, "none", None),
        (int | Literal["auto"], "auto", "auto"),
        (Leaf | None, "none", None),
        (Leaf | None, {"k": 2}, Leaf(k=2)),
    ],
)
def test_takes(kind: Any, value: Any, expected: Any) -> None:
    result = convert(value, kind)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, 3.7, "3.7; allowed: an integer. Did you mean 3 or 4?"),
        (int, 3.0, "3.0; allowed: an integer. Did you mean 3?"),
        (int, True, "true; allowed: an integer. Did you mean 1?"),
        (int, "5", "'5'; allowed: an integer. Did you mean 5?"),
        (int, float("nan"), "nan; allowed: an integer."),
        (int, [1], "[1]; allowed: an integer."),
        (float, "1e-3", "'1e-3'; allowed: a number. Did you mean 0.001?"),
        (float, False, "false; allowed: a number. Did you mean 0?"),
        (float, 10**400, f"{'1' + '0' * 17}"),
        (str, 5, "5; allowed: a string. Did you mean '5' (in quotes)?"),
        (bool, "yes", "'yes'; allowed: true or false. Did you mean true (without quotes)?"),
        (bool, 0, "0; allowed: true or false. Did you mean false (without quotes)?"),
        (pathlib.Path, 3, "3; allowed: a path as a string."),
        (Literal["layer", "batch"], "laier", "'laier'; allowed: 'layer', 'batch'. Did you mean 'layer'?"),
        (Literal["32", "16"], 32, "32; allowed: '32', '16'. Did you mean '32'?"),
        (Literal[1, 2], True, "true; allowed: 1, 2."),
        (tuple[int, ...], 3, "3; allowed: a list, each entry an integer."),
        (tuple[int, ...], "12", "'12'; allowed: a list, each entry an integer."),
        (tuple[float, float], [1], "[1]; allowed: a list of 2 (a number, a number)."),
        (tuple[int, ...], [1, "x", 2.5], "1 = 'x'; allowed: an integer."),
        (int | None, "x", "'x'; allowed: an integer or 'none'."),
        (int | Literal["auto"], "aut", "'aut'; allowed: an integer or 'auto'."),
        (Leaf, 3, "3; allowed: a table."),
        (Leaf, "k", "'k'; allowed: a table."),
        (Leaf | None, {"k": "x"}, "k = 'x'; allowed: an integer."),
        (int | Leaf, {"q": 1}, "q: unknown key; allowed: k, low, high."),
    ],
)
def test_refuses(kind: Any, value: Any, expected: str) -> None:
    first, *_ = faults(value, kind)
    assert first.startswith(expected)


def test_all_faults_come_at_once_with_their_paths() -> None:
    tree = {"leaf": {"k": 1.5}, "leaves": [{}, {"kk": 2}, {"low": 20}], "maybe": 3}
    assert faults(tree, Tree) == [
        "leaf.k = 1.5; allowed: an integer. Did you mean 1 or 2?",
        "leaves.1.kk: unknown key; allowed: k, low, high. Did you mean 'k'?",
        "leaves.2.high = 10; allowed: above low = 20",
        "maybe = 3; allowed: a table or 'none'.",
        "needed: missing; give a string.",
    ]


def test_a_refused_field_does_not_stand_in_with_its_default() -> None:
    assert faults({"low": 20, "high": "x"}, Leaf) == ["high = 'x'; allowed: an integer."]


def test_faults_of_the_whole_are_placed_at_the_field_that_they_name() -> None:
    @attrs.frozen
    class Late:
        k: int = 1

        def __attrs_post_init__(self) -> None:
            raise ValueError("k = 1; allowed: nothing" if self.k == 1 else "no good")

    assert faults({}, Late) == ["k = 1; allowed: nothing"]
    assert faults({"late": {"k": 2}}, attrs.make_class("Outer", {"late": attrs.field(type=Late)})) == ["late: no good"]


def test_a_default_table_is_the_start_of_what_is_given() -> None:
    kind = attrs.make_class("Outer", {"leaf": attrs.field(type=Leaf, default=Leaf(k=5, low=2))}, frozen=True)
    assert convert({}, kind).leaf == Leaf(k=5, low=2)
    assert convert({"leaf": {"low": 3}}, kind).leaf == Leaf(k=5, low=3)
    assert convert({"leaf": Leaf(k=7)}, kind).leaf == Leaf(k=7)


def test_attrs_own_validators_are_reported_with_the_path() -> None:
    kind = attrs.make_class("K", {"k": attrs.field(type=int, default=1, validator=attrs.validators.ge(1))}, frozen=True)
    assert faults({"k": 0}, kind) == ["k: 'k' must be >= 1: 0"]


def test_one_fault_is_one_line() -> None:
    with pytest.raises(RejectedError) as caught:
        convert("x", int)
    assert faults_message("file", caught.value.faults) == "file: 'x'; allowed: an integer."
    assert faults_message("file", [*caught.value.faults] * 2).startswith("file: 2 errors\n  'x'")


def test_a_type_that_no_config_holds_cannot_be_described() -> None:
    with pytest.raises(TypeError, match="dict"):
        describe(dict[str, int])


@given(value=st.floats() | st.text() | st.booleans() | st.none() | st.lists(st.integers()))
def test_only_integers_are_integers(value: object) -> None:
    assert faults(value, int)


@given(value=st.integers())
def test_every_integer_is_one(value: int) -> None:
    assert convert(value, int) == value

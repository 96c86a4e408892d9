"""Every first-party component passes the conformance kit, with its typed options swept; skips are the ones expected."""

from __future__ import annotations

from typing import Any

import pytest

from kdlgt.registry import RPESpec, load_plugins
from kdlgt.testing import (
    check_absolute,
    check_dataset,
    check_feature_map,
    check_rpe,
    label,
    rpe_checks,
    run_checks,
)
from kdlgt.testing.rpe_case import RPECase
from kdlgt.testing.sweep import options_of

pytestmark = pytest.mark.plugins

OWNERS = ("absolute", "edge", "sapd", "sat", "spd", "spectral", "walk")
REGISTRY = load_plugins(allow=OWNERS)
EMBEDDED = ("digits", "distance", "karate", "regular")

NO_DENSE_FORM = {"lowered", "reference", "reference gradient", "symmetric", "exact attention", "transposition"}


def cases(kind: Any) -> list[Any]:
    """Each component with each of its sets of options."""
    return [
        pytest.param(spec, options, id=f"{name}, {label(options)}")
        for name, spec in REGISTRY.specs(kind).items()
        for options in options_of(spec)
    ]


def expected_skips(spec: RPESpec, options: Any) -> set[str]:
    """What the tags of a spec, and this machine, leave out."""
    skips = {"device"}
    skips |= set() if spec.exactness == "biased" and spec.refinements else {"refinement"}
    skips |= set() if spec.exactness == "biased" else {"approximation"}
    skips |= {"reference gradient"} if spec.exactness == "unbiased" else set()
    skips |= set() if spec.symmetric else {"symmetric"}
    pooling = getattr(options, "pooling", "softmin")
    skips |= NO_DENSE_FORM if pooling == "mean" else set()
    return skips | (set() if pooling == "softmin" else {"kind"})


def failures(results: Any) -> list[str]:
    return [f"{result.check}: {result.reason}" for result in results if result.status == "failed"]


@pytest.mark.parametrize(("spec", "options"), cases("rpe"))
def test_encodings(spec: RPESpec, options: Any) -> None:
    wanted = label(options)
    results = run_checks(check for check in rpe_checks(spec) if check.options == wanted)
    assert failures(results) == []
    skipped = {result.check for result in results if result.status == "skipped"}
    allowed = expected_skips(spec, options) | (set() if wanted == "default" else {"refinement"})
    assert skipped <= allowed, {result.check: result.reason for result in results if result.status == "skipped"}


@pytest.mark.parametrize(("spec", "options"), cases("feature_map"))
def test_feature_maps(spec: Any, options: Any) -> None:
    results = check_feature_map(spec, options)
    assert failures(results) == []
    skipped = {result.check for result in results if result.status == "skipped"}
    assert skipped == (set() if spec.estimates_softmax else {"kernel"})


@pytest.mark.parametrize(("spec", "options"), cases("absolute"))
def test_absolute_encodings(spec: Any, options: Any) -> None:
    assert [result for result in check_absolute(spec, options) if result.status != "passed"] == []


@pytest.mark.parametrize("name", EMBEDDED)
def test_data_sets_without_files(name: str) -> None:
    assert [result for result in check_dataset(REGISTRY.dataset_specs[name]) if result.status != "passed"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REGISTRY.dataset_specs.keys() - {*EMBEDDED, "files", "pyg"}))
def test_data_sets_with_files(name: str, data_root: Any) -> None:
    results = check_dataset(REGISTRY.dataset_specs[name], root=data_root)
    assert [result for result in results if result.status != "passed"] == []


def test_every_encoding_has_a_reference() -> None:
    assert [name for name, spec in REGISTRY.rpe_specs.items() if spec.reference is None] == []


def test_options_that_only_the_sweep_reaches() -> None:
    """The sweep really builds different encodings: SAPD's poolings lower to three kinds."""
    spec = REGISTRY.rpe_specs["sapd"]
    found = set()
    for options in options_of(spec):
        case = RPECase(spec, options)
        rpe = case.rpe()
        value = case.value(rpe, case.prepared(rpe, case.ordinary["grid 3x4"]))
        found.add(type(getattr(value, "terms", (value,))[0]).__name__)
    assert found == {"Kernel", "Mixture", "Multiplicative"}


def test_one_set_of_options_can_be_checked_alone() -> None:
    spec = REGISTRY.rpe_specs["degree"]
    results = check_rpe(spec, spec.options(max_degree=1))
    assert {result.options for result in results} == {"max_degree=1"}
    assert failures(results) == []

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.registry import Registry
from kdlgt.testing.round_trip import plugin_of

Kdlgt = Callable[..., Any]


@pytest.mark.plugins
def test_check_prints_a_table_and_writes_every_result(kdlgt: Kdlgt, tmp_path: pathlib.Path) -> None:
    outcome = kdlgt("check", "degree", "--json", tmp_path / "check.json")
    assert outcome.code == 0
    assert "isolation" in outcome.out
    assert "tagged exact" in outcome.out, "a skip is shown with its reason"
    tree = json.loads((tmp_path / "check.json").read_text())
    (component,) = tree["components"]
    assert tree["passed"] is True
    assert (component["name"], component["kind"]) == ("degree", "rpe")
    assert {result["status"] for result in component["results"]} == {"passed", "skipped"}
    assert all(result["reason"] for result in component["results"] if result["status"] == "skipped")


def test_feature_maps_and_data_sets_are_checked_too(kdlgt: Kdlgt) -> None:
    assert "feature map elu+1" in kdlgt("check", "elu+1").out
    outcome = kdlgt("check", "karate")
    assert (outcome.code, "data set karate" in outcome.out) == (0, True)


def test_a_failure_is_exit_code_1_with_its_reason(
    kdlgt: Kdlgt, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import attrs

    from kdlgt.registry import load_plugins

    honest = load_plugins(block="*").feature_map_specs["elu+1"]
    liar = attrs.evolve(honest, name="liar", estimates_softmax=True, owner="")
    registry = Registry().with_plugin(plugin_of("feature_map", liar))
    monkeypatch.setattr("kdlgt.registry.load_plugins", lambda: registry)
    outcome = kdlgt("check", "liar", "--json", tmp_path / "check.json")
    assert outcome.code == 1
    assert "failed: tags [default]: estimates_softmax: False on the map, True on the spec" in outcome.out
    assert json.loads((tmp_path / "check.json").read_text())["passed"] is False


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes ``degree`` the only installed encoding, with other claims."""
    import attrs

    from kdlgt.registry import load_plugins

    spec = load_plugins(allow="edge").rpe_specs["degree"]

    def install(**claims: Any) -> None:
        changed = attrs.evolve(spec, owner="", variants=(), **claims)
        registry = Registry().with_plugin(plugin_of("rpe", changed))
        monkeypatch.setattr("kdlgt.registry.load_plugins", lambda: registry)

    return install


@pytest.mark.plugins
def test_checks_that_wait_for_a_failed_one_are_one_line(kdlgt: Kdlgt, stranger: Callable[..., None]) -> None:
    from kdlgt.testing.rpe import CHECKS

    stranger(factory=lambda heads, channels, options: None)
    lines = kdlgt("check", "degree").out.splitlines()
    assert "RPE degree, 1 set of options" in "\n".join(lines)
    assert lines[-2:] == [
        "failed: works [default]: the factory returned NoneType; expected kdlgt.rpe.RPE",
        f"{len(CHECKS) - 1} checks need 'works' and were skipped where it fails",
    ]
    assert not any("isolation" in line for line in lines)


@pytest.mark.plugins
def test_exactness_without_a_reference_is_named_at_the_end(kdlgt: Kdlgt, stranger: Callable[..., None]) -> None:
    stranger(reference=None)
    outcome = kdlgt("check", "degree")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "not verified: exactness (no reference)")


def test_an_unknown_name_is_an_error_with_a_suggestion(kdlgt: Kdlgt) -> None:
    outcome = kdlgt("check", "sapdd")
    assert outcome.code == 2
    assert "unknown RPE 'sapdd'" in outcome.message

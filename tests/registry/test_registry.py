"""Discovery, isolation of broken plugins, names that clash, and what the registry builds."""

from __future__ import annotations

import importlib.metadata
import pathlib
import pickle
from typing import Any

import attrs
import pytest

from kdlgt.errors import ConfigError, PluginError, UnknownNameError
from kdlgt.registry import (
    AbsoluteSpec,
    BrokenPlugin,
    DatasetSpec,
    FeatureMapSpec,
    Registry,
    RPESpec,
    hookimpl,
    load_plugins,
)


@attrs.frozen(kw_only=True)
class SizeOptions:
    size: int = 3


class WholePlugin:
    """One component of every kind."""

    @hookimpl
    def kdlgt_rpes(self) -> list[RPESpec]:
        return [RPESpec(name="one", factory=_echo3, options=SizeOptions, kind="kernel", summary="an encoding")]

    @hookimpl
    def kdlgt_absolute_encodings(self) -> tuple[AbsoluteSpec, ...]:
        return (AbsoluteSpec(name="one", factory=_echo1, options=SizeOptions, summary="an absolute encoding"),)

    @hookimpl
    def kdlgt_feature_maps(self) -> list[FeatureMapSpec]:
        return [FeatureMapSpec(name="one+", factory=_echo3, options=SizeOptions, summary="a feature map")]

    @hookimpl
    def kdlgt_datasets(self) -> list[DatasetSpec]:
        return [DatasetSpec(name="one", factory=_echo2, options=SizeOptions, summary="data", level="graph")]


def _echo1(options: Any) -> Any:
    return (options,)


def _echo2(root: Any, options: Any) -> Any:
    return (root, options)


def _echo3(first: int, second: int, options: Any) -> Any:
    return (first, second, options)


def reason(registry: Registry, name: str) -> str:
    """Why the only plugin of that name is broken."""
    (found,) = [plugin for plugin in registry.broken if plugin.name == name]
    return found.reason


def test_every_spec_records_distribution_and_version(site: Any) -> None:
    site.add("b", name="second", owner="beta")
    site.add("a", name="first", owner="alpha")
    registry = load_plugins()
    assert {name: spec.owner for name, spec in registry.rpe_specs.items()} == {
        "first": "alpha 1.5",
        "second": "beta 1.5",
    }
    assert [plugin.name for plugin in registry.plugins] == ["a", "b"]
    assert registry.broken == ()
    assert registry.conflicts == ()


def test_names_are_sorted_whatever_the_order_of_discovery(site: Any) -> None:
    for name in ("zeta", "alpha", "mid"):
        site.add(f"entry-{name[::-1]}", name=name, module=f"site_sorted_{name}")
    assert list(load_plugins().rpe_specs) == ["alpha", "mid", "zeta"]


def test_each_load_reads_the_plugins_anew(site: Any) -> None:
    site.add("a", name="first")
    before = load_plugins()
    site.add("b", name="second")
    assert list(before.rpe_specs) == ["first"]
    assert list(load_plugins().rpe_specs) == ["first", "second"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence (site_other_bad.py, line 1)"),
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"),
        ("def f(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_plugin_that_fails_on_import_leaves_the_others_usable(site: Any, line: str, expected: str) -> None:
    site.add("bad", line)
    site.add("good")
    registry = load_plugins()
    (broken,) = registry.broken
    assert (broken.name, broken.owner) == ("bad", "other 1.5")
    assert "importing 'site_other_bad' raised" in broken.reason
    assert expected in broken.reason
    assert "mine" in registry.rpe_specs


def test_an_entry_point_without_a_module_is_broken_by_name(site: Any) -> None:
    site.add("ghost")
    (site.path / "site_other_ghost.py").unlink()
    assert "No module named 'site_other_ghost'" in reason(load_plugins(), "ghost")


IMPORTS = "from kdlgt.registry import hookimpl, RPESpec\n"
HOOKS = "kdlgt_rpes, kdlgt_absolute_encodings, kdlgt_feature_maps, kdlgt_datasets"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "@hookimpl\ndef kdlgt_rpe(): return []",
            f"unknown hook 'kdlgt_rpe'; hooks: {HOOKS}. Did you mean 'kdlgt_rpes'?",
        ),
        ("def kdlgt_rpes(): return []", "kdlgt_rpes without the mark @hookimpl: kdlgt would never call it."),
        ("def kdlgt_rpe(): return []", "would never call it. Did you mean 'kdlgt_rpes'?"),
        ("@hookimpl\ndef kdlgt_rpes(extra): return []", "'kdlgt_rpes'"),
        ("x = 1", f"it has no hook; mark a function with @hookimpl, one of: {HOOKS}"),
        (
            "@hookimpl\ndef kdlgt_rpes(): return None",
            "kdlgt_rpes returned None; it must return a list of RPESpec values",
        ),
        (
            "@hookimpl\ndef kdlgt_rpes(): return 'abc'",
            "kdlgt_rpes returned 'abc'; it must return a list of RPESpec values",
        ),
        ("@hookimpl\ndef kdlgt_datasets(): return [3]", "kdlgt_datasets returned 3; it must return DatasetSpec values"),
        (
            "@hookimpl\ndef kdlgt_rpes(): return 1 / 0",
            "kdlgt_rpes raised ZeroDivisionError: division by zero (site_other_bad.py",
        ),
        ("@hookimpl\ndef kdlgt_rpes(): yield 1 / 0", "kdlgt_rpes raised ZeroDivisionError"),
        ("@hookimpl(wrapper=True)\ndef kdlgt_rpes(): return (yield)", "kdlgt_rpes is marked as a wrapper"),
    ],
)
def test_a_false_hook_breaks_its_plugin_alone(site: Any, source: str, expected: str) -> None:
    site.add("bad", IMPORTS + source)
    site.add("good")
    registry = load_plugins()
    assert expected in reason(registry, "bad")
    assert list(registry.rpe_specs) == ["mine"]


def test_an_empty_list_is_no_fault(site: Any) -> None:
    site.add("optional", IMPORTS + "@hookimpl\ndef kdlgt_rpes(): return []")
    registry = load_plugins()
    assert [plugin.name for plugin in registry.plugins] == ["optional"]
    assert registry.broken == ()


def test_two_distributions_with_one_name_are_both_named_and_neither_wins(site: Any) -> None:
    site.add("a", name="twin", owner="alpha")
    site.add("b", name="twin", owner="beta")
    site.add("c", name="single", owner="gamma")
    registry = load_plugins()
    with pytest.raises(
        PluginError, match=r"RPE 'twin' .*alpha 1.5 \(entry point 'a'\) and by beta 1.5 \(entry point 'b'\)"
    ):
        registry.spec("rpe", "twin")
    assert str(registry.conflicts[0]).endswith("KDLGT_BLOCK_PLUGINS")
    assert list(registry.rpe_specs) == ["single"]
    assert load_plugins(block=["a"]).rpe_specs["twin"].owner == "beta 1.5"


def test_one_name_in_two_kinds_does_not_clash() -> None:
    registry = Registry().with_plugin(WholePlugin())
    assert list(registry.rpe_specs) == list(registry.dataset_specs) == ["one"]
    assert registry.conflicts == ()


def test_a_name_twice_in_one_plugin_breaks_it(site: Any) -> None:
    source = """
        from site_other_good import hookimpl, spec

        @hookimpl
        def kdlgt_rpes():
            return [spec(), spec()]
    """
    site.add("bad", source)
    site.add("good", name="fine")
    assert reason(load_plugins(), "bad") == "kdlgt_rpes returned the name 'fine' twice"


def test_unknown_names_suggest_and_name_the_broken_plugins(site: Any) -> None:
    site.add("sapd", "raise RuntimeError('no licence')")
    site.add("walk", name="walk")
    registry = load_plugins()
    with pytest.raises(UnknownNameError) as caught:
        registry.rpe("wolk", heads=2)
    assert str(caught.value).startswith("unknown RPE 'wolk'; installed: walk. Did you mean 'walk'?")
    assert "broken plugin: 'sapd' of other 1.5: importing 'site_other_sapd' raised RuntimeError: no licence" in str(
        caught.value
    )


def test_an_empty_registry_says_that_nothing_is_installed() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown data set 'cora'; installed: none\.$"):
        Registry().dataset("cora")


class TestAllowAndBlock:
    @pytest.fixture(autouse=True)
    def _three(self, site: Any) -> None:
        for name in ("a", "b", "c"):
            site.add(name, name=f"rpe-{name}")

    @pytest.mark.parametrize(
        ("allow", "block", "expected"),
        [
            (None, None, "abc"),
            ("a, c", None, "ac"),
            (None, "b", "ac"),
            ("a,b", "b,", "a"),
            (None, "*", ""),
            ("a", "*", ""),
            ("", "", "abc"),
        ],
    )
    def test_by_variables(
        self, monkeypatch: pytest.MonkeyPatch, allow: str | None, block: str | None, expected: str
    ) -> None:
        if allow is not None:
            monkeypatch.setenv("KDLGT_PLUGINS", allow)
        if block is not None:
            monkeypatch.setenv("KDLGT_BLOCK_PLUGINS", block)
        registry = load_plugins()
        assert "".join(plugin.name for plugin in registry.plugins) == expected
        assert registry.blocked == tuple(name for name in "abc" if name not in expected)

    def test_arguments_win_over_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KDLGT_PLUGINS", "a")
        monkeypatch.setenv("KDLGT_BLOCK_PLUGINS", "a")
        assert [plugin.name for plugin in load_plugins(allow=["b"], block=[]).plugins] == ["b"]

    def test_a_blocked_plugin_is_not_even_imported(self, site: Any) -> None:
        site.add("d", "raise RuntimeError('imported')")
        assert load_plugins(block=["d"]).broken == ()

    def test_a_missing_name_that_is_blocked_says_so(self, site: Any) -> None:
        with pytest.raises(UnknownNameError, match="The plugin 'b' is installed but blocked; see KDLGT_PLUGINS"):
            load_plugins(block=["b"]).spec("rpe", "b")

    def test_an_allowed_name_that_is_not_installed_is_reported(self) -> None:
        registry = load_plugins(allow=["a", "bb"])
        assert [plugin.name for plugin in registry.plugins] == ["a"]
        assert registry.broken == (
            BrokenPlugin(
                "bb", "no distribution", "asked for, but not installed; installed: a, b, c. Did you mean 'b'?"
            ),
        )


def test_the_core_stays_when_everything_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDLGT_BLOCK_PLUGINS", "*")
    registry = load_plugins()
    assert {plugin.name for plugin in registry.plugins} <= {"features", "datasets"}
    assert "favor+" in registry.feature_map_specs
    assert registry.rpe_specs == {}
    assert "favor+" not in load_plugins(block=["features"]).feature_map_specs


def test_the_core_owns_its_feature_maps() -> None:
    version = importlib.metadata.version("kdlgt")
    registry = load_plugins(block="*")
    assert registry.feature_map_specs["favor+"].owner == f"kdlgt {version}"
    drawn = registry.feature_map("favor+", dim=4, heads=2, num_features=10, orthogonal=False, seed=3)
    assert drawn.num_features == 10
    assert (drawn.dim, drawn.heads) == (4, 2)
    assert registry.options("feature_map", "favor+", {}) == registry.options(
        "feature_map", "favor+", {"num_features": 64, "orthogonal": True, "seed": 0}
    )


class TestBuilding:
    registry = Registry().with_plugin(WholePlugin(), owner="notebook")

    def test_factories_get_typed_options(self) -> None:
        # The factories of this plugin return what they were called with.
        registry: Any = self.registry
        assert registry.rpe("one", heads=4, channels=8, size=5) == (4, 8, SizeOptions(size=5))
        assert registry.rpe("one", heads=4) == (4, 0, SizeOptions())
        assert registry.feature_map("one+", dim=16, heads=2) == (16, 2, SizeOptions())
        assert registry.dataset("one", root=pathlib.Path("data")) == (pathlib.Path("data"), SizeOptions())
        assert registry.absolute("one", size=2) == (SizeOptions(size=2),)

    def test_owner_of_an_added_plugin(self) -> None:
        assert self.registry.absolute_specs["one"].owner == "notebook"

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"sizes": 3}, "RPE 'one': sizes: unknown key; allowed: size. Did you mean 'size'?"),
            ({"size": 3.7}, "RPE 'one': size = 3.7; allowed: an integer. Did you mean 3 or 4?"),
            ({"size": True}, "RPE 'one': size = true; allowed: an integer."),
            (
                {"size": "3", "of": 1},
                "RPE 'one': 2 errors\n  size = '3'; allowed: an integer. Did you mean 3?\n  of: unknown",
            ),
        ],
    )
    def test_options_are_strict(self, given: dict[str, Any], expected: str) -> None:
        with pytest.raises(ConfigError) as caught:
            self.registry.rpe("one", heads=2, **given)
        assert str(caught.value).startswith(expected)


class TestAddedPlugins:
    def test_the_registry_itself_does_not_change(self) -> None:
        empty = Registry()
        empty.with_plugin(WholePlugin())
        assert empty.rpe_specs == {}

    def test_adding_again_replaces(self) -> None:
        registry = Registry().with_plugin(WholePlugin()).with_plugin(WholePlugin())
        assert registry.conflicts == ()
        assert len(registry.plugins) == 1

    def test_another_owner_clashes(self) -> None:
        registry = Registry().with_plugin(WholePlugin(), owner="x").with_plugin(WholePlugin(), owner="y")
        assert len(registry.conflicts) == 4

    def test_a_broken_one_raises_at_once(self) -> None:
        with pytest.raises(PluginError, match=r"plugin 'object' \(this session\): it has no hook"):
            Registry().with_plugin(object())


class TestPickle:
    def test_loads_the_plugins_again(self, site: Any) -> None:
        site.add("a", name="first")
        site.add("b", name="second")
        data = pickle.dumps(load_plugins(allow=["a", "b"], block=["b"]).with_plugin(WholePlugin(), owner="notebook"))
        site.add("c", name="third")
        restored = pickle.loads(data)
        assert list(restored.rpe_specs) == ["first", "one"]
        assert restored.rpe_specs["one"].owner == "notebook"

    def test_a_module_travels_by_name(self, site: Any) -> None:
        site.add("a", name="first")
        (module,) = site.modules
        registry = Registry().with_plugin(__import__(module))
        restored = pickle.loads(pickle.dumps(registry))
        assert restored.rpe_specs["first"].name == "first"
        assert [plugin.name for plugin in restored.plugins] == [module]


@pytest.mark.plugins
def test_what_is_installed_here_loads() -> None:
    registry = load_plugins()
    assert registry.broken == ()
    assert registry.conflicts == ()
    assert {"sapd", "sat", "spd", "spectral", "walk"} <= set(registry.rpe_specs)


def test_many_broken_plugins_are_counted_and_one_of_the_name_is_explained(site: Any) -> None:
    for name in ("one", "two", "three"):
        site.add(name, f"raise RuntimeError('no {name}')")
    registry = load_plugins()
    with pytest.raises(UnknownNameError, match=r"3 plugins are broken and may provide it; `kdlgt plugins` says why"):
        registry.rpe("walk", heads=2)
    with pytest.raises(
        UnknownNameError, match=r"broken plugin: 'two' of other 1\.5: .*no two \(site_other_two\.py, line 1\)\.$"
    ):
        registry.rpe("two", heads=2)

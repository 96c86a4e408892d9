"""Everything that a spec can declare wrongly, each with its own reason."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_type_hints

import attrs
import pluggy
import pytest

from kdlgt.errors import PluginError
from kdlgt.registry import EXTENSIONS, DatasetSpec, Registry, RPESpec, hookimpl, hookspecs
from kdlgt.registry.validation import spec_faults


@attrs.frozen(kw_only=True)
class Inner:
    depth: int = 1


@attrs.frozen(kw_only=True)
class EveryType:
    whole: int = 1
    real: float = 1.0
    text: str = ""
    flag: bool = False
    choice: Literal["a", "b"] = "a"
    pair: tuple[int, float] = (1, 1.0)
    many: tuple[str, ...] = ()
    maybe: int | None = None
    either: int | Literal["auto"] = "auto"
    inner: Inner = Inner()
    needed: int


@attrs.define
class Mutable:
    k: int = 1


class NotAttrs:
    k: int = 1


@attrs.frozen
class WithSet:
    items: set[int] = attrs.field(factory=set)


@attrs.frozen
class WithHeads:
    heads: int = 1


@attrs.frozen
class WithName:
    name: str = ""


@attrs.frozen
class Unresolved:
    k: NotImportedHere = 1  # type: ignore[name-defined] # noqa: F821


def factory(heads: int, channels: int, options: Any) -> Any:
    return (heads, channels, options)


def rpe_spec(**changes: Any) -> RPESpec:
    declared: dict[str, Any] = {"name": "x", "factory": factory, "options": EveryType, "kind": "kernel", "summary": "s"}
    return RPESpec(**(declared | changes))


def test_a_good_spec_has_no_fault() -> None:
    assert spec_faults(rpe_spec(reference=lambda rpe, data: None), EXTENSIONS["rpe"]) == []


@pytest.mark.parametrize("name", ["favor++", "elu+1", "ogbg-molhiv", "cox2_md", "3d"])
def test_good_names(name: str) -> None:
    assert spec_faults(rpe_spec(name=name), EXTENSIONS["rpe"]) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "Upper"}, "RPESpec(name='Upper'): a name holds lower-case letters"),
        ({"name": "a b"}, "a name holds lower-case letters"),
        ({"name": "a.b"}, "a name holds lower-case letters"),
        ({"name": ""}, "a name holds lower-case letters"),
        ({"name": 3}, "RPESpec(name=3): a name holds lower-case letters"),
        ({"summary": ""}, "summary = ''; allowed: one line of text"),
        ({"summary": "two\nlines"}, "allowed: one line of text"),
        ({"source": None}, "source = None; allowed: text"),
        (
            {"kind": "kernal"},
            "kind = 'kernal'; allowed: 'multiplicative', 'additive', 'kernel', 'ineffective', 'sparse'. Did you mean",
        ),
        ({"exactness": "roughly"}, "exactness = 'roughly'; allowed: 'exact', 'unbiased', 'biased'."),
        ({"equivariance": None}, "equivariance = None; allowed: 'exact', 'in law'."),
        ({"symmetric": 1}, "symmetric = 1; allowed: true, false."),
        ({"reference": "slow"}, "reference = 'slow' is not callable"),
        ({"factory": "make"}, "factory = 'make' is not callable; give factory(heads, channels, options)"),
        (
            {"factory": lambda heads: None},
            "the factory cannot be called as factory(heads, channels, options): too many",
        ),
        ({"options": EveryType(needed=1)}, "give a class made with @attrs.frozen"),
        ({"options": NotAttrs}, "give a class made with @attrs.frozen"),
        ({"options": Mutable}, "the option class Mutable can be changed; make it with @attrs.frozen"),
        (
            {"options": WithSet},
            "option WithSet.items has the type set[int], which a config cannot hold; allowed: int, float",
        ),
        ({"options": WithHeads}, "option WithHeads.heads: the name is taken"),
        ({"options": WithName}, "option WithName.name: the name is taken"),
        ({"options": Unresolved}, "the types of Unresolved cannot be resolved: name 'NotImportedHere' is not defined"),
    ],
)
def test_each_fault_has_its_reason(changes: dict[str, Any], expected: str) -> None:
    (fault,) = spec_faults(rpe_spec(**changes), EXTENSIONS["rpe"])
    assert expected in fault


def test_all_faults_of_a_plugin_are_in_one_reason() -> None:
    class Plugin:
        @hookimpl
        def kdlgt_rpes(self) -> list[Any]:
            return [rpe_spec(kind="none", name="A"), "not a spec"]

    with pytest.raises(PluginError) as caught:
        Registry().with_plugin(Plugin())
    assert all(part in str(caught.value) for part in ("name='A'", "kind = 'none'", "returned 'not a spec'"))


def test_a_spec_of_another_kind_is_refused() -> None:
    (fault,) = spec_faults(rpe_spec(), EXTENSIONS["dataset"])
    assert fault.startswith("kdlgt_datasets returned RPESpec(")
    assert fault.endswith("it must return DatasetSpec values")


def test_the_level_of_a_data_set_is_checked() -> None:
    spec = DatasetSpec(name="x", factory=lambda root, options: None, options=Inner, summary="s", level="edges")  # type: ignore[arg-type]
    (fault,) = spec_faults(spec, EXTENSIONS["dataset"])
    assert "level = 'edges'; allowed: 'node', 'graph'." in fault


class TestHookSpecifications:
    hooks = tuple(name for name, value in vars(hookspecs).items() if name.startswith("kdlgt_") and callable(value))

    def test_every_hook_is_an_extension_and_the_other_way_round(self) -> None:
        assert sorted(self.hooks) == sorted(extension.hook for extension in EXTENSIONS.values())
        manager = pluggy.PluginManager(hookspecs.GROUP)
        manager.add_hookspecs(hookspecs)
        assert all(getattr(manager.hook, hook).has_spec() for hook in self.hooks)

    @pytest.mark.parametrize("hook", hooks)
    def test_every_hook_is_documented_argument_for_argument(self, hook: str) -> None:
        function = getattr(hookspecs, hook)
        assert function.__doc__
        assert all(argument in function.__doc__ for argument in inspect.signature(function).parameters)
        assert "Iterable" in str(function.__annotations__["return"])

    @pytest.mark.parametrize("hook", hooks)
    def test_a_specification_is_no_implementation(self, hook: str) -> None:
        with pytest.raises(NotImplementedError):
            getattr(hookspecs, hook)()

    @pytest.mark.parametrize("kind", EXTENSIONS)
    def test_every_hook_is_called_and_its_specs_are_validated(self, kind: Any) -> None:
        extension = EXTENSIONS[kind]
        plugin = type("Plugin", (), {extension.hook: staticmethod(hookimpl(_returns_nonsense(extension.hook)))})()
        with pytest.raises(PluginError, match=f"{extension.hook} returned 'nonsense'; it must return"):
            Registry().with_plugin(plugin)

    @pytest.mark.parametrize("kind", EXTENSIONS)
    def test_every_factory_argument_is_in_the_documentation_of_its_spec(self, kind: Any) -> None:
        extension = EXTENSIONS[kind]
        call = f"factory({', '.join(extension.arguments)})"
        assert call in (extension.spec.__doc__ or ""), call


def _returns_nonsense(name: str) -> Any:
    def hook() -> list[str]:
        return ["nonsense"]

    hook.__name__ = name
    return hook


def test_the_choices_of_specs_are_literals() -> None:
    hints = get_type_hints(RPESpec, localns=dict.fromkeys(("RPE", "Data", "Tensor"), object))
    assert get_args(hints["kind"]) == ("multiplicative", "additive", "kernel", "ineffective", "sparse")

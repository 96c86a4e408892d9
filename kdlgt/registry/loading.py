"""From one plugin object to its validated specs, through pluggy; each plugin has a plugin manager of its own.

One manager per plugin keeps a broken plugin from touching the others, and says whose every result is: pluggy itself
returns results of all plugins last-in-first-out, without an owner.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pathlib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from kdlgt.errors import PluginError, suggestion
from kdlgt.registry import hookspecs
from kdlgt.registry.faults import shown
from kdlgt.registry.specs import EXTENSIONS, ComponentKind, Extension, Spec
from kdlgt.registry.validation import spec_faults

_PREFIX = f"{hookspecs.GROUP}_"


@attrs.frozen
class Plugin:
    """A plugin that works.

    Attributes:
        name: entry-point name.
        owner: the distribution and version that it belongs to.
        specs: what it provides, by kind.
    """

    name: str
    owner: str
    specs: Mapping[ComponentKind, tuple[Spec, ...]]


@attrs.frozen
class BrokenPlugin:
    """A plugin that cannot be used: its entry-point name, its distribution and version, and why."""

    name: str
    owner: str
    reason: str


def load_entry_point(entry: EntryPoint) -> Plugin | BrokenPlugin:
    """Import one plugin and read its hooks; whatever goes wrong becomes a :class:`BrokenPlugin`."""
    owner = owner_of(entry)
    try:
        module = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything; the others must go on
        return BrokenPlugin(entry.name, owner, f"importing {entry.value!r} raised {_raised(error)}")
    try:
        return read_plugin(module, entry.name, owner)
    except PluginError as error:
        return BrokenPlugin(entry.name, owner, str(error))


def owner_of(entry: EntryPoint) -> str:
    """Distribution and version of an entry point, e.g. ``kdlgt 0.1.0``."""
    distribution = entry.dist
    if distribution is None:
        return f"unknown distribution ({entry.value})"
    return f"{distribution.metadata['Name']} {distribution.version}"


def read_plugin(plugin: object, name: str, owner: str) -> Plugin:
    """Read the specs of a plugin object.

    Raises:
        PluginError: a misspelt hook, a hook that raises or returns no specs, a spec that cannot be used.
    """
    manager = _manager(plugin, name)
    faults: list[str] = []
    specs: dict[ComponentKind, tuple[Spec, ...]] = {}
    for kind, extension in EXTENSIONS.items():
        returned = [item for hook in _implementations(manager, extension) for item in _call(hook, extension)]
        faults += [fault for spec in returned for fault in spec_faults(spec, extension)]
        faults += _twice(returned, extension)
        specs[kind] = tuple(attrs.evolve(spec, owner=owner) for spec in returned if isinstance(spec, Spec))
    if faults:
        raise PluginError("; ".join(faults))
    return Plugin(name, owner, MappingProxyType(specs))


def _manager(plugin: object, name: str) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.GROUP)
    manager.add_hookspecs(hookspecs)
    hooks = [extension.hook for extension in EXTENSIONS.values()]
    unmarked = _unmarked(manager, plugin)
    if unmarked:
        near = suggestion(unmarked[0], hooks) if unmarked[0] not in hooks else ""
        raise PluginError(f"{', '.join(unmarked)} without the mark @hookimpl: kdlgt would never call it.{near}")
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(_misspelt(manager, plugin, hooks) or str(error)) from error
    if not manager.get_hookcallers(plugin):
        raise PluginError(f"it has no hook; mark a function with @hookimpl, one of: {', '.join(hooks)}")
    return manager


def _unmarked(manager: pluggy.PluginManager, plugin: object) -> list[str]:
    """Functions that look like hooks and lack the mark; pluggy passes over them in silence."""
    own = [name for name in dir(plugin) if name.startswith(_PREFIX) and inspect.isroutine(getattr(plugin, name))]
    return [name for name in own if manager.parse_hookimpl_opts(plugin, name) is None]


def _misspelt(manager: pluggy.PluginManager, plugin: object, hooks: list[str]) -> str:
    for name in dir(plugin):
        if name not in hooks and manager.parse_hookimpl_opts(plugin, name) is not None:
            return f"unknown hook {name!r}; hooks: {', '.join(hooks)}.{suggestion(name, hooks)}"
    return ""


def _implementations(manager: pluggy.PluginManager, extension: Extension) -> Iterator[pluggy.HookImpl]:
    for hook in getattr(manager.hook, extension.hook).get_hookimpls():
        if hook.wrapper or hook.hookwrapper:
            raise PluginError(
                f"{extension.hook} is marked as a wrapper; there is nothing to wrap, use a plain @hookimpl"
            )
        yield hook


def _call(hook: pluggy.HookImpl, extension: Extension) -> list[Any]:
    # Called directly, not through the hook caller: pluggy drops a result None without a word.
    try:
        returned = hook.function()
        if not isinstance(returned, Iterable) or isinstance(returned, str | Mapping):
            raise PluginError(
                f"{extension.hook} returned {shown(returned)}; it must return a list of {_expected(extension)}"
            )
        return list(returned)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"{extension.hook} raised {_raised(error)}") from error


def _expected(extension: Extension) -> str:
    return f"{extension.spec.__name__} values"


def _twice(specs: list[Any], extension: Extension) -> list[str]:
    names = [spec.name for spec in specs if isinstance(spec, Spec)]
    return [
        f"{extension.hook} returned the name {shown(name)} twice"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def _raised(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    place = f" ({pathlib.Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename in (__file__, importlib.metadata.__file__, importlib.__file__)

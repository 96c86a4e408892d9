"""The registry: every component that the installed plugins provide, by kind and name."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import attrs

from kdlgt.errors import ConfigError, PluginError, UnknownNameError, suggestion, unknown_name
from kdlgt.registry.faults import RejectedError, faults_message
from kdlgt.registry.hookspecs import GROUP
from kdlgt.registry.loading import BrokenPlugin, Plugin, load_entry_point, read_plugin
from kdlgt.registry.specs import (
    EXTENSIONS,
    AbsoluteSpec,
    ComponentKind,
    DatasetSpec,
    FeatureMapSpec,
    RPESpec,
    Spec,
)
from kdlgt.registry.strict import strict_converter

if TYPE_CHECKING:
    import pathlib
    from importlib.metadata import EntryPoint

    from kdlgt.features import FeatureMap
    from kdlgt.graph import Structure
    from kdlgt.rpe import RPE

ALLOW_VARIABLE = "KDLGT_PLUGINS"
BLOCK_VARIABLE = "KDLGT_BLOCK_PLUGINS"
EVERYTHING = "*"

_FEW = 2
"""So many broken plugins are explained where a name is missing; more are counted."""


@attrs.frozen
class Conflict:
    """A name that several plugins provide; none of them wins.

    Attributes:
        kind: kind of the component.
        name: the name.
        owners: each distribution with its entry point, in words.
    """

    kind: ComponentKind
    name: str
    owners: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{EXTENSIONS[self.kind].label} {self.name!r} is provided by {' and by '.join(self.owners)}; uninstall one "
            f"of them, or block its entry point with {BLOCK_VARIABLE}"
        )


@attrs.frozen(kw_only=True, eq=False)
class Registry:
    """A frozen value: what plugins provide. Make it with :func:`load_plugins`; ``Registry()`` is empty.

    Pickling stores how it was made, and loads the plugins again where it is unpickled, as in a Ray worker.

    Attributes:
        plugins: the plugins that work, by entry-point name.
        broken: the plugins that do not, with reasons.
        blocked: entry-point names that were left out on request.
    """

    plugins: tuple[Plugin, ...] = ()
    broken: tuple[BrokenPlugin, ...] = ()
    blocked: tuple[str, ...] = ()
    _origin: tuple[tuple[str, ...] | None, tuple[str, ...]] | None = None
    _added: tuple[tuple[object, str, str], ...] = ()

    def with_plugin(self, plugin: object, *, owner: str = "this session", name: str | None = None) -> Registry:
        """A registry that also holds a module or object with hooks, such as one written in a notebook.

        Adding a plugin of the same name and owner again replaces it.

        Raises:
            PluginError: the plugin cannot be used.
        """
        own = name or getattr(plugin, "__name__", None) or type(plugin).__name__
        try:
            loaded = read_plugin(plugin, own, owner)
        except PluginError as error:
            raise PluginError(f"plugin {own!r} ({owner}): {error}") from error
        kept = [old for old in self.plugins if (old.name, old.owner) != (own, owner)]
        added = [entry for entry in self._added if entry[1:] != (owner, own)]
        return attrs.evolve(self, plugins=(*kept, loaded), added=(*added, (plugin, owner, own)))

    def __reduce__(self) -> tuple[Callable[..., Registry], tuple[Any, ...]]:
        added = tuple((_portable(plugin), owner, name) for plugin, owner, name in self._added)
        return _reload, (self._origin, added)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Names that several plugins provide."""
        return tuple(
            Conflict(kind, name, tuple(f"{plugin.owner} (entry point {plugin.name!r})" for plugin, _ in claims))
            for kind in EXTENSIONS
            for name, claims in self._claims(kind).items()
            if len(claims) > 1
        )

    def specs(self, kind: ComponentKind) -> dict[str, Spec]:
        """All usable specs of one kind by name, sorted."""
        return {name: claims[0][1] for name, claims in self._claims(kind).items() if len(claims) == 1}

    def _claims(self, kind: ComponentKind) -> dict[str, list[tuple[Plugin, Spec]]]:
        claims: dict[str, list[tuple[Plugin, Spec]]] = {}
        for plugin in self.plugins:
            for spec in plugin.specs.get(kind, ()):
                claims.setdefault(spec.name, []).append((plugin, spec))
        return dict(sorted(claims.items()))

    @property
    def rpe_specs(self) -> dict[str, RPESpec]:
        """Relative positional encodings by name."""
        return cast("dict[str, RPESpec]", self.specs("rpe"))

    @property
    def absolute_specs(self) -> dict[str, AbsoluteSpec]:
        """Absolute encodings by name."""
        return cast("dict[str, AbsoluteSpec]", self.specs("absolute"))

    @property
    def feature_map_specs(self) -> dict[str, FeatureMapSpec]:
        """Feature maps by name."""
        return cast("dict[str, FeatureMapSpec]", self.specs("feature_map"))

    @property
    def dataset_specs(self) -> dict[str, DatasetSpec]:
        """Data sets by name."""
        return cast("dict[str, DatasetSpec]", self.specs("dataset"))

    def spec(self, kind: ComponentKind, name: str) -> Spec:
        """The spec of a component.

        Raises:
            UnknownNameError: no usable plugin provides it; names the broken plugins that might.
            PluginError: several plugins provide it; names their owners.
        """
        specs = self.specs(kind)
        if name in specs:
            return specs[name]
        for conflict in self.conflicts:
            if (conflict.kind, conflict.name) == (kind, name):
                raise PluginError(str(conflict))
        error = unknown_name(EXTENSIONS[kind].label, name, specs)
        raise UnknownNameError(f"{error}{self._elsewhere(name)}")

    def _elsewhere(self, name: str) -> str:
        """Where a missing name may come from: a broken plugin of this name, else any broken one, or a blocked one."""
        likely = [plugin for plugin in self.broken if plugin.name == name] or self.broken
        text = ""
        if 0 < len(likely) <= _FEW:
            reasons = "; ".join(f"{plugin.name!r} of {plugin.owner}: {plugin.reason}" for plugin in likely)
            text = f" It may belong to a broken plugin: {reasons}."
        elif likely:
            text = f" {len(likely)} plugins are broken and may provide it; `kdlgt plugins` says why."
        if name in self.blocked:
            text += f" The plugin {name!r} is installed but blocked; see {ALLOW_VARIABLE} and {BLOCK_VARIABLE}."
        return text

    def options(self, kind: ComponentKind, name: str, given: Mapping[str, Any]) -> Any:
        """The typed options of a component from plain values, strictly.

        Raises:
            UnknownNameError: no usable plugin provides the name.
            ConfigError: an unknown option, a wrong type, a value out of range; all of them in one message.
        """
        spec = self.spec(kind, name)
        try:
            return strict_converter().structure(given, spec.options)
        except RejectedError as error:
            raise ConfigError(faults_message(f"{EXTENSIONS[kind].label} {name!r}", error.faults)) from None

    def rpe(self, name: str, *, heads: int, channels: int | None = None, **options: Any) -> RPE:
        """Build a relative positional encoding; ``channels`` is the width of the node states, where it reads them."""
        typed = self.options("rpe", name, options)
        return self.rpe_specs[name].factory(heads, channels or 0, typed)

    def absolute(self, name: str, **options: Any) -> Structure:
        """Build an absolute encoding."""
        return self.absolute_specs[name].factory(self.options("absolute", name, options))

    def feature_map(self, name: str, *, dim: int, heads: int, **options: Any) -> FeatureMap:
        """Build a feature map of queries and keys of width ``dim``."""
        typed = self.options("feature_map", name, options)
        return self.feature_map_specs[name].factory(dim, heads, typed)

    def dataset(self, name: str, *, root: str | pathlib.Path | None = None, **options: Any) -> Any:
        """Load a data set from the folder ``root``."""
        typed = self.options("dataset", name, options)
        return self.dataset_specs[name].factory(root, typed)


def load_plugins(allow: str | Iterable[str] | None = None, block: str | Iterable[str] | None = None) -> Registry:
    """Load the plugins of the entry-point group ``kdlgt``, in the order of their names.

    A plugin that cannot be used is listed in ``broken`` and leaves the others usable. Nothing is kept between calls.

    Args:
        allow: entry-point names to load, as a list or separated by commas; ``None`` reads ``KDLGT_PLUGINS``, and loads
            all where that is unset. The core's own feature maps and data sets are always allowed.
        block: entry-point names to leave out, ``*`` for all but the core's own; ``None`` reads ``KDLGT_BLOCK_PLUGINS``.
    """
    allowed = _listed(os.environ.get(ALLOW_VARIABLE, "")) or None if allow is None else _listed(allow)
    unwanted = _listed(os.environ.get(BLOCK_VARIABLE, "") if block is None else block)
    entries = sorted(importlib.metadata.entry_points(group=GROUP), key=_order)
    chosen = [entry for entry in entries if _wanted(entry, allowed, unwanted)]
    loaded = [load_entry_point(entry) for entry in chosen]
    return Registry(
        plugins=tuple(plugin for plugin in loaded if isinstance(plugin, Plugin)),
        broken=(
            *(plugin for plugin in loaded if isinstance(plugin, BrokenPlugin)),
            *_missing(allowed or (), {entry.name for entry in entries}),
        ),
        blocked=tuple(dict.fromkeys(entry.name for entry in entries if entry not in chosen)),
        origin=(allowed, unwanted),
    )


def _listed(names: str | Iterable[str]) -> tuple[str, ...]:
    given = names.split(",") if isinstance(names, str) else names
    return tuple(name.strip() for name in given if name.strip())


def _order(entry: EntryPoint) -> tuple[str, str, str]:
    return entry.name, entry.dist.metadata["Name"] if entry.dist else "", entry.value


def _wanted(entry: EntryPoint, allowed: tuple[str, ...] | None, unwanted: tuple[str, ...]) -> bool:
    own = entry.value.startswith(f"{GROUP}.")
    if entry.name in unwanted or (EVERYTHING in unwanted and not own):
        return False
    return own or allowed is None or entry.name in allowed


def _missing(allowed: Iterable[str], installed: Iterable[str]) -> list[BrokenPlugin]:
    names = sorted(installed)
    return [
        BrokenPlugin(
            name,
            "no distribution",
            f"asked for, but not installed; installed: {', '.join(names)}.{suggestion(name, names)}",
        )
        for name in allowed
        if name not in names
    ]


def _portable(plugin: object) -> object:
    return _ModuleName(plugin.__name__) if isinstance(plugin, ModuleType) else plugin


@attrs.frozen
class _ModuleName:
    name: str


def _reload(
    origin: tuple[tuple[str, ...] | None, tuple[str, ...]] | None, added: Iterable[tuple[object, str, str]]
) -> Registry:
    registry = Registry() if origin is None else load_plugins(*origin)
    for plugin, owner, name in added:
        found = importlib.import_module(plugin.name) if isinstance(plugin, _ModuleName) else plugin
        registry = registry.with_plugin(found, owner=owner, name=name)
    return registry

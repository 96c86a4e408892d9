"""The whole extension surface of kdlgt, on one page.

A plugin is a module (or object) named in the entry-point group ``kdlgt``. It marks functions with :data:`hookimpl`::

    from kdlgt.registry import RPESpec, hookimpl

    @hookimpl
    def kdlgt_rpes():
        return [RPESpec(name="mine", factory=MyRPE, options=MyOptions, kind="kernel", ...)]

and every function returns frozen specs. Nothing is registered as a side effect of an import.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from kdlgt.registry.specs import AbsoluteSpec, DatasetSpec, FeatureMapSpec, RPESpec

GROUP = "kdlgt"

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def kdlgt_rpes() -> Iterable[RPESpec]:
    """Relative positional encodings that this plugin provides."""
    raise NotImplementedError


@hookspec
def kdlgt_absolute_encodings() -> Iterable[AbsoluteSpec]:
    """Absolute positional encodings, added to the node states, that this plugin provides."""
    raise NotImplementedError


@hookspec
def kdlgt_feature_maps() -> Iterable[FeatureMapSpec]:
    """Feature maps for linear attention that this plugin provides."""
    raise NotImplementedError


@hookspec
def kdlgt_datasets() -> Iterable[DatasetSpec]:
    """Data sets that this plugin provides."""
    raise NotImplementedError

"""What a plugin returns: frozen specs, one class per kind of component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.features import FeatureMap
from kdlgt.rpe import RPE

Kind = Literal["multiplicative", "additive", "kernel", "ineffective", "sparse"]
Exactness = Literal["exact", "unbiased", "biased"]
Equivariance = Literal["exact", "in law"]


@attrs.frozen(kw_only=True)
class Spec:
    """What every component declares.

    Attributes:
        name: the name in configs; lower case letters, digits, ``-`` and ``_``.
        options: a frozen attrs class; its fields are the keys a config may set, with their types and defaults.
        summary: one line for ``kdlgt plugins``.
        source: the paper or reference.
        owner: the owning distribution and version, filled in by the registry.
    """

    name: str
    options: type[Any]
    summary: str
    source: str = ""
    owner: str = ""


@attrs.frozen(kw_only=True)
class RPESpec(Spec):
    """A relative positional encoding.

    Attributes:
        factory: ``factory(heads, channels, options) -> RPE``; channels is the width of the node states.
        kind: what its value lowers to.
        exactness: whether the linear form equals the reference: exactly, in expectation, or approximately.
        symmetric: whether B is symmetric.
        equivariance: whether preparation commutes with node relabelling exactly, or in law where ties need a choice.
        complexity: time and memory in the usual symbols, e.g. ``O(N K r d)``.
        reference: ``reference(rpe, data) -> B`` [H, N, N] float64 by the slow, obvious O(N^2) way on one graph.
    """

    factory: Callable[[int, int, Any], RPE]
    kind: Kind
    exactness: Exactness = "exact"
    symmetric: bool = True
    equivariance: Equivariance = "exact"
    complexity: str = ""
    reference: Callable[[RPE, Data], Tensor] | None = None


@attrs.frozen(kw_only=True)
class FeatureMapSpec(Spec):
    """A feature map: ``factory(dim, heads, options) -> FeatureMap``."""

    factory: Callable[[int, int, Any], FeatureMap]
    estimates_softmax: bool = True


@attrs.frozen(kw_only=True)
class DatasetSpec(Spec):
    """A data set: ``factory(root, options) -> kdlgt.data.DataBundle`` given the data folder.

    Attributes:
        level: whether labels belong to nodes or to graphs.
    """

    factory: Callable[..., Any]
    level: Literal["node", "graph"]

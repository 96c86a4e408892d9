"""What a plugin returns: frozen specs, one class per kind of component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import attrs

if TYPE_CHECKING:
    # Only for type checkers: listing plugins and reading a config must not wait for torch.
    from torch import Tensor
    from torch_geometric.data import Data

    from kdlgt.features import FeatureMap
    from kdlgt.graph import Structure
    from kdlgt.rpe import RPE

Kind = Literal["multiplicative", "additive", "kernel", "ineffective", "sparse"]
Exactness = Literal["exact", "unbiased", "biased"]
Equivariance = Literal["exact", "in law"]


@attrs.frozen(kw_only=True)
class Spec:
    """What every component declares.

    Attributes:
        name: the name in configs; lower case letters, digits, ``-``, ``_`` and ``+``.
        options: a frozen attrs class; its fields are the keys a config may set, with their types and defaults. Types
            are int, float, str, bool, Path, Literal, tuple, another frozen attrs class, and unions of these and None.
        summary: one line for ``kdlgt plugins``.
        source: the paper or reference.
        variants: options that the conformance kit checks beside the defaults and each choice of their typed fields.
        owner: the owning distribution and version, filled in by the registry.
    """

    name: str
    options: type[Any]
    summary: str
    source: str = ""
    variants: tuple[Any, ...] = ()
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
        reference: ``reference(rpe, data) -> B`` [H, N, N] float64 the slow, obvious O(N^2) way, on one prepared graph.
        refinements: for a biased encoding, series of options from coarse to fine; the error falls along each.
    """

    factory: Callable[[int, int, Any], RPE]
    kind: Kind
    exactness: Exactness = "exact"
    symmetric: bool = True
    equivariance: Equivariance = "exact"
    complexity: str = ""
    reference: Callable[[RPE, Data], Tensor] | None = None
    refinements: tuple[tuple[Any, ...], ...] = ()


@attrs.frozen(kw_only=True)
class FeatureMapSpec(Spec):
    """A feature map: ``factory(dim, heads, options) -> FeatureMap``."""

    factory: Callable[[int, int, Any], FeatureMap]
    estimates_softmax: bool = True


@attrs.frozen(kw_only=True)
class DatasetSpec(Spec):
    """A data set: ``factory(root, options) -> kdlgt.data.RawData``, given the data folder or ``None`` to download.

    The core validates what comes back, splits it and prepares the structure of the encodings.

    Attributes:
        level: whether labels belong to nodes or to graphs.
    """

    factory: Callable[..., Any]
    level: Literal["node", "graph"]


@attrs.frozen(kw_only=True)
class AbsoluteSpec(Spec):
    """An absolute encoding, added to the node states: ``factory(options) -> Structure``.

    The structure computes one field, ``encoding`` [N, width], and has the attribute ``width``.
    """

    factory: Callable[[Any], Structure]


ComponentKind = Literal["rpe", "feature_map", "dataset", "absolute"]


@attrs.frozen(kw_only=True)
class Extension:
    """A kind of component that plugins provide.

    Attributes:
        label: the kind in words, for messages.
        hook: the hook that returns specs of this kind.
        spec: their class.
        arguments: positional arguments of the factory; no option may have the name of one, nor be called ``name``.
    """

    label: str
    hook: str
    spec: type[Spec]
    arguments: tuple[str, ...]


EXTENSIONS: Mapping[ComponentKind, Extension] = MappingProxyType(
    {
        "rpe": Extension(label="RPE", hook="kdlgt_rpes", spec=RPESpec, arguments=("heads", "channels", "options")),
        "absolute": Extension(
            label="absolute encoding", hook="kdlgt_absolute_encodings", spec=AbsoluteSpec, arguments=("options",)
        ),
        "feature_map": Extension(
            label="feature map", hook="kdlgt_feature_maps", spec=FeatureMapSpec, arguments=("dim", "heads", "options")
        ),
        "dataset": Extension(label="data set", hook="kdlgt_datasets", spec=DatasetSpec, arguments=("root", "options")),
    }
)

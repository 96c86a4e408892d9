"""The core's own feature maps, on the same road as anybody's: the entry point ``features`` of the group ``kdlgt``."""

from __future__ import annotations

import attrs

from kdlgt.features.conditioned import Conditioned
from kdlgt.features.elementwise import EluPlusOne, Relu
from kdlgt.features.protocol import FeatureMap
from kdlgt.features.random import (
    FavorPlus,
    FavorPlusPlus,
    Hyperbolic,
    HyperbolicPlusPlus,
    RandomProjection,
    Trigonometric,
)
from kdlgt.registry import FeatureMapSpec, hookimpl

_PERFORMER = "Choromanski et al., Rethinking Attention with Performers, ICLR 2021"


@attrs.frozen(kw_only=True)
class ProjectionOptions:
    """Options of every map made of Gaussian projections.

    Attributes:
        num_features: r, the number of features per head.
        orthogonal: rows orthogonal within blocks, instead of independent.
        seed: seed of the draw.
    """

    num_features: int = attrs.field(default=64, validator=attrs.validators.ge(1))
    orthogonal: bool = True
    seed: int = attrs.field(default=0, validator=attrs.validators.ge(0))


@attrs.frozen(kw_only=True)
class NoOptions:
    """A map without options."""


def _projected(cls: type[RandomProjection], dim: int, heads: int, options: ProjectionOptions) -> RandomProjection:
    return cls(dim, options.num_features, heads, orthogonal=options.orthogonal, seed=options.seed)


def _tuned(cls: type[FavorPlusPlus], dim: int, heads: int, options: ProjectionOptions) -> FeatureMap:
    """A map with its constant following the moments of queries and keys."""
    return Conditioned(_projected(cls, dim, heads, options), centre=False, balance=False)


@hookimpl
def kdlgt_feature_maps() -> list[FeatureMapSpec]:
    """FAVOR+, FAVOR++, hyperbolic, both of these combined, trigonometric, elu + 1, ReLU."""
    return [
        FeatureMapSpec(
            name="favor+",
            factory=lambda dim, heads, options: _projected(FavorPlus, dim, heads, options),
            options=ProjectionOptions,
            summary="positive random features, unbiased for exp(q.k)",
            source=_PERFORMER,
        ),
        FeatureMapSpec(
            name="favor++",
            factory=lambda dim, heads, options: _tuned(FavorPlusPlus, dim, heads, options),
            options=ProjectionOptions,
            summary="optimal positive features, unbiased for exp(q.k); tuned to the moments of queries and keys",
            source="Likhosherstov et al., Chefs' Random Tables, NeurIPS 2022",
        ),
        FeatureMapSpec(
            name="hyperbolic",
            factory=lambda dim, heads, options: _projected(Hyperbolic, dim, heads, options),
            options=ProjectionOptions,
            summary="positive features in pairs exp(+-w.x), unbiased for exp(q.k)",
            source=_PERFORMER,
        ),
        FeatureMapSpec(
            name="hyperbolic++",
            factory=lambda dim, heads, options: _tuned(HyperbolicPlusPlus, dim, heads, options),
            options=ProjectionOptions,
            summary="FAVOR++ in pairs +-w.x, unbiased for exp(q.k); tuned to the moments of queries and keys",
            source="Choromanski et al., ICLR 2021, and Likhosherstov et al., NeurIPS 2022, combined",
        ),
        FeatureMapSpec(
            name="trigonometric",
            factory=lambda dim, heads, options: _projected(Trigonometric, dim, heads, options),
            options=ProjectionOptions,
            summary="random Fourier features as in RFA, unbiased for exp(q.k) but of either sign",
            source="Peng et al., Random Feature Attention, ICLR 2021",
        ),
        FeatureMapSpec(
            name="elu+1",
            factory=lambda dim, heads, options: EluPlusOne(dim, heads),
            options=NoOptions,
            summary="elu(x) + 1 entry by entry; its own kernel, not the softmax's",
            source="Katharopoulos et al., Transformers are RNNs, ICML 2020",
            estimates_softmax=False,
        ),
        FeatureMapSpec(
            name="relu",
            factory=lambda dim, heads, options: _projected(Relu, dim, heads, options),
            options=ProjectionOptions,
            summary="relu of projections; its own kernel, not the softmax's",
            source=_PERFORMER,
            estimates_softmax=False,
        ),
    ]

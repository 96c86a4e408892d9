"""The core's own feature maps, on the same road as anybody's: the entry point ``features`` of the group ``kdlgt``."""

from __future__ import annotations

import attrs

from kdlgt.features.favor import FavorPlus
from kdlgt.registry import FeatureMapSpec, hookimpl


@attrs.frozen(kw_only=True)
class FavorPlusOptions:
    """Options of FAVOR+.

    Attributes:
        num_features: r, the number of features per head.
        orthogonal: rows orthogonal within blocks, instead of independent.
        seed: seed of the draw.
    """

    num_features: int = attrs.field(default=64, validator=attrs.validators.ge(1))
    orthogonal: bool = True
    seed: int = attrs.field(default=0, validator=attrs.validators.ge(0))


def _favor_plus(dim: int, heads: int, options: FavorPlusOptions) -> FavorPlus:
    return FavorPlus(dim, options.num_features, heads, orthogonal=options.orthogonal, seed=options.seed)


@hookimpl
def kdlgt_feature_maps() -> list[FeatureMapSpec]:
    """FAVOR+."""
    return [
        FeatureMapSpec(
            name="favor+",
            factory=_favor_plus,
            options=FavorPlusOptions,
            summary="positive orthogonal random features, unbiased for exp(q.k)",
            source="Choromanski et al., Rethinking Attention with Performers, ICLR 2021",
        )
    ]

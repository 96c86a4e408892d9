"""SAPD: shortest anchored path distance, an encoding of distances in linear time (paper section 4.3)."""

from __future__ import annotations

from kdlgt.registry import RPESpec, hookimpl


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encoding ``sapd``."""
    from kdlgt_sapd.reference import dense_sapd
    from kdlgt_sapd.sapd import SAPD, SapdOptions

    return [
        RPESpec(
            name="sapd",
            factory=lambda heads, channels, options: SAPD(heads, options),
            options=SapdOptions,
            kind="kernel",
            exactness="exact",
            symmetric=True,
            equivariance="in law",
            complexity="O(N K r d); preparation O(K (N + E))",
            summary="distance through anchors: c times a soft minimum over anchors a of d(i, a) + d(a, j)",
            source="KDLGT (IJCAI 2023), section 4.3; the softmin pooling is ours",
            reference=dense_sapd,
            variants=(SapdOptions(k=1, max_anchors=2), SapdOptions(k=1, max_anchors=2, pooling="mean")),
        )
    ]

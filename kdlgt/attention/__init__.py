"""Attention over packed graphs with a decomposed bias: linear, and the exact quadratic reference."""

from kdlgt.attention.exact import exact_attention
from kdlgt.attention.health import AttentionHealth, attention_health
from kdlgt.attention.inputs import AttentionInputs
from kdlgt.attention.layout import Layout
from kdlgt.attention.linear import linear_attention

__all__ = [
    "AttentionHealth",
    "AttentionInputs",
    "Layout",
    "attention_health",
    "exact_attention",
    "linear_attention",
]

"""Attention over packed graphs with a decomposed bias: linear, and the exact quadratic reference."""

from kdlgt.attention.exact import exact_attention
from kdlgt.attention.inputs import AttentionInputs
from kdlgt.attention.layout import Layout
from kdlgt.attention.linear import linear_attention

__all__ = ["AttentionInputs", "Layout", "exact_attention", "linear_attention"]

"""``train.compile``: which parts of a model go through ``torch.compile``."""

from __future__ import annotations

from kdlgt.model import GraphTransformer, TransformerLayer


def compile_blocks(model: GraphTransformer) -> None:
    """Compile the feed-forward blocks in place; names in the state dict stay as they are.

    The rest passes frozen values between modules (segments, decompositions, log-features), and torch 2.13's tracer
    fails on the constructors that attrs writes for them.
    """
    for layer in model.layers:
        if isinstance(layer, TransformerLayer) and layer.feed_forward is not None:
            layer.feed_forward.compile(dynamic=True)

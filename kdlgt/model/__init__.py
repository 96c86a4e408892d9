"""The generic linear graph transformer and its parts."""

from kdlgt.model.attention_block import AttentionBlock, evaluate_rpe, head_width, tempered
from kdlgt.model.degree import Degree
from kdlgt.model.encoder import (
    AbsoluteEncoding,
    DegreeEncoder,
    EdgeEncoder,
    EmbeddingEncoder,
    LinearEncoder,
    NodeEncoder,
    feature_encoder,
)
from kdlgt.model.health import LayerInputs, ModelHealth, layer_inputs, model_health
from kdlgt.model.layer import TransformerLayer, make_norm
from kdlgt.model.local import CONVS, LocalBranch, takes_edges
from kdlgt.model.readout import GraphHead, NodeHead
from kdlgt.model.segments import Segment, plan_segments
from kdlgt.model.transformer import GraphTransformer

__all__ = [
    "CONVS",
    "AbsoluteEncoding",
    "AttentionBlock",
    "Degree",
    "DegreeEncoder",
    "EdgeEncoder",
    "EmbeddingEncoder",
    "GraphHead",
    "GraphTransformer",
    "LayerInputs",
    "LinearEncoder",
    "LocalBranch",
    "ModelHealth",
    "NodeEncoder",
    "NodeHead",
    "Segment",
    "TransformerLayer",
    "evaluate_rpe",
    "feature_encoder",
    "head_width",
    "layer_inputs",
    "make_norm",
    "model_health",
    "plan_segments",
    "takes_edges",
    "tempered",
]

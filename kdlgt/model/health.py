"""The health of every attention layer of a model on a batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition
from kdlgt.attention import AttentionHealth, attention_health
from kdlgt.attention.health import collapse_message
from kdlgt.errors import ApproximationWarning, ArgumentError
from kdlgt.features import FeatureMap
from kdlgt.model.attention_block import AttentionBlock, evaluate_rpe
from kdlgt.model.segments import Segment
from kdlgt.model.transformer import GraphTransformer
from kdlgt.rpe import RPE


@attrs.frozen(eq=False, kw_only=True)
class LayerInputs:
    """What the linear attention of one layer is given, in the arguments of :func:`kdlgt.linear_attention`.

    Attributes:
        q, k, v: [N, H, d].
        bias: the encoding's value.
        ptr: [G + 1] first nodes.
        scale: factor of ``q k^T``.
        features: the layer's feature map.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Decomposition | None
    ptr: Tensor
    scale: float | None
    features: FeatureMap


@attrs.frozen(eq=False, kw_only=True)
class ModelHealth:
    """A report per layer; ``None`` where every graph of the batch attends exactly.

    Attributes:
        layers: the reports, bottom first.
    """

    layers: tuple[AttentionHealth | None, ...]

    @property
    def collapsed(self) -> bool:
        """Whether any head of any layer has collapsed."""
        return any(any(layer.collapsed) for layer in self.layers if layer is not None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: one entry per layer and head."""
        return {
            "collapsed": self.collapsed,
            "heads": [
                {"layer": number, **head}
                for number, layer in enumerate(self.layers)
                if layer is not None
                for head in layer.to_dict()
            ],
        }


def model_health(
    model: GraphTransformer, batch: Data, *, rows: int = 64, seed: int = 0, warn: bool = True
) -> ModelHealth:
    """Measure the linear attention of every layer on sampled nodes of a batch, in evaluation mode.

    A model in exact mode is measured as its linear twin would run on the exact states of the layers before.

    Args:
        model: the model; its state does not change.
        batch: a prepared batch.
        rows: nodes to sample in each layer.
        seed: seed of the sample.
        warn: warn once per layer that has collapsed.

    Raises:
        ArgumentError: the model has no attention layer, or ``rows`` is below 1.
    """
    if not model.attention_blocks:
        raise ArgumentError("the model has no attention layer (attend = false); there is nothing to measure")
    reports: list[AttentionHealth | None] = []
    for number, inputs in enumerate(layer_inputs(model, batch)):
        report = None if inputs is None else _layer_health(inputs, rows, seed + number)
        if warn and report is not None and any(report.collapsed):
            message = collapse_message(report, f"linear attention of layer {number}")
            warnings.warn(message, ApproximationWarning, stacklevel=2)
        reports.append(report)
    return ModelHealth(layers=tuple(reports))


def _layer_health(inputs: LayerInputs, rows: int, seed: int) -> AttentionHealth:
    return attention_health(
        inputs.q,
        inputs.k,
        inputs.bias,
        ptr=inputs.ptr,
        features=inputs.features,
        scale=inputs.scale,
        rows=rows,
        generator=torch.Generator().manual_seed(seed),
        warn=False,
    )


def layer_inputs(model: GraphTransformer, batch: Data) -> tuple[LayerInputs | None, ...]:
    """What each layer's linear attention is given, from one forward pass in evaluation mode.

    ``None`` where all graphs attend exactly under ``auto``; a model in exact mode gives what its linear twin would get.
    """
    found: list[LayerInputs | None] = []

    def record(block: nn.Module, arguments: tuple[Any, ...]) -> None:
        assert isinstance(block, AttentionBlock)
        states, segments = arguments[:2]
        chosen = [attrs.evolve(part, exact=False) for part in segments if not part.exact or model.mode == "exact"]
        found.append(_inputs(block, model.shared_rpe, chosen[0], states) if chosen else None)

    hooks = [block.register_forward_pre_hook(record) for block in model.attention_blocks]
    try:
        with torch.no_grad(), _evaluating(model):
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(found)


def _inputs(block: AttentionBlock, shared: RPE | None, segment: Segment, states: Tensor) -> LayerInputs:
    rpe = shared if block.rpe is None else block.rpe
    own = segment.pick(states)
    q, k, v = block.project(own)
    return LayerInputs(
        q=q,
        k=k,
        v=v,
        bias=None if rpe is None else evaluate_rpe(rpe, segment, own),
        ptr=segment.ptr,
        scale=block.scale,
        features=block.features,
    )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and each module's own mode again afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training

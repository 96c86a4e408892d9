"""What ``kdlgt bench attention`` measures: attention layers on one random 6-regular graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import attrs
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, lower
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.experiments.benchmark import chosen
from kdlgt.experiments.measure import Actions, Build
from kdlgt.features import FavorPlus
from kdlgt.graph import Prepare
from kdlgt.graph.generate import random_regular
from kdlgt.model import AttentionBlock, head_width, plan_segments
from kdlgt.registry import load_plugins

DEGREE = 6
ACTIONS = ("forward", "training step")
Implementation = Literal["fused", "dense"]


@attrs.frozen(kw_only=True)
class AttentionSettings:
    """Sizes of the attention that is measured.

    Attributes:
        hidden: width of the states; a head has ``hidden / heads``.
        heads: number of heads.
        features: r, the number of random features.
        rpe: name of an installed encoding with its default options, or ``None``.
        device: ``cpu`` or ``cuda``.
        seed: seed of graph, inputs and projections.
    """

    hidden: int = 64
    heads: int = 4
    features: int = 64
    rpe: str | None = None
    device: str = "cpu"
    seed: int = 0


def attention_methods(settings: AttentionSettings, names: tuple[str, ...] = ()) -> dict[str, Callable[[int], Build]]:
    """The methods by name, those asked for or all, each from a number of nodes to its work.

    ``linear``, ``fused`` and ``dense`` start from queries, keys and values; ``floor`` is the matrix products of
    ``linear`` alone; ``block`` is linear attention with its projections, to compare with PyG's layers, which have
    them: ``performer``, ``sgformer`` and ``gps``.

    Raises:
        UnknownNameError: a name that is none of these.
    """
    return {name: functools.partial(_delayed, name, settings) for name in chosen("method", names, _METHODS)}


def _delayed(name: str, settings: AttentionSettings, nodes: int) -> Build:
    return functools.partial(_METHODS[name], settings, nodes)


@attrs.frozen(eq=False)
class _Inputs:
    q: Tensor
    k: Tensor
    v: Tensor
    bias: Decomposition | None

    @property
    def width(self) -> int:
        return self.q.size(2) + (0 if self.bias is None else lower(self.bias).factor_width)


def _inputs(settings: AttentionSettings, nodes: int) -> _Inputs:
    generator = torch.Generator().manual_seed(settings.seed)
    shape = (nodes, settings.heads, head_width(settings.hidden, settings.heads))
    q, k, v = (torch.randn(shape, generator=generator).to(settings.device).requires_grad_() for _ in range(3))
    return _Inputs(q, k, v, _bias(settings, nodes))


def _bias(settings: AttentionSettings, nodes: int) -> Decomposition | None:
    """The encoding's value on the graph, a constant."""
    if settings.rpe is None:
        return None
    rpe = load_plugins().rpe(settings.rpe, heads=settings.heads, channels=settings.hidden)
    data = Prepare(rpe.structures)(random_regular(nodes, DEGREE, settings.seed))
    states = torch.randn(nodes, settings.hidden, generator=torch.Generator().manual_seed(settings.seed))
    with torch.no_grad():
        value: Decomposition = rpe(data, states if rpe.needs_states else None)
    return value.to(settings.device)


def _favor(settings: AttentionSettings, width: int) -> FavorPlus:
    return FavorPlus(width, settings.features, settings.heads, seed=settings.seed).to(settings.device)


def _forward_and_backward(parameters: list[Tensor], function: Callable[[], Tensor]) -> Actions:
    def forward() -> None:
        with torch.no_grad():
            function()

    def training_step() -> None:
        for parameter in parameters:
            parameter.grad = None
        function().sum().backward()

    return dict(zip(ACTIONS, (forward, training_step), strict=True))


def _linear(settings: AttentionSettings, nodes: int) -> Actions:
    given = _inputs(settings, nodes)
    features = _favor(settings, given.width)
    return _forward_and_backward(
        [given.q, given.k, given.v], lambda: linear_attention(given.q, given.k, given.v, given.bias, features=features)
    )


def _exact(implementation: Implementation, settings: AttentionSettings, nodes: int) -> Actions:
    given = _inputs(settings, nodes)
    return _forward_and_backward(
        [given.q, given.k, given.v],
        lambda: exact_attention(given.q, given.k, given.v, given.bias, implementation=implementation),
    )


def _floor(settings: AttentionSettings, nodes: int) -> Actions:
    """Queries and keys times projections, keys times values, queries times state: the products alone."""
    given = _inputs(settings, nodes)
    projection = _favor(settings, given.width).projection.transpose(1, 2)
    extra = given.width - given.q.size(2)
    query, key, value = (
        torch.cat([side, side.new_zeros(*side.shape[:2], columns)], 2).detach().transpose(0, 1).contiguous()
        for side, columns in ((given.q, extra), (given.k, extra), (given.v, 1))
    )
    operands = [side.requires_grad_() for side in (query, key, value)]

    def products() -> Tensor:
        phi, psi = query @ projection, key @ projection
        return phi @ (psi.transpose(1, 2) @ value)

    return _forward_and_backward(operands, products)


def _module(settings: AttentionSettings, nodes: int, module: nn.Module, call: Callable[[Tensor], Tensor]) -> Actions:
    generator = torch.Generator().manual_seed(settings.seed)
    x = torch.randn(nodes, settings.hidden, generator=generator).to(settings.device).requires_grad_()
    module.to(settings.device)
    return _forward_and_backward([x, *module.parameters()], lambda: call(x))


def _block(settings: AttentionSettings, nodes: int) -> Actions:
    bias = _bias(settings, nodes)
    width = head_width(settings.hidden, settings.heads) + (0 if bias is None else lower(bias).factor_width)
    block = AttentionBlock(settings.hidden, settings.heads, _favor(settings, width))
    segments = plan_segments(Data(num_nodes=nodes), "linear")
    return _module(settings, nodes, block, lambda x: block(x, segments, lambda segment, states: bias))


def _performer(settings: AttentionSettings, nodes: int) -> Actions:
    from torch_geometric.nn.attention import PerformerAttention

    layer = PerformerAttention(
        settings.hidden, settings.heads, head_channels=head_width(settings.hidden, settings.heads)
    )
    return _module(settings, nodes, layer, lambda x: layer(x[None]))


def _sgformer(settings: AttentionSettings, nodes: int) -> Actions:
    from torch_geometric.nn.attention import SGFormerAttention

    layer = SGFormerAttention(
        settings.hidden, settings.heads, head_channels=head_width(settings.hidden, settings.heads)
    )
    return _module(settings, nodes, layer, lambda x: layer(x[None]))


def _gps(settings: AttentionSettings, nodes: int) -> Actions:
    from torch_geometric.nn import GPSConv

    head_channels = head_width(settings.hidden, settings.heads)
    layer = GPSConv(
        settings.hidden,
        None,
        heads=settings.heads,
        attn_type="performer",
        attn_kwargs={"head_channels": head_channels},
    )
    edges = torch.empty(2, 0, dtype=torch.long, device=settings.device)
    return _module(settings, nodes, layer, lambda x: layer(x, edges))


_METHODS: dict[str, Callable[[AttentionSettings, int], Actions]] = {
    "linear": _linear,
    "floor": _floor,
    "fused": functools.partial(_exact, "fused"),
    "dense": functools.partial(_exact, "dense"),
    "block": _block,
    "performer": _performer,
    "sgformer": _sgformer,
    "gps": _gps,
}

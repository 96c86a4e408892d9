"""Where names become objects: from a config to a model, and to what it needs prepared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from kdlgt.config.schema import Component, EncoderConfig, LocalConfig, ModelConfig
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.features import Conditioned, FeatureMap
from kdlgt.graph import Prepare, Structure
from kdlgt.model import (
    AbsoluteEncoding,
    AttentionBlock,
    Degree,
    DegreeEncoder,
    EdgeEncoder,
    GraphHead,
    GraphTransformer,
    LocalBranch,
    NodeEncoder,
    NodeHead,
    TransformerLayer,
    feature_encoder,
    head_width,
    make_norm,
    takes_edges,
)
from kdlgt.model.encoder import Features
from kdlgt.registry import AbsoluteSpec, FeatureMapSpec, Registry, RPESpec, Spec, load_plugins
from kdlgt.rpe import RPE, SumRPE

Level = Literal["node", "graph"]

BESIDE_NUMBERS = 0.02
"""Standard deviation of the degree embedding beside float features (Graphormer's); beside embeddings it is theirs."""


def build_model(
    config: ModelConfig,
    *,
    in_features: Features | None,
    out_features: int,
    level: Level = "node",
    edge_features: Features | None = None,
    degree_histogram: Tensor | None = None,
    seed: int = 0,
    registry: Registry | None = None,
) -> GraphTransformer:
    """Build the model that a config describes.

    Args:
        config: the config's ``[model]`` table.
        in_features: width of float features; vocabulary sizes of integer columns; ``None`` without features (degrees
            take their place).
        out_features: width of the outputs: classes, labels or targets.
        level: outputs per node or per graph.
        edge_features: the same as ``in_features`` for edges; used where the local branch takes them.
        degree_histogram: number of training nodes of each degree, for PNA.
        seed: seed of initialisation and projections; the global random state is neither read nor changed.
        registry: the plugins; default: all that are installed.

    Raises:
        ArgumentError: sizes that do not fit together; the message names them.
        UnknownNameError: a component that no plugin provides.
    """
    require_at_least("seed", seed, 0)
    builder = _Builder(config, load_plugins() if registry is None else registry)
    with _seeded(seed):
        model = builder.model(in_features, out_features, level, edge_features, degree_histogram)
    model.redraw(_projection_seed(seed, config.features))
    return model


def _projection_seed(seed: int, features: Component) -> int:
    """The seed of the projections: the run's, mixed with the feature map's own ``seed`` option where it has one."""
    own = getattr(features.options, "seed", 0)
    return int(np.random.SeedSequence([seed, own]).generate_state(1)[0])


def prepare(config: ModelConfig, registry: Registry | None = None, *, symmetrise: bool = False) -> Prepare:
    """The PyG transform that computes what a config's model reads: use it as ``pre_transform`` or ``transform``.

    Args:
        config: the config's ``[model]`` table.
        registry: the plugins; default: all that are installed.
        symmetrise: make directed graphs undirected instead of refusing them.
    """
    builder = _Builder(config, load_plugins() if registry is None else registry)
    with _seeded(0):
        structures = builder.structures()
    return Prepare(structures, symmetrise)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the CPU's global generator, which layers initialise from, and put its state back afterwards."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reseed every GPU too.
        torch.default_generator.manual_seed(seed)
        yield


class _Builder:
    """The config's parts, one method each."""

    def __init__(self, config: ModelConfig, registry: Registry) -> None:
        self.config = config
        self.registry = registry

    def model(
        self,
        in_features: Features | None,
        out_features: int,
        level: Level,
        edge_features: Features | None,
        degrees: Tensor | None,
    ) -> GraphTransformer:
        config = self.config
        shared = self.rpe() if config.share_rpe else None
        edges = edge_features if _uses_edges(config.local) else None
        return GraphTransformer(
            self.encoder(in_features),
            [self.layer(shared, edges is not None, degrees) for _ in range(config.layers)],
            make_norm(config.norm, config.hidden),
            self.head(out_features, level),
            edge_encoder=None if edges is None else EdgeEncoder(feature_encoder(edges, config.hidden, what="edge")),
            shared_rpe=shared,
            mode=config.attention.mode if config.attend else "linear",
            auto_threshold=config.attention.auto_threshold,
        )

    def structures(self) -> list[Structure]:
        encoder, rpe = self.config.encoder, self.rpe()
        degree = [Degree()] if encoder.degree or encoder.kind in ("auto", "degree") else []
        absolute = [self.absolute(component).structure for component in encoder.absolute]
        return [*degree, *absolute, *(() if rpe is None else rpe.structures)]

    def encoder(self, in_features: Features | None) -> NodeEncoder:
        config, hidden = self.config.encoder, self.config.hidden
        features = _chosen_features(config, in_features)
        degree_std = BESIDE_NUMBERS if isinstance(features, int) else 1.0
        return NodeEncoder(
            None if features is None else feature_encoder(features, hidden),
            DegreeEncoder(hidden, config.max_degree, degree_std) if config.degree or features is None else None,
            [self.absolute(component) for component in config.absolute],
            hidden=hidden,
            dropout=self.config.input_dropout,
        )

    def layer(self, shared: RPE | None, edges: bool, degrees: Tensor | None) -> TransformerLayer:
        config = self.config
        local = None if config.local is None else self.local(config.local, edges, degrees)
        return TransformerLayer(
            config.hidden,
            self.attention(shared) if config.attend else None,
            local,
            feed_forward=round(config.feed_forward * config.hidden),
            norm=config.norm,
            dropout=config.dropout,
            recompute=config.recompute,
        )

    def attention(self, shared: RPE | None) -> AttentionBlock:
        config, chosen = self.config, self.config.attention
        own = None if config.share_rpe else self.rpe()
        rpe = shared if own is None else own
        return AttentionBlock(
            config.hidden,
            config.heads,
            self.features(head_width(config.hidden, config.heads) + (0 if rpe is None else rpe.factor_width)),
            own,
            dropout=config.attention_dropout,
            normalise=chosen.normalise,
            implementation=chosen.exact,
        )

    def features(self, dim: int) -> FeatureMap:
        component = self.config.features
        spec = cast("FeatureMapSpec", self.registry.spec("feature_map", component.name))
        with _naming("model.features", component):
            features = spec.factory(dim, self.config.heads, _options(component, spec))
        return _balanced(features, component.name) if self.config.attention.balance else features

    def rpe(self) -> RPE | None:
        """The sum of the config's encodings, with parameters of its own; ``None`` without any."""
        if not self.config.attend or not self.config.rpe:
            return None
        return SumRPE([self.one_rpe(number, component) for number, component in enumerate(self.config.rpe)])

    def one_rpe(self, number: int, component: Component) -> RPE:
        spec = cast("RPESpec", self.registry.spec("rpe", component.name))
        with _naming(f"model.rpe.{number}", component):
            return spec.factory(self.config.heads, self.config.hidden, _options(component, spec))

    def absolute(self, component: Component) -> AbsoluteEncoding:
        spec = cast("AbsoluteSpec", self.registry.spec("absolute", component.name))
        structure: Any = spec.factory(_options(component, spec))
        return AbsoluteEncoding(structure, "encoding", structure.width)

    def local(self, local: LocalConfig, edges: bool, degrees: Tensor | None) -> LocalBranch:
        hidden = self.config.hidden
        edge_channels = hidden if edges else None
        heads = self.config.heads
        return LocalBranch(local.conv, hidden, heads=heads, edge_channels=edge_channels, degree_histogram=degrees)

    def head(self, out_features: int, level: Level) -> NodeHead | GraphHead:
        if level == "node":
            return NodeHead(self.config.hidden, out_features)
        if level == "graph":
            return GraphHead(self.config.hidden, out_features, self.config.readout, dropout=self.config.dropout)
        raise ArgumentError(f"level = {level!r}; allowed: 'node', 'graph'")


@contextlib.contextmanager
def _naming(path: str, component: Component) -> Iterator[None]:
    """Say which entry of the config a component's own refusal is about."""
    try:
        yield
    except ArgumentError as error:
        raise ArgumentError(f"{path} ({component.name}): {error}") from error


def _options(component: Component, spec: Spec) -> Any:
    return spec.options() if component.options is None else component.options


def _balanced(features: FeatureMap, name: str) -> FeatureMap:
    """The map behind centring and balancing, which only the softmax kernel does not see."""
    if not features.estimates_softmax:
        raise ArgumentError(
            f"attention.balance = true with the feature map {name!r}, which does not estimate the softmax; set balance "
            "to false, or take a map that does, such as 'favor+'"
        )
    return Conditioned(features.inner if isinstance(features, Conditioned) else features)


def _uses_edges(local: LocalConfig | None) -> bool:
    return local is not None and local.edge_features and takes_edges(local.conv)


def _chosen_features(config: EncoderConfig, in_features: Features | None) -> Features | None:
    """Which features the encoder reads, by its kind."""
    if config.kind == "degree":
        return None
    fits = {"auto": True, "linear": isinstance(in_features, int), "embedding": isinstance(in_features, tuple)}
    if not fits[config.kind]:
        expected = "float features (an int)" if config.kind == "linear" else "integer columns (a tuple of sizes)"
        raise ArgumentError(
            f"encoder.kind = {config.kind!r} needs {expected} and in_features = {in_features!r}; "
            "use encoder.kind = 'auto', or convert the features"
        )
    return in_features

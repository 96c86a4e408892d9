"""The config: frozen attrs classes, one per TOML table, with every default in sight."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs

from kdlgt.config import checks
from kdlgt.registry import ComponentKind
from kdlgt.registry.strict import SHORTHAND

AttentionMode = Literal["linear", "exact", "auto"]
ExactImplementation = Literal["fused", "dense"]
_RATIO_TOLERANCE = 1e-6

Precision = Literal["32", "64", "bf16", "16"]


@attrs.frozen(kw_only=True)
class Component:
    """A plugin by name with its typed options; in TOML the options stand beside ``name``.

    Attributes:
        name: the plugin's name.
        options: an instance of the plugin's option class, filled with its defaults.
    """

    name: str = attrs.field(metadata={SHORTHAND: True})
    options: Any = None


@attrs.frozen
class Provides:
    """Marks the type of a component with the kind of plugin that it names."""

    kind: ComponentKind


RPEComponent = Annotated[Component, Provides("rpe")]
AbsoluteComponent = Annotated[Component, Provides("absolute")]
FeatureMapComponent = Annotated[Component, Provides("feature_map")]
DatasetComponent = Annotated[Component, Provides("dataset")]


@attrs.frozen(kw_only=True)
class EncoderConfig:
    """``[model.encoder]``: from node features to states.

    Attributes:
        kind: ``auto`` takes ``linear`` for float features, ``embedding`` for integers, ``degree`` without features.
        degree: add a learned embedding of the degree (Graphormer's centrality).
        max_degree: degrees above share one entry.
        absolute: absolute encodings added to the states.
    """

    kind: Literal["auto", "linear", "embedding", "degree"] = "auto"
    degree: bool = False
    max_degree: int = attrs.field(default=64, validator=checks.integer(1))
    absolute: tuple[AbsoluteComponent, ...] = ()


@attrs.frozen(kw_only=True)
class LocalConfig:
    """``[model.local]``: a message-passing branch in parallel to attention.

    Attributes:
        conv: a PyG convolution: ``GCN``, ``GIN``, ``GINE``, ``GAT``, ``GATv2``, ``SAGE``, ``PNA``, ``GatedGCN`` ...
        edge_features: hand edge features to the branch where it takes them.
    """

    conv: str = attrs.field(default="GCN", metadata={SHORTHAND: True})
    edge_features: bool = True


@attrs.frozen(kw_only=True)
class AttentionConfig:
    """``[model.attention]``: how the softmax is computed.

    Attributes:
        mode: ``linear``, ``exact`` (the quadratic twin on the same parameters), or ``auto`` by each graph's own N.
        exact: exact attention through fused SDPA or as explicit N x N matrices.
        auto_threshold: with ``auto``, graphs up to this many nodes are exact. On a CPU exact attention is the faster up
            to about 600 nodes in training and 900 in a forward pass.
        normalise: normalise queries and keys, with a learned temperature per head.
        balance: centre and balance queries and keys: the same softmax, estimated with less variance.
        redraw_every: redraw the projections every so many training steps; 0 never.
    """

    mode: AttentionMode = attrs.field(default="linear", metadata={SHORTHAND: True})
    exact: ExactImplementation = "fused"
    auto_threshold: int = attrs.field(default=700, validator=checks.integer(0))
    normalise: bool = False
    balance: bool = False
    redraw_every: int = attrs.field(default=0, validator=checks.integer(0))


@attrs.frozen(kw_only=True)
class ModelConfig:
    """``[model]``: a generic linear graph transformer.

    Attributes:
        hidden: width of the node states, a multiple of ``heads``.
        layers: number of transformer layers.
        heads: number of attention heads.
        feed_forward: width of the feed-forward hidden layer as a multiple of ``hidden``; 0 leaves it out.
        dropout: dropout on states, feed-forward and branches.
        attention_dropout: dropout on the attention output.
        input_dropout: dropout on the input features.
        norm: normalisation layer; batch norm couples the graphs of a batch.
        attend: whether layers attend at all; false leaves the local branch alone (a plain GNN).
        readout: pooling for graph-level tasks.
        share_rpe: one set of RPE parameters for all layers (Graphormer) instead of one per layer.
        recompute: compute each layer again in the backward pass instead of keeping its intermediates: the memory of one
            layer for all, and about a third more time.
    """

    hidden: int = attrs.field(default=64, validator=checks.integer(1))
    layers: int = attrs.field(default=2, validator=checks.integer(1))
    heads: int = attrs.field(default=4, validator=checks.integer(1))
    feed_forward: float = attrs.field(default=2.0, validator=checks.non_negative)
    dropout: float = attrs.field(default=0.1, validator=checks.fraction)
    attention_dropout: float = attrs.field(default=0.0, validator=checks.fraction)
    input_dropout: float = attrs.field(default=0.0, validator=checks.fraction)
    norm: Literal["layer", "rms", "batch"] = "layer"
    attend: bool = True
    readout: Literal["mean", "sum", "max", "attention"] = "mean"
    share_rpe: bool = False
    recompute: bool = False
    attention: AttentionConfig = AttentionConfig()
    features: FeatureMapComponent = Component(name="favor+")
    rpe: tuple[RPEComponent, ...] = ()
    encoder: EncoderConfig = EncoderConfig()
    local: LocalConfig | None = None

    @heads.validator
    def _divides_hidden(self, field: attrs.Attribute[Any], value: int) -> None:
        if self.hidden % value:
            raise checks.refused(field, value, f"a divisor of hidden = {self.hidden}")


@attrs.frozen(kw_only=True)
class DataConfig:
    """``[data]``: which data set, and how it is split and batched.

    Attributes:
        dataset: the data set plugin.
        symmetrise: make directed graphs undirected instead of refusing them.
        split: ``public`` takes the data set's own split, ``random`` a seeded stratified one by ``ratios``; ``auto``
            takes the public one where there is one.
        ratios: shares of training, validation and test for a random split.
        folds: k-fold cross-validation with so many folds instead of ``split``; 0 is off.
        fold: which fold is the test part, from 0.
        split_seed: seed of the random split or the folds; ``None`` takes the run's seed.
        batch_size: graphs per batch.
        workers: loader processes.
        prepare_workers: processes that compute the structure of graphs; ``None`` takes all cores when the work is long.
        cache: keep computed structure on disk.
    """

    dataset: DatasetComponent = Component(name="digits")
    symmetrise: bool = False
    split: Literal["auto", "public", "random"] = "auto"
    ratios: tuple[float, float, float] = attrs.field(
        default=(0.7, 0.15, 0.15), validator=checks.each(checks.non_negative)
    )
    folds: int = attrs.field(default=0, validator=checks.integer(0))
    fold: int = attrs.field(default=0, validator=checks.integer(0))
    split_seed: int | None = attrs.field(default=None, validator=attrs.validators.optional(checks.seed))
    batch_size: int = attrs.field(default=128, validator=checks.integer(1))
    workers: int = attrs.field(default=0, validator=checks.integer(0))
    prepare_workers: int | None = attrs.field(default=None, validator=attrs.validators.optional(checks.integer(1)))
    cache: bool = True

    @ratios.validator
    def _shares_of_one(self, field: attrs.Attribute[Any], value: tuple[float, ...]) -> None:
        if len(value) != 3 or abs(sum(value) - 1) > _RATIO_TOLERANCE or value[0] <= 0:
            raise checks.refused(field, value, "three shares that sum to 1, the first (training) above 0")

    @folds.validator
    def _cross_validation(self, field: attrs.Attribute[Any], value: int) -> None:
        if value == 1:
            raise checks.refused(field, value, "0 (off) or an integer >= 2")

    @fold.validator
    def _one_of_the_folds(self, field: attrs.Attribute[Any], value: int) -> None:
        if value >= max(self.folds, 1):
            raise checks.refused(field, value, f"an integer below folds = {self.folds}, or 0 without folds")


@attrs.frozen(kw_only=True)
class TrainConfig:
    """``[train]``: the optimisation; the paper's settings are the defaults.

    Attributes:
        epochs: passes over the training set.
        optimizer: ``adam`` (the paper's) or ``adamw``.
        lr: initial learning rate.
        betas, eps: Adam's settings (paper section 6.1).
        weight_decay: L2 (adam) or decoupled (adamw).
        schedule: learning-rate schedule after ``warmup`` epochs.
        clip: gradient norm bound; 0 is off.
        patience: stop after so many epochs without a better validation metric; 0 is off.
        precision: ``32``, ``64``, or autocast in ``bf16`` or ``16``.
        accumulate: batches per optimiser step.
        compile: ``torch.compile`` the feed-forward blocks.
        class_weights: weigh classes by inverse frequency.
        device: where to train; ``auto`` takes a GPU where there is one.
        devices: processes that share each batch of graphs (data parallel), one per GPU or, on a CPU, over gloo.
        threads: CPU threads of each process; ``None`` takes torch's own choice. Sums over other thread counts round
            differently, so a run repeats exactly with the same number alone.
        seed: seed of initialisation, shuffling, dropout and projections.
    """

    epochs: int = attrs.field(default=100, validator=checks.integer(1))
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = attrs.field(default=1e-4, validator=checks.positive)
    betas: tuple[float, float] = attrs.field(default=(0.99, 0.999), validator=checks.each(checks.fraction))
    eps: float = attrs.field(default=1e-7, validator=checks.positive)
    weight_decay: float = attrs.field(default=0.0, validator=checks.non_negative)
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: int = attrs.field(default=0, validator=checks.integer(0))
    clip: float = attrs.field(default=0.0, validator=checks.non_negative)
    patience: int = attrs.field(default=0, validator=checks.integer(0))
    precision: Precision = "32"
    accumulate: int = attrs.field(default=1, validator=checks.integer(1))
    compile: bool = False
    class_weights: bool = False
    device: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = attrs.field(default=1, validator=checks.integer(1))
    threads: int | None = attrs.field(default=None, validator=attrs.validators.optional(checks.integer(1)))
    seed: int = attrs.field(default=0, validator=checks.seed)


@attrs.frozen(kw_only=True)
class Config:
    """A whole run: ``[data]``, ``[model]``, ``[train]``."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()

"""The config: frozen attrs classes, one per TOML table, with every default in sight."""

from __future__ import annotations

from typing import Any, Literal

import attrs

AttentionMode = Literal["linear", "exact", "auto"]
ExactImplementation = Literal["fused", "dense"]
Precision = Literal["32", "64", "bf16", "16"]


@attrs.frozen(kw_only=True)
class Component:
    """A plugin by name with its typed options; in TOML the options stand beside ``name``.

    Attributes:
        name: the plugin's name.
        options: an instance of the plugin's option class, filled with its defaults.
    """

    name: str
    options: Any = None


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
    max_degree: int = 64
    absolute: tuple[Component, ...] = ()


@attrs.frozen(kw_only=True)
class LocalConfig:
    """``[model.local]``: a message-passing branch in parallel to attention.

    Attributes:
        conv: name of a PyG convolution: ``GCN``, ``GIN``, ``GINE``, ``GAT``, ``GATv2``, ``SAGE``, ``PNA``, ``GatedGCN`` ...
        edge_features: hand edge features to the branch where it takes them.
    """

    conv: str = "GCN"
    edge_features: bool = True


@attrs.frozen(kw_only=True)
class AttentionConfig:
    """``[model.attention]``: how the softmax is computed.

    Attributes:
        mode: ``linear``, ``exact`` (the quadratic twin on the same parameters), or ``auto`` by each graph's own N.
        exact: exact attention through fused SDPA or as explicit N x N matrices.
        auto_threshold: with ``auto``, graphs up to this many nodes are exact.
        normalise: normalise queries and keys, with a learned temperature per head.
        balance: centre and balance queries and keys (variance reduction, DESIGN 3.8).
        redraw_every: redraw the projections every so many training steps; 0 never.
    """

    mode: AttentionMode = "linear"
    exact: ExactImplementation = "fused"
    auto_threshold: int = 1024
    normalise: bool = False
    balance: bool = False
    redraw_every: int = 0


@attrs.frozen(kw_only=True)
class ModelConfig:
    """``[model]``: a generic linear graph transformer.

    Attributes:
        hidden: width of the node states, a multiple of ``heads``.
        layers: number of transformer layers.
        heads: number of attention heads.
        feed_forward: width of the feed-forward hidden layer as a multiple of ``hidden``.
        dropout: dropout on states, feed-forward and branches.
        attention_dropout: dropout on the attention output.
        input_dropout: dropout on the input features.
        norm: normalisation layer; batch norm couples the graphs of a batch.
        attend: whether layers attend at all; false leaves the local branch alone (a plain GNN).
        readout: pooling for graph-level tasks.
        share_rpe: one set of RPE parameters for all layers (Graphormer) instead of one per layer.
    """

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    feed_forward: float = 2.0
    dropout: float = 0.1
    attention_dropout: float = 0.0
    input_dropout: float = 0.0
    norm: Literal["layer", "rms", "batch"] = "layer"
    attend: bool = True
    readout: Literal["mean", "sum", "max", "attention"] = "mean"
    share_rpe: bool = False
    attention: AttentionConfig = AttentionConfig()
    features: Component = Component(name="favor+")
    rpe: tuple[Component, ...] = ()
    encoder: EncoderConfig = EncoderConfig()
    local: LocalConfig | None = None


@attrs.frozen(kw_only=True)
class DataConfig:
    """``[data]``: which data set, and how it is split and batched.

    Attributes:
        dataset: the data set plugin.
        symmetrise: make directed graphs undirected instead of refusing them.
        split: ``public`` takes the data set's own split, else a seeded stratified random split by ``ratios``.
        ratios: shares of training, validation and test for a random split.
        split_seed: seed of the random split; ``None`` takes the run's seed.
        batch_size: graphs per batch.
        workers: loader processes.
    """

    dataset: Component = Component(name="digits")
    symmetrise: bool = False
    split: Literal["auto", "public", "random"] = "auto"
    ratios: tuple[float, float, float] = (0.7, 0.15, 0.15)
    split_seed: int | None = None
    batch_size: int = 128
    workers: int = 0


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
        compile: ``torch.compile`` the model.
        class_weights: weigh classes by inverse frequency.
        seed: seed of initialisation, shuffling, dropout and projections.
    """

    epochs: int = 100
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = 1e-4
    betas: tuple[float, float] = (0.99, 0.999)
    eps: float = 1e-7
    weight_decay: float = 0.0
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: int = 0
    clip: float = 0.0
    patience: int = 0
    precision: Precision = "32"
    accumulate: int = 1
    compile: bool = False
    class_weights: bool = False
    seed: int = 0


@attrs.frozen(kw_only=True)
class Config:
    """A whole run: ``[data]``, ``[model]``, ``[train]``."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()

"""From configs to models: every part by its name, seeds, and what must be prepared."""

from __future__ import annotations

import copy
import types
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

import kdlgt
import kdlgt.features.plugin
from kdlgt.algebra import Additive, Decomposition, Multiplicative
from kdlgt.config import config_from_dict
from kdlgt.config.schema import AttentionConfig, Component, Config, EncoderConfig, LocalConfig, ModelConfig
from kdlgt.errors import ArgumentError, ConfigError, NotPreparedError, UnknownNameError
from kdlgt.features import Conditioned
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.model import Degree, LocalBranch
from kdlgt.registry import AbsoluteSpec, Registry, RPESpec, hookimpl
from kdlgt.rpe import RPE, AdditiveRPE, MultiplicativeRPE


@attrs.frozen(kw_only=True)
class Options:
    width: int = 2


@attrs.frozen
class Ones(Structure):
    width: int = 2

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"encoding": torch.ones(graph.num_nodes, self.width)}


class Factors(MultiplicativeRPE):
    needs_states = True

    def __init__(self, heads: int, channels: int, width: int) -> None:
        super().__init__(heads, width)
        self.side = nn.Linear(channels, heads * width)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        assert x is not None
        factor = self.side(x).unflatten(-1, (self.heads, self.factor_width))
        return Multiplicative(factor, factor)


class Weights(AdditiveRPE):
    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.weight = nn.Parameter(torch.randn(heads))

    @property
    def structures(self) -> tuple[Structure, ...]:
        return (Degree(),)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        column = read_structure(batch, Degree(), "degree")[:, None] * self.weight
        return Additive(column, column)


def specs() -> list[RPESpec]:
    def weights(heads: int, channels: int, options: Any) -> RPE:
        return Weights(heads)

    def factors(heads: int, channels: int, options: Any) -> RPE:
        return Factors(heads, channels, options.width)

    return [
        RPESpec(name="weights", factory=weights, options=Options, kind="additive", summary="test"),
        RPESpec(name="factors", factory=factors, options=Options, kind="multiplicative", summary="test"),
    ]


@pytest.fixture(scope="module")
def registry() -> Registry:
    def absolutes() -> list[AbsoluteSpec]:
        return [AbsoluteSpec(name="ones", factory=lambda options: Ones(options.width), options=Options, summary="test")]

    plugin = types.SimpleNamespace(
        __name__="test", kdlgt_rpes=hookimpl(lambda: specs()), kdlgt_absolute_encodings=hookimpl(absolutes)
    )
    return Registry().with_plugin(kdlgt.features.plugin, name="features").with_plugin(plugin, name="test")


def config(**changes: Any) -> ModelConfig:
    return attrs.evolve(ModelConfig(hidden=16, heads=4, dropout=0.0), **changes)


def graph(nodes: int = 9, width: int = 6) -> Data:
    draw = torch.Generator().manual_seed(0)
    edges = to_undirected(torch.randint(nodes, (2, 2 * nodes), generator=draw), num_nodes=nodes)
    x = torch.randn(nodes, width, generator=draw)
    return Data(x=x, edge_index=edges, edge_attr=torch.randn(edges.size(1), 3, generator=draw))


def run(model_config: ModelConfig, registry: Registry, data: Data | None = None, **sizes: Any) -> Tensor:
    data = graph() if data is None else data
    prepared = kdlgt.prepare(model_config, registry)(data)
    arguments = {"in_features": 6, "out_features": 3} | sizes
    output: Tensor = kdlgt.build_model(model_config, registry=registry, **arguments).eval()(prepared)
    return output


def test_the_documented_call(registry: Registry) -> None:
    model = kdlgt.build_model(Config().model, in_features=1433, out_features=7, registry=registry)
    data = graph(5, 1433)
    assert model(data).shape == (5, 7)


BOTH = (Component(name="weights"), Component(name="factors", options=Options(width=3)))


@pytest.mark.parametrize("mode", ["linear", "exact", "auto"])
@pytest.mark.parametrize("share", [False, True])
def test_encodings_by_name(mode: Any, share: bool, registry: Registry) -> None:
    described = config(rpe=BOTH, share_rpe=share, attention=AttentionConfig(mode=mode, auto_threshold=5))
    model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry)
    assert [block.features.dim for block in model.attention_blocks] == [4 + 3, 4 + 3]
    assert (model.shared_rpe is not None) == share
    assert sum("weights" in name or name.endswith(".weight") for name in model.state_dict()) > 0
    assert run(described, registry).shape == (9, 3)


def test_default_options_are_filled_in(registry: Registry) -> None:
    described = config(rpe=(Component(name="factors"),))
    model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry)
    assert model.attention_blocks[0].features.dim == 4 + Options().width


def test_layers_have_encodings_of_their_own(registry: Registry) -> None:
    model = kdlgt.build_model(config(rpe=BOTH), in_features=6, out_features=3, registry=registry)
    first, second = (block.rpe.state_dict() for block in model.attention_blocks if block.rpe is not None)
    assert first.keys() == second.keys()
    assert not any(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("sizes", [{"in_features": 6}, {"in_features": (3, 5)}, {"in_features": None}])
@pytest.mark.parametrize("level", ["node", "graph"])
def test_features_and_levels(sizes: dict[str, Any], level: str, registry: Registry) -> None:
    data = graph()
    if isinstance(sizes["in_features"], tuple):
        data.x = torch.stack([torch.arange(9) % size for size in sizes["in_features"]], 1)
    output = run(config(), registry, data, level=level, **sizes)
    assert output.shape == ((9 if level == "node" else 1), 3)


@pytest.mark.parametrize("readout", ["mean", "sum", "max", "attention"])
@pytest.mark.parametrize("norm", ["layer", "rms", "batch"])
def test_readouts_and_norms(readout: Any, norm: Any, registry: Registry) -> None:
    assert run(config(readout=readout, norm=norm), registry, level="graph").shape == (1, 3)


@pytest.mark.parametrize("conv", ["GCN", "GINE", "GatedGCN", "PNA"])
def test_local_branch_takes_edge_features_where_it_can(conv: str, registry: Registry) -> None:
    described = config(local=LocalConfig(conv=conv))
    model = kdlgt.build_model(described, in_features=6, out_features=3, edge_features=3, registry=registry)
    taken = [layer.local.takes_edges for layer in model.layers if isinstance(layer.local, LocalBranch)]
    assert taken == [conv != "GCN"] * 2
    assert (model.edge_encoder is not None) == (conv != "GCN")
    assert run(described, registry, edge_features=3).shape == (9, 3)


def test_edge_features_can_be_left_out(registry: Registry) -> None:
    off = config(local=LocalConfig(conv="PNA", edge_features=False))
    assert (
        kdlgt.build_model(off, in_features=6, out_features=3, edge_features=3, registry=registry).edge_encoder is None
    )
    with pytest.raises(ArgumentError, match="GINE needs edge features"):
        run(config(local=LocalConfig(conv="GINE")), registry)


def test_degree_histogram_reaches_pna(registry: Registry) -> None:
    described = config(local=LocalConfig(conv="PNA"))
    histogram = torch.tensor([0, 3, 9])
    without, given = (run(described, registry, degree_histogram=one) for one in (None, histogram))
    assert not torch.allclose(without, given)


def test_a_plain_gnn(registry: Registry) -> None:
    described = config(attend=False, local=LocalConfig(conv="GCN"), feed_forward=0.0, rpe=BOTH)
    model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry)
    assert model.attention_blocks == ()
    assert all(layer.feed_forward is None for layer in model.layers)
    assert model(graph()).shape == (9, 3)
    with pytest.raises(ArgumentError, match=r"set attend = true or give model\.local"):
        run(config(attend=False), registry)


def test_absolute_encodings_and_degrees(registry: Registry) -> None:
    encoder = EncoderConfig(degree=True, absolute=(Component(name="ones", options=Options(width=5)),))
    model = kdlgt.build_model(config(encoder=encoder), in_features=6, out_features=3, registry=registry)
    assert model.structures == (Degree(), Ones(5))
    assert run(config(encoder=encoder), registry).shape == (9, 3)


def test_encoder_kinds(registry: Registry) -> None:
    ignoring = config(encoder=EncoderConfig(kind="degree"))
    assert kdlgt.build_model(ignoring, in_features=6, out_features=3, registry=registry).encoder.features is None
    with pytest.raises(ArgumentError, match=r"encoder.kind = 'linear' needs float features .*in_features = \(3,\)"):
        run(config(encoder=EncoderConfig(kind="linear")), registry, in_features=(3,))
    with pytest.raises(ArgumentError, match=r"encoder\.kind = 'embedding' needs integer columns"):
        run(config(encoder=EncoderConfig(kind="embedding")), registry)


def test_prepare_covers_what_the_model_reads(registry: Registry) -> None:
    described = config(rpe=BOTH, encoder=EncoderConfig(absolute=(Component(name="ones"),)))
    transform = kdlgt.prepare(described, registry, symmetrise=True)
    model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry)
    assert set(model.structures) <= set(transform.structures)
    assert transform.symmetrise
    with pytest.raises(NotPreparedError, match=r"apply kdlgt\.prepare"):
        model(graph())


def test_prepared_batches_equal_single_graphs(registry: Registry) -> None:
    described, transform = config(rpe=BOTH, local=LocalConfig()), kdlgt.prepare(config(rpe=BOTH), registry)
    model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry).eval()
    graphs = [transform(graph(nodes)) for nodes in (3, 40, 8)]
    together = model(Batch.from_data_list(graphs))
    torch.testing.assert_close(together, torch.cat([model(one) for one in graphs]), rtol=1e-5, atol=1e-5)


def test_the_seed_decides_and_the_global_state_stays(registry: Registry) -> None:
    described, state = config(rpe=BOTH, local=LocalConfig(conv="GIN")), torch.get_rng_state()

    def build(seed: int) -> dict[str, Tensor]:
        model = kdlgt.build_model(described, in_features=6, out_features=3, seed=seed, registry=registry)
        return model.state_dict()

    first, again, other = build(1), build(1), build(2)
    kdlgt.prepare(described, registry)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.linear.weight"], other["head.linear.weight"])
    projections = [value for name, value in [*first.items(), *other.items()] if name.endswith("projection")]
    heads = torch.cat(projections).flatten(1)
    assert (torch.cdist(heads, heads) + torch.eye(len(heads))).min() > 0.1


def test_the_feature_maps_own_seed_counts(registry: Registry) -> None:
    options = registry.feature_map_specs["favor+"].options
    drawn = []
    for seed in (0, 1):
        described = config(features=Component(name="favor+", options=options(seed=seed)))
        model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry)
        drawn.append(model.state_dict()["layers.0.attention.features.projection"])
    assert not torch.equal(*drawn)


def test_the_quadratic_twin_takes_the_same_checkpoint(registry: Registry) -> None:
    linear = kdlgt.build_model(config(rpe=BOTH), in_features=6, out_features=3, seed=3, registry=registry)
    described = config(rpe=BOTH, attention=AttentionConfig(mode="exact", exact="dense"))
    exact = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry)
    exact.load_state_dict(linear.state_dict())
    switched = copy.deepcopy(linear)
    switched.mode = "exact"
    data = kdlgt.prepare(described, registry)(graph())
    torch.testing.assert_close(exact.eval()(data), switched.eval()(data))


@pytest.mark.parametrize(
    ("changes", "sizes", "message"),
    [
        ({}, {"out_features": 0}, "out_features = 0"),
        ({}, {"in_features": 0}, "node features = 0"),
        ({}, {"level": "edge"}, "level = 'edge'; allowed: 'node', 'graph'"),
        ({}, {"seed": -1}, "seed = -1"),
    ],
)
def test_sizes_that_do_not_fit(
    changes: dict[str, Any], sizes: dict[str, Any], message: str, registry: Registry
) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(config(**changes), registry, **sizes)


@pytest.mark.parametrize("name", ["favor+", "favor++", "hyperbolic"])
def test_balanced_feature_maps(name: str, registry: Registry) -> None:
    described = config(rpe=BOTH, features=Component(name=name), attention=AttentionConfig(balance=True))
    data = kdlgt.prepare(described, registry)(graph())
    model = kdlgt.build_model(described, in_features=6, out_features=3, registry=registry).train()
    model(data).sum().backward()
    before = copy.deepcopy(model)
    for block in model.attention_blocks:
        assert isinstance(block.features, Conditioned)
        assert not isinstance(block.features.inner, Conditioned)
        block.features.after_optimizer_step()
        assert bool(block.features.key_mean.any())
    model.mode = before.mode = "exact"
    torch.testing.assert_close(model.eval()(data), before.eval()(data))


@pytest.mark.parametrize("name", ["elu+1", "relu"])
def test_balance_needs_the_softmax_kernel(name: str, registry: Registry) -> None:
    described = config(features=Component(name=name), attention=AttentionConfig(balance=True))
    with pytest.raises(ArgumentError, match=r"attention\.balance = true.*does not estimate the softmax"):
        run(described, registry)
    assert run(config(features=Component(name=name)), registry).shape == (9, 3)


@pytest.mark.parametrize(("hidden", "heads"), [(10, 4), (16, 0), (0, 1)])
def test_heads_must_divide_hidden(hidden: int, heads: int) -> None:
    with pytest.raises(ConfigError, match=r"heads|hidden"):
        ModelConfig(hidden=hidden, heads=heads)


def test_unknown_names(registry: Registry) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown RPE 'weight'.*Did you mean 'weights'\?"):
        run(config(rpe=(Component(name="weight"),)), registry)
    with pytest.raises(UnknownNameError, match=r"unknown feature map 'favor'.*Did you mean 'favor\+'\?"):
        run(config(features=Component(name="favor")), registry)
    with pytest.raises(UnknownNameError, match=r"unknown convolution 'GCNN'.*Did you mean 'GCN'\?"):
        run(config(local=LocalConfig(conv="GCNN")), registry)


@pytest.mark.plugins
def test_a_component_that_refuses_its_options_is_named_with_its_place() -> None:
    registry = kdlgt.load_plugins()
    config = config_from_dict({"model": {"rpe": ["degree", {"name": "sapd", "k": 0}]}}, registry).model
    with pytest.raises(ArgumentError, match=r"model\.rpe\.1 \(sapd\): k = 0; allowed"):
        kdlgt.build_model(config, in_features=3, out_features=2, registry=registry)


def test_a_degree_embedding_starts_as_large_as_what_it_is_added_to() -> None:
    """Of unit variance, it would drown a bag of words; beside embeddings or alone it has to count from the start."""
    config = Config(model=ModelConfig(hidden=64, encoder=EncoderConfig(degree=True))).model
    for in_features, expected in ((5, 0.02), ((3, 4), 1.0), (None, 1.0)):
        encoder = kdlgt.build_model(config, in_features=in_features, out_features=2).encoder
        assert encoder.degree is not None
        assert encoder.degree.table.weight.std().item() == pytest.approx(expected, rel=0.1)

"""Benchmarks: sizes as in the paper, ratios, methods that stop, and the methods themselves at a tiny size."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import pytest
import torch

from kdlgt.errors import UnknownNameError
from kdlgt.experiments.benchmark import Benchmark, doubling_sizes, run_benchmark
from kdlgt.experiments.benchmark_attention import ACTIONS, AttentionSettings, attention_methods
from kdlgt.experiments.benchmark_model import ModelSettings, model_methods
from kdlgt.experiments.measure import Build, Limits

LIMITS = Limits(memory=1 << 30, seconds=5.0, threads=1)


def test_sizes_grow_by_the_root_of_two() -> None:
    assert doubling_sizes(11, 13) == (2048, 2896, 4096, 5792, 8192)
    assert doubling_sizes(20, 20) == (1_048_576,)
    assert doubling_sizes(10, 12, steps_per_doubling=1) == (1024, 2048, 4096)


def sleeping(seconds: float) -> Callable[[int], Build]:
    return lambda nodes: functools.partial(dict, work=functools.partial(time.sleep, seconds * nodes))


def allocating(nodes: int) -> Build:
    return functools.partial(dict, work=functools.partial(torch.ones, nodes << 29))


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    methods: dict[str, Callable[[int], Build]] = {
        "linear": sleeping(0.01),
        "thrice": sleeping(0.03),
        "greedy": allocating,
    }
    return run_benchmark("sleep", methods, (1, 2), ("work",), limits=LIMITS, repeats=3)


def test_medians_and_ratios(benchmark: Benchmark) -> None:
    assert benchmark.methods == ("linear", "thrice", "greedy")
    assert benchmark.sizes == (1, 2)
    for nodes in benchmark.sizes:
        assert len(benchmark.cell("linear", nodes, "work").seconds) == 3
        assert 1.5 < benchmark.ratio("thrice", nodes, "work") < 4


def test_a_method_that_broke_a_limit_is_not_tried_again(benchmark: Benchmark) -> None:
    outcomes = [benchmark.cell("greedy", nodes, "work").outcome for nodes in benchmark.sizes]
    assert outcomes == ["out of memory", "out of memory"]
    tree = benchmark.to_dict()["cells"]
    assert [cell["ratio"] for cell in tree if cell["method"] == "greedy"] == [None, None]


@pytest.mark.parametrize("rpe", [None, pytest.param("sapd", marks=pytest.mark.plugins)])
@pytest.mark.parametrize("name", list(attention_methods(AttentionSettings())))
def test_every_attention_runs(name: str, rpe: str | None) -> None:
    settings = AttentionSettings(hidden=8, heads=2, features=8, rpe=rpe)
    actions = attention_methods(settings)[name](20)()
    assert tuple(actions) == ACTIONS
    for action in actions.values():
        action()


@pytest.mark.plugins
@pytest.mark.parametrize("name", list(model_methods(ModelSettings())))
def test_every_model_runs(name: str) -> None:
    settings = ModelSettings(hidden=8, heads=2, features=8)
    for action in model_methods(settings)[name](20)().values():
        action()


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown method 'dnse'.*Did you mean 'dense'"):
        attention_methods(AttentionSettings(), ("dnse",))
    with pytest.raises(UnknownNameError, match="installed: dense, fused, gps, linear"):
        model_methods(ModelSettings(), ("x",))

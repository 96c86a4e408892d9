"""All checks of an absolute encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.graph import Prepare, Structure, read_structure
from kdlgt.registry import EXTENSIONS, AbsoluteSpec
from kdlgt.registry.validation import spec_faults
from kdlgt.testing.check import Check, CheckResult, checks_of, run_checks
from kdlgt.testing.graphs import degenerate_graphs, ordinary_graphs
from kdlgt.testing.purity import pickled, same_fields, same_values, untouched_random_state
from kdlgt.testing.round_trip import check_round_trip
from kdlgt.testing.sweep import label, options_of

FIELD = "encoding"


@attrs.frozen
class AbsoluteCase:
    """An absolute encoding under test: what it claims, and the options that it is built with."""

    spec: AbsoluteSpec
    options: Any

    def structure(self) -> Structure:
        """The structure that it computes."""
        return self.spec.factory(self.options)

    def width(self) -> int:
        """The width that the structure declares."""
        width: object = getattr(self.structure(), "width", None)
        assert isinstance(width, int), "the structure has no attribute `width`, the number of columns of `encoding`"
        return width

    def graphs(self) -> dict[str, Data]:
        """Ordinary and degenerate graphs."""
        return ordinary_graphs(1) | degenerate_graphs(1)

    def encoding(self, data: Data) -> Tensor:
        """The encoding [N, width] of a graph."""
        structure = self.structure()
        return read_structure(Prepare((structure,))(data.clone()), structure, FIELD)


def works(case: AbsoluteCase) -> None:
    """The spec is valid, and the structure computes ``encoding`` [N, width] on every graph."""
    faults = spec_faults(case.spec, EXTENSIONS["absolute"])
    assert not faults, "; ".join(faults)
    structure: object = case.structure()
    assert isinstance(structure, Structure), f"the factory returned {type(structure).__name__}; expected Structure"
    for name, graph in case.graphs().items():
        shape, expected = tuple(case.encoding(graph).shape), (graph.num_nodes, case.width())
        assert shape == expected, f"{name}: the encoding has shape {shape}; expected [N, width] = {expected}"


def finite(case: AbsoluteCase) -> None:
    """Finite on every graph, degenerate ones too."""
    for name, graph in case.graphs().items():
        assert bool(case.encoding(graph).isfinite().all()), f"{name}: the encoding holds NaN or inf"


def determinism(case: AbsoluteCase) -> None:
    """Two preparations are equal."""
    for name, graph in case.graphs().items():
        assert same_values(case.encoding(graph), case.encoding(graph)), f"{name}: two preparations differ"


def batching(case: AbsoluteCase) -> None:
    """PyG batches the encodings of graphs of different sizes."""
    structure = case.structure()
    prepare = Prepare((structure,))
    prepared = [prepare(graph) for graph in case.graphs().values()]
    alone = torch.cat([read_structure(data, structure, FIELD) for data in prepared])
    together = read_structure(Batch.from_data_list(prepared), structure, FIELD)
    assert same_values(together, alone), "a batch differs from its graphs"


def random_state(case: AbsoluteCase) -> None:
    """Preparation leaves the global random state alone."""
    for name, graph in case.graphs().items():
        with untouched_random_state(f"{name}: preparation"):
            case.encoding(graph)


def inputs(case: AbsoluteCase) -> None:
    """Preparation leaves its input alone."""
    for name, graph in case.graphs().items():
        given = graph.clone()
        Prepare((case.structure(),))(given)
        assert not (difference := same_fields(given, graph)), f"{name}: preparation changed its input: {difference}"


def saving(case: AbsoluteCase) -> None:
    """The structure pickles, for loader workers, and keeps its name on the graph."""
    structure = case.structure()
    assert pickled(structure).key == structure.key, "the pickled structure has another key"


def config(case: AbsoluteCase) -> None:
    """The options go through TOML, as in a config, and come back equal."""
    check_round_trip("absolute", case.spec, case.options)


CHECKS: dict[str, Callable[[AbsoluteCase], None]] = {
    "works": works,
    "finite": finite,
    "determinism": determinism,
    "batching": batching,
    "random state": random_state,
    "inputs": inputs,
    "saving": saving,
    "config": config,
}
"""Every check by name; its docstring says what must hold."""


def absolute_checks(spec: AbsoluteSpec, options: Any = None) -> list[Check]:
    """Every check of an absolute encoding, on its defaults and each variation of its typed options, as callables."""
    chosen = options_of(spec) if options is None else [options]
    return [check for each in chosen for check in checks_of(AbsoluteCase(spec, each), CHECKS, label(each))]


def check_absolute(spec: AbsoluteSpec, options: Any = None) -> list[CheckResult]:
    """Run every check of an absolute encoding."""
    return run_checks(absolute_checks(spec, options))

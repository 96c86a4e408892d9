"""All checks of a data set, as far as its files are here."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import attrs

from kdlgt.data import RawData
from kdlgt.data.raw import data_root
from kdlgt.data.validation import validated
from kdlgt.errors import DataError, GraphError
from kdlgt.registry import EXTENSIONS, DatasetSpec
from kdlgt.registry.validation import spec_faults
from kdlgt.testing.check import Check, CheckResult, SkipCheck, checks_of, run_checks
from kdlgt.testing.purity import same_fields, untouched_random_state
from kdlgt.testing.round_trip import check_round_trip
from kdlgt.testing.sweep import label, options_of


@attrs.frozen
class DatasetCase:
    """A data set under test: what it claims, its options, and the folder of raw files."""

    spec: DatasetSpec
    options: Any
    root: pathlib.Path | None

    def read(self) -> RawData:
        """What the factory returns; :class:`SkipCheck` when its files are not here."""
        try:
            raw = self.spec.factory(data_root(self.root), self.options)
        except DataError as error:
            raise SkipCheck(f"the data set cannot be read here: {error}") from error
        assert isinstance(raw, RawData), f"the factory returned {type(raw).__name__}; expected kdlgt.data.RawData"
        return raw


def works(case: DatasetCase) -> None:
    """The spec is valid, the data set can be read, and its level is the one that the spec declares."""
    faults = spec_faults(case.spec, EXTENSIONS["dataset"])
    assert not faults, "; ".join(faults)
    raw = case.read()
    right = raw.level == case.spec.level
    assert right, f"declared level = {case.spec.level!r}, and the data has level = {raw.level!r}"


def valid(case: DatasetCase) -> None:
    """Graphs, features and labels pass the validation before training."""
    raw = case.read()
    try:
        checked = validated(raw)
    except GraphError as error:
        if "directed" not in str(error):
            raise
        checked = validated(raw, symmetrise=True)
    wrong = [number for number, graph in enumerate(checked.graphs) if graph.num_nodes is None or graph.num_nodes < 1]
    assert not wrong, f"graphs without nodes: {wrong}"


def determinism(case: DatasetCase) -> None:
    """Two reads give equal graphs and splits."""
    first, second = case.read(), case.read()
    assert len(first.graphs) == len(second.graphs), "two reads give different numbers of graphs"
    for number, (a, b) in enumerate(zip(first.graphs, second.graphs, strict=True)):
        assert not (difference := same_fields(a, b)), f"graph {number} differs between two reads: {difference}"


def random_state(case: DatasetCase) -> None:
    """Reading leaves the global random state alone."""
    case.read()
    with untouched_random_state("reading"):
        case.read()


def config(case: DatasetCase) -> None:
    """The options go through TOML, as in a config, and come back equal."""
    check_round_trip("dataset", case.spec, case.options)


CHECKS: dict[str, Callable[[DatasetCase], None]] = {
    "works": works,
    "valid": valid,
    "determinism": determinism,
    "random state": random_state,
    "config": config,
}
"""Every check by name; its docstring says what must hold."""


def dataset_checks(spec: DatasetSpec, options: Any = None, root: pathlib.Path | None = None) -> list[Check]:
    """Every check of a data set with its default options, as callables; ``options`` takes others."""
    chosen = options_of(spec)[:1] if options is None else [options]
    return [check for each in chosen for check in checks_of(DatasetCase(spec, each, root), CHECKS, label(each))]


def check_dataset(spec: DatasetSpec, options: Any = None, root: pathlib.Path | None = None) -> list[CheckResult]:
    """Run every check of a data set."""
    return run_checks(dataset_checks(spec, options, root))

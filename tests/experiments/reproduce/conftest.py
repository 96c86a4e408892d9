"""Fixtures of the reproduced experiments: tiny data sets in place of the paper's."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from kdlgt.experiments.reproduce.datasets import DataSet, Scale
from kdlgt.experiments.reproduce.outcome import Request


@pytest.fixture
def request_of(tmp_path: pathlib.Path) -> Callable[..., Request]:
    """Makes requests that write into the test's folder."""

    def make(experiment: str, **values: Any) -> Request:
        return Request(experiment=experiment, folder=tmp_path / experiment, **values)

    return make


@pytest.fixture
def tiny_graphs() -> DataSet:
    """Cycles whose class is a range of distances, as a data set of graphs."""
    return DataSet(name="distance", title="cycles", small=Scale(1, 24), full=Scale(1))


@pytest.fixture
def tiny_nodes() -> DataSet:
    """The karate club as a data set of nodes."""
    return DataSet(name="karate", title="karate", level="node", small=Scale(1, 30), full=Scale(1))

"""Fixtures that every test may use."""

from __future__ import annotations

import os
import pathlib

import pytest
import torch


@pytest.fixture(scope="session")
def data_root() -> pathlib.Path:
    """The folder of real data sets, read-only; tests that need it are skipped where there is none."""
    root = os.environ.get("KDLGT_DATA")
    if not root or not pathlib.Path(root).is_dir():
        pytest.skip("KDLGT_DATA names no folder of data sets")
    return pathlib.Path(root)


@pytest.fixture(params=["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device that this machine has."""
    return torch.device(request.param)

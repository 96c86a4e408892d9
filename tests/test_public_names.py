"""The public names are a contract; ``import kdlgt`` stays light."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

import kdlgt

PUBLIC = {
    "kdlgt": [
        "Prepare",
        "Registry",
        "__version__",
        "build_model",
        "exact_attention",
        "linear_attention",
        "load_config",
        "load_plugins",
        "prepare",
    ],
    "kdlgt.config": [
        "AttentionConfig",
        "Component",
        "Config",
        "DataConfig",
        "EncoderConfig",
        "LocalConfig",
        "ModelConfig",
        "TrainConfig",
        "apply_overrides",
        "config_from_dict",
        "config_to_dict",
        "config_to_toml",
        "load_config",
        "read_tree",
    ],
    "kdlgt.registry": [
        "AbsoluteSpec",
        "BrokenPlugin",
        "ComponentKind",
        "Conflict",
        "DatasetSpec",
        "EXTENSIONS",
        "Extension",
        "FeatureMapSpec",
        "Plugin",
        "RPESpec",
        "Registry",
        "Spec",
        "hookimpl",
        "load_plugins",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_names_are_pinned(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names])
def test_every_name_is_there(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None
    assert name in dir(importlib.import_module(module))


def test_the_version_is_that_of_the_distribution() -> None:
    assert kdlgt.__version__ == importlib.metadata.version("kdlgt")


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'kdlgt' has no attribute 'build_modle'; it has Prepare"):
        _ = kdlgt.build_modle


@pytest.mark.parametrize("module", ["kdlgt", "kdlgt.registry", "kdlgt.config", "kdlgt.errors"])
def test_importing_does_not_wait_for_torch(module: str) -> None:
    heavy = "('torch', 'torch_geometric', 'lightning', 'scipy', 'sklearn', 'matplotlib', 'ray')"
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

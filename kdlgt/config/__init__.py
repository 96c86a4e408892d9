"""The config of a run: typed values from TOML, strictly."""

from kdlgt.config.convert import config_from_dict, config_to_dict, config_to_toml
from kdlgt.config.load import load_config, read_tree
from kdlgt.config.overrides import apply_overrides
from kdlgt.config.schema import (
    AttentionConfig,
    Component,
    Config,
    DataConfig,
    EncoderConfig,
    LocalConfig,
    ModelConfig,
    TrainConfig,
)

__all__ = [
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
]

"""Device, precision and processes of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kdlgt.config.schema import Precision, TrainConfig
from kdlgt.errors import ConfigError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FabricPrecision = Literal["32-true", "64-true", "bf16-mixed", "16-mixed"]
PRECISION: dict[Precision, FabricPrecision] = {
    "32": "32-true",
    "64": "64-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}


def make_fabric(config: TrainConfig) -> Fabric:
    """The Fabric that a config asks for.

    Raises:
        ConfigError: a device or precision that this machine does not have.
    """
    import torch
    from lightning.fabric import Fabric

    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device = 'cuda', but torch sees no GPU; set it to 'auto' or 'cpu'")
    accelerator = {"auto": "cuda" if torch.cuda.is_available() else "cpu"}.get(config.device, config.device)
    if config.precision == "16" and accelerator == "cpu":
        raise ConfigError("train.precision = '16' needs a GPU; on a CPU use 'bf16' or '32'")
    strategy = "ddp_spawn" if config.devices > 1 else "auto"
    return Fabric(
        accelerator=accelerator, devices=config.devices, strategy=strategy, precision=PRECISION[config.precision]
    )

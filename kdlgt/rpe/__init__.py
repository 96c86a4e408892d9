"""The protocols of relative positional encodings: modules that own parameters and return decompositions."""

from kdlgt.rpe.protocol import (
    RPE,
    AdditiveRPE,
    IneffectiveRPE,
    KernelRPE,
    MultiplicativeRPE,
    ScaledRPE,
    SumRPE,
    evaluate,
)

__all__ = ["RPE", "AdditiveRPE", "IneffectiveRPE", "KernelRPE", "MultiplicativeRPE", "ScaledRPE", "SumRPE", "evaluate"]

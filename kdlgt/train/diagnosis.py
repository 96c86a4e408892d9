"""What to tell when training cannot go on: where a number stopped being finite, and which setting saves memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from kdlgt.config.schema import Config
from kdlgt.errors import TrainingError


def explain_not_finite(model: nn.Module, forward: Callable[[], object]) -> str:
    """Find the layer where the first NaN or inf appears.

    Args:
        model: the model as it stood when the loss was not finite.
        forward: repeats the forward pass.
    """
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            return f"parameter {name!r} holds NaN or inf after the step before"
    found: list[str] = []
    hooks = [module.register_forward_hook(_recorder(name, found)) for name, module in model.named_modules() if name]
    try:
        with torch.no_grad():
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    return (
        f"the output of layer {found[0]!r} holds NaN or inf"
        if found
        else "every layer's output is finite, the loss is not"
    )


def _recorder(name: str, found: list[str]) -> Callable[[nn.Module, object, object], None]:
    def record(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.is_floating_point() and not bool(torch.isfinite(output).all()):
            found.append(name)

    return record


@contextmanager
def explain_out_of_memory(config: Config, position: Callable[[], str]) -> Iterator[None]:
    """Turn an allocation failure inside into a :class:`TrainingError` that says which settings to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        raise TrainingError(f"out of memory in {position()}. {memory_advice(config)}") from error


def _is_out_of_memory(error: BaseException) -> bool:
    allocator = "allocate memory" in str(error) or "out of memory" in str(error)
    return isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or allocator


def memory_advice(config: Config) -> str:
    """The settings that cost memory in this config, the most effective first."""
    model = config.model
    ways = []
    if model.attend and model.attention.mode != "linear":
        ways.append(f'set model.attention.mode = "linear" (now "{model.attention.mode}", quadratic in the nodes)')
    ways.append(f"with many graphs, lower data.batch_size (now {config.data.batch_size}) and raise train.accumulate")
    if hasattr(model.features.options, "num_features"):
        ways.append(f"lower model.features.num_features (now {model.features.options.num_features})")
    ways += [
        f"lower {component_path}.max_anchors (now {component.options.max_anchors})"
        for index, component in enumerate(model.rpe)
        for component_path in [f"model.rpe.{index}"]
        if hasattr(component.options, "max_anchors")
    ]
    if not model.recompute:
        ways.append("set model.recompute = true, the memory of one layer for all")
    ways.append(f"lower model.hidden (now {model.hidden}) or model.layers (now {model.layers})")
    if config.train.precision == "32":
        ways.append('set train.precision = "bf16"')
    return "To save memory: " + "; ".join(ways) + "."

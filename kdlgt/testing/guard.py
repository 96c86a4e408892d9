"""Proof that nothing is N x N."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargeTensorError(AssertionError):
    """A tensor of as many elements as the guard forbids was made."""


class NoSquare(TorchDispatchMode):
    """A context in which no operation may make a tensor of N^2 elements or more, forward or backward.

    Args:
        nodes: N.
        limit: forbid this many elements instead of N^2.

    Attributes:
        largest: number of elements of the largest tensor seen.

    Raises:
        LargeTensorError: inside the context; names the operation and the shape.
    """

    def __init__(self, nodes: int, *, limit: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.limit = nodes * nodes if limit is None else limit
        self.largest = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation and measure what it returns."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._measure(leaf, func)
        return result

    def _measure(self, tensor: Tensor, func: Callable[..., Any]) -> None:
        self.largest = max(self.largest, tensor.numel())
        if tensor.numel() >= self.limit:
            shape = tuple(tensor.shape)
            raise LargeTensorError(f"{func} made a tensor of shape {shape}; {self.limit} elements are forbidden")

"""Which graphs of a batch attend exactly and which linearly."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.algebra.traceable import traceable
from kdlgt.config.schema import AttentionMode
from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import graph_ptr


@traceable
@attrs.frozen(eq=False)
class Segment:
    """Graphs of a batch that attend in one way.

    Attributes:
        batch: these graphs, packed.
        ptr: [G + 1] their first nodes, and N at the end.
        nodes: [N] their node numbers in the whole batch; ``None`` when they are the whole batch.
        exact: whether they attend exactly.
    """

    batch: Data
    ptr: Tensor
    nodes: Tensor | None
    exact: bool

    def pick(self, x: Tensor) -> Tensor:
        """The segment's rows of a tensor over the whole batch."""
        return x if self.nodes is None else x[self.nodes]

    def place(self, rows: Tensor, into: Tensor) -> Tensor:
        """A tensor over the whole batch with the segment's rows put in their places."""
        return rows if self.nodes is None else into.index_copy(0, self.nodes, rows)


def plan_segments(batch: Data, mode: AttentionMode, auto_threshold: int = 0) -> tuple[Segment, ...]:
    """Split a batch into the graphs that attend exactly and those that attend linearly.

    With ``auto`` a graph of up to ``auto_threshold`` nodes is exact: the choice depends on its own size alone, so its
    output does not depend on what else is in the batch.

    Raises:
        ArgumentError: an unknown mode.
        GraphError: an unsorted batch vector, or a mixed batch that PyG's ``Batch`` did not build.
    """
    if mode not in ("linear", "exact", "auto"):
        raise ArgumentError(f"attention mode = {mode!r}; allowed: 'linear', 'exact', 'auto'")
    ptr = graph_ptr(batch)
    if mode != "auto":
        return (Segment(batch, ptr, None, mode == "exact"),)
    small = attends_exactly(ptr[1:] - ptr[:-1], mode, auto_threshold)
    if bool(small.all()) or not bool(small.any()):
        return (Segment(batch, ptr, None, bool(small.all())),)
    return (_select(batch, ptr, small, exact=True), _select(batch, ptr, ~small, exact=False))


def attends_exactly(sizes: Tensor, mode: str, auto_threshold: int) -> Tensor:
    """Whether graphs of these sizes [G] attend exactly [G]."""
    return sizes <= auto_threshold if mode == "auto" else torch.full_like(sizes, mode == "exact", dtype=torch.bool)


def _select(batch: Data, ptr: Tensor, chosen: Tensor, *, exact: bool) -> Segment:
    """The chosen graphs as a batch of their own, every prepared field cut and renumbered by PyG's own slices."""
    if not isinstance(batch, Batch):
        raise GraphError(
            "attention mode 'auto' meets graphs on both sides of its threshold in a batch that PyG's Batch did not "
            "build; build it with Batch.from_data_list or PyG's DataLoader, or set the mode to 'linear' or 'exact'"
        )
    numbers = chosen.nonzero().flatten().tolist()
    part = Batch.from_data_list([batch.get_example(number) for number in numbers])
    nodes = torch.repeat_interleave(chosen, ptr[1:] - ptr[:-1]).nonzero().flatten()
    return Segment(part, graph_ptr(part), nodes, exact)

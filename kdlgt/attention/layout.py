"""Packed segments as equal blocks: batched products, no loop over graphs, no padding to the largest."""

from __future__ import annotations

import attrs
import torch
from torch import Tensor
from torch.nn import functional

from kdlgt.algebra.traceable import traceable

_SMALLEST_BLOCK, _LARGEST_BLOCK, _SINGLE_BLOCK = 8, 512, 1024
_TRACED_BLOCK = 16
_PADDING = 2.0


@traceable
@attrs.frozen(eq=False)
class Layout:
    """Where each node lies when every segment is cut into blocks of ``block`` rows.

    Only the last block of a segment has empty rows, so the padded size is at most the number of nodes plus one block
    per segment: cost follows the sum of sizes. A single segment has no padding. Segments of similar sizes are one block
    each, and nothing passes between blocks.

    Attributes:
        block: rows per block C.
        slot: [N] row of each node in the blocks; ``None`` when nodes already lie there in order.
        segment: [blocks] segment of each block; ``None`` when there is one segment.
        num_blocks: number of blocks.
        num_segments: number of segments.
        num_nodes: number of nodes N.
        whole: no segment has more than one block.
    """

    block: int
    slot: Tensor | None
    segment: Tensor | None
    num_blocks: int
    num_segments: int
    num_nodes: int
    whole: bool = False

    @classmethod
    def single(cls, nodes: int) -> Layout:
        """All nodes in one segment, in order."""
        block = min(nodes, _SINGLE_BLOCK)
        return cls(block, None, None, -(-nodes // block), 1, nodes, whole=nodes <= block)

    @property
    def has_empty_rows(self) -> bool:
        """Whether some rows of the blocks hold no node."""
        return self.slot is not None or self.num_blocks * self.block > self.num_nodes

    @classmethod
    def of(cls, segment: Tensor | None, nodes: int, num_segments: int | None = None) -> Layout:
        """Lay out nodes by their segment number; segments need not be contiguous.

        With ``num_segments``, a compiled graph knows all sizes: it takes as many blocks as there can be.
        """
        if segment is None:
            return cls.single(nodes)
        if torch.compiler.is_compiling():
            return cls._traced(segment, nodes, num_segments)
        counts = torch.bincount(segment)
        if counts.numel() == 1:
            return cls.single(nodes)
        largest = int(counts.max())
        block = _block_size(nodes, counts.numel(), largest)
        blocks = (counts + block - 1) // block
        block_segment = torch.repeat_interleave(blocks)
        slot = _slots(segment, counts, blocks, block)
        whole = largest <= block
        return cls(block, slot, block_segment, block_segment.numel(), counts.numel(), nodes, whole)

    @classmethod
    def _traced(cls, segment: Tensor, nodes: int, num_segments: int | None) -> Layout:
        """The layout in a compiled graph, where sizes must not decide anything."""
        block = _TRACED_BLOCK
        if num_segments is None:
            counts = torch.bincount(segment)
            blocks = (counts + block - 1) // block
            block_segment = torch.repeat_interleave(blocks)
        else:
            counts = segment.new_zeros(num_segments).scatter_add(0, segment, torch.ones_like(segment))
            blocks = (counts + block - 1) // block
            numbers = torch.arange(nodes // block + num_segments, device=segment.device)
            block_segment = torch.searchsorted(blocks.cumsum(0), numbers, right=True).clamp_max(num_segments - 1)
        slot = _slots(segment, counts, blocks, block)
        return cls(block, slot, block_segment, block_segment.numel(), counts.numel(), nodes)

    def select(self, chosen: Tensor) -> Layout:
        """The layout of some blocks [B] boolean, whole segments of them; for sums and maxima only."""
        segment = None if self.segment is None else torch.unique(self.segment[chosen], return_inverse=True)[1]
        count = 1 if segment is None else int(segment.max()) + 1
        blocks = int(chosen.sum())
        return Layout(self.block, None, segment, blocks, count, blocks * self.block, self.whole)

    def to_blocks(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """[H, N, D] to [H, blocks, C, D], empty rows set to ``fill``."""
        rows = self.num_blocks * self.block
        if self.slot is None:
            padded = functional.pad(x, (0, 0, 0, rows - self.num_nodes), value=fill)
        else:
            padded = x.new_full((x.size(0), rows, x.size(2)), fill).index_copy(1, self.slot, x)
        return padded.reshape(x.size(0), self.num_blocks, self.block, x.size(2))

    def to_nodes(self, blocks: Tensor) -> Tensor:
        """[H, blocks, C, D] back to [H, N, D]."""
        flat = blocks.flatten(1, 2)
        return flat[:, : self.num_nodes] if self.slot is None else flat[:, self.slot]

    def sum_segments(self, per_block: Tensor) -> Tensor:
        """Sum [H, blocks, ...] over the blocks of each segment, and hand each block its segment's sum."""
        if self.segment is None:
            return per_block.sum(1, keepdim=True).expand_as(per_block)
        shape = (per_block.size(0), self.num_segments, *per_block.shape[2:])
        return per_block.new_zeros(shape).index_add(1, self.segment, per_block)[:, self.segment]

    def max_segments(self, x: Tensor) -> Tensor:
        """Maximum of [H, blocks, C, r] over the rows of each segment, for each block [H, blocks, 1, r]."""
        per_block = x.amax(2, keepdim=True)
        if self.segment is None:
            return per_block.amax(1, keepdim=True).expand_as(per_block)
        start = per_block.new_full((x.size(0), self.num_segments, 1, x.size(3)), -torch.inf)
        index = self.segment[None, :, None, None].expand_as(per_block)
        return start.scatter_reduce(1, index, per_block, "amax")[:, self.segment]


def _slots(segment: Tensor, counts: Tensor, blocks: Tensor, block: int) -> Tensor:
    """The row of each node [N]: its segment's first block, and its place within the segment."""
    order = torch.argsort(segment, stable=True)
    ordered = segment[order]
    within = torch.arange(segment.numel(), device=segment.device) - (counts.cumsum(0) - counts)[ordered]
    first_block = blocks.cumsum(0) - blocks
    return torch.empty_like(segment).index_copy(0, order, first_block[ordered] * block + within)


def _block_size(nodes: int, segments: int, largest: int) -> int:
    """The largest segment, if that pads little; else the power of two next above half the mean segment."""
    if largest <= _LARGEST_BLOCK and segments * largest <= _PADDING * nodes:
        return largest
    half_mean = max(1, nodes // (2 * segments))
    return min(max(1 << half_mean.bit_length(), _SMALLEST_BLOCK), _LARGEST_BLOCK)

"""What SAPD prepares on each graph: distances to its anchors."""

from __future__ import annotations

from typing import get_args

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.graph.anchors import DEFAULT_MAX_ANCHORS, AnchorReport, Order, anchor_distances


@attrs.frozen
class SapdStructure(Structure):
    """Distances from every node to the anchors of its component.

    Args:
        k: hops that an anchor covers, at least 1.
        max_anchors: cap on the anchors of one component, at least 1.
        order: visit nodes by static ``degree`` or by marginal ``gain``; see :func:`kdlgt.graph.anchors.choose_anchors`.

    Raises:
        ArgumentError: an option out of its range.
    """

    k: int = 2
    max_anchors: int = DEFAULT_MAX_ANCHORS
    order: Order = "degree"

    def __attrs_post_init__(self) -> None:
        require_at_least("k", self.k, 1)
        require_at_least("max_anchors", self.max_anchors, 1)
        if self.order not in get_args(Order):
            raise ArgumentError(f"order = {self.order!r}; allowed: {', '.join(get_args(Order))}")

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Compute the fields.

        Returns:
            ``distance`` [N, max_anchors] int32, -1 where a component does not use the slot; ``component`` [N]; and per
            graph [1]: ``slots`` (columns in use), ``anchors`` (their number), ``radius`` and ``covered`` as in
            :class:`~kdlgt.graph.anchors.AnchorReport`.
        """
        found = anchor_distances(graph, self.k, self.max_anchors, self.order, width=self.max_anchors)
        report = found.report
        return {
            "distance": torch.from_numpy(found.distance),
            "component": torch.from_numpy(graph.component),
            "slots": torch.tensor([report.slots]),
            "anchors": torch.tensor([report.anchors]),
            "radius": torch.tensor([report.radius]),
            "covered": torch.tensor([report.covered], dtype=torch.float64),
        }

    def reports(self, batch: Data) -> list[AnchorReport]:
        """The report of each graph of a batch; :class:`~kdlgt.errors.NotPreparedError` if it is not prepared."""
        columns = (read_structure(batch, self, field.name).tolist() for field in attrs.fields(AnchorReport))
        return [AnchorReport(*row) for row in zip(*columns, strict=True)]

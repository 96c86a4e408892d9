"""One encoding with one set of options, as the checks see it: everything they touch is made anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.algebra import Decomposition
from kdlgt.errors import AlgebraError
from kdlgt.graph import Prepare, graph_ptr
from kdlgt.registry import RPESpec
from kdlgt.rpe import RPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import observed, weights
from kdlgt.testing.graphs import degenerate_graphs, ordinary_graphs

HEADS = 2
CHANNELS = 8
SPREAD = 0.3
"""Standard deviation of what is added to initial parameters, so that no check rests on a symmetric start."""

Form = Callable[[Data], Decomposition]


@attrs.frozen(eq=False, slots=False)
class RPECase:
    """An encoding under test.

    Attributes:
        spec: what it claims.
        options: the options that it is built with.
        is_default: whether these are the default options.
    """

    spec: RPESpec
    options: Any
    is_default: bool = True

    @cached_property
    def ordinary(self) -> Mapping[str, Data]:
        """Graphs without oddities."""
        return ordinary_graphs(CHANNELS)

    @cached_property
    def degenerate(self) -> Mapping[str, Data]:
        """Graphs that break encodings."""
        return degenerate_graphs(CHANNELS)

    @property
    def graphs(self) -> Mapping[str, Data]:
        """All of them."""
        return {**self.ordinary, **self.degenerate}

    def fresh(self, options: Any = None) -> RPE:
        """The module as the factory makes it, in float64; the global random state is put back."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            rpe: object = self.spec.factory(HEADS, CHANNELS, self.options if options is None else options)
        assert isinstance(rpe, RPE), f"the factory returned {type(rpe).__name__}; expected kdlgt.rpe.RPE"
        return rpe.double()

    def rpe(self, options: Any = None) -> RPE:
        """The module with its parameters moved off their initial values."""
        rpe = self.fresh(options)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in rpe.parameters():
                parameter.add_(SPREAD * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
        return rpe

    def prepared(self, rpe: RPE, graph: Data) -> Data:
        """The graph with the structure that the module reads."""
        data: Data = Prepare(rpe.structures)(graph.clone())
        return data

    def batch(self, rpe: RPE, graphs: list[Data]) -> Batch:
        """Several graphs, prepared one by one."""
        return Batch.from_data_list([self.prepared(rpe, graph) for graph in graphs])

    def forms(self, rpe: RPE) -> dict[str, Form]:
        """The linear and the exact form as functions of a prepared graph; each call gets a copy of its own."""
        return {
            "linear form": lambda data: rpe(data.clone(), self.states(rpe, data)),
            "exact form": lambda data: rpe.exact(data.clone(), self.states(rpe, data)),
        }

    def value(self, rpe: RPE, data: Data) -> Decomposition:
        """The linear form on a prepared graph."""
        return self.forms(rpe)["linear form"](data)

    def states(self, rpe: RPE, data: Data) -> Tensor | None:
        """A copy of the node states, where the module says that it reads them."""
        return data.x.clone() if rpe.needs_states else None

    def observed(self, value: Decomposition, data: Data) -> Tensor:
        """The value as one tensor [H, N, N]."""
        return observed(value, HEADS, graph_ptr(data))

    def weights(self, value: Decomposition) -> Tensor:
        """Attention weights [H, N, N] of the bias alone on one graph."""
        return weights(value, HEADS)

    def reference(self, rpe: RPE, data: Data) -> Tensor:
        """The spec's dense bias on a prepared graph; :class:`SkipCheck` where it has none."""
        if self.spec.reference is None:
            raise SkipCheck("the spec gives no reference; write one, so that the value can be proved right")
        try:
            return self.spec.reference(rpe, data.clone())
        except AlgebraError as error:
            raise SkipCheck(f"the reference has no dense form: {error}") from error

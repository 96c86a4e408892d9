"""The name of a structure on a graph, and what its fields may be."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
import torch
from torch import Tensor

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, Prepare, Structure, generate, read_structure


def make_structure(module: str, result: dict[str, Any]) -> type[Structure]:
    """A structure class named ``Field``, as a plugin of this module name would define it."""

    def compute(self: Structure, graph: Graph) -> dict[str, Tensor]:
        return result

    return attrs.frozen(type("Field", (Structure,), {"compute": compute, "__module__": module}))


def test_structures_of_one_name_in_two_modules_stand_side_by_side() -> None:
    one, two = make_structure("one", {"x": torch.zeros(4)})(), make_structure("two", {"x": torch.ones(4)})()
    data = Prepare([one, two])(generate.path(4))
    assert read_structure(data, one, "x").tolist() == [0, 0, 0, 0]
    assert read_structure(data, two, "x").tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("result", [None, [torch.zeros(4)]])
def test_compute_returns_fields_by_name(result: Any) -> None:
    with pytest.raises(ArgumentError, match=r"compute returned a (NoneType|list); expected tensors by name"):
        Prepare([make_structure("one", result)()])(generate.path(4))


def test_equal_structures_share_one_field() -> None:
    kind = make_structure("one", {"x": torch.zeros(4)})
    plain = generate.path(4)
    data = Prepare([kind(), kind()])(plain)
    assert len(data.keys()) == len(plain.keys()) + 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": np.zeros(4)}, r"a ndarray for 'x'; expected a tensor"),
        ({"x": [0.0] * 4}, r"a list for 'x'; expected a tensor"),
        ({"x": torch.tensor(1.0)}, r"'x' has no dimension; a number per graph is a tensor \[1\]"),
        ({"pair_index": torch.zeros(2, 3)}, r"'pair_index' is torch.float32 \(2, 3\)"),
        ({"pair_index": torch.zeros(3, dtype=torch.long)}, r"'pair_index' is torch.int64 \(3,\)"),
        ({"batch": torch.zeros(4)}, r"'batch' holds a word"),
    ],
)
def test_a_field_that_cannot_be_batched_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Prepare([make_structure("one", fields)()])(generate.path(4))

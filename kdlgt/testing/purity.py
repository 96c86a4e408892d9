"""What a component must leave as it was, and how that is seen."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Iterator
from typing import Any, TypeVar

import attrs
import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition

T = TypeVar("T")


def pickled(value: T) -> T:
    """The value after a trip through pickle."""
    copy: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - the bytes were made here
    return copy


def tensors_of(value: Decomposition) -> list[Tensor]:
    """The tensor fields of a decomposition that is no sum."""
    fields = attrs.fields(type(value))  # type: ignore[arg-type]
    contents = (getattr(value, field.name) for field in fields)
    return [content for content in contents if isinstance(content, Tensor)]


def same_fields(a: Data, b: Data) -> str:
    """What differs between two graphs, in words; empty when nothing does."""
    left, right = a.to_dict(), b.to_dict()
    if left.keys() != right.keys():
        return f"fields {sorted(left.keys() ^ right.keys())}"
    return ", ".join(key for key in left if not same_values(left[key], right[key]))


def same_values(a: Any, b: Any) -> bool:
    """Whether two fields are equal; NaN equals NaN here."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    return bool(a == b)


@contextlib.contextmanager
def untouched_random_state(what: str) -> Iterator[None]:
    """Raise AssertionError when the global random state of torch, numpy or Python changes inside."""
    before = random_states()
    yield
    after = random_states()
    changed = [library for library, state in before.items() if state != after[library]]
    assert not changed, (
        f"{what} changes the global random state of {', '.join(changed)}; draw from a generator of your own"
    )


def random_states() -> dict[str, bytes]:
    """The global random states."""
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),  # noqa: NPY002 - the global state is what is watched
        "random": pickle.dumps(random.getstate()),
    }

"""Every random number of a run comes from (seed, epoch, step), so that a resumed run repeats an uninterrupted one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
import torch


class Stream(IntEnum):
    """What a random number is for; streams with different names are independent."""

    SHUFFLE = 1
    DROPOUT = 2
    REDRAW = 3


def derive_seed(seed: int, stream: Stream, *position: int) -> int:
    """Hash ``(seed, stream, position)`` to a 63-bit seed.

    Args:
        seed: the run's seed.
        stream: what the numbers are for.
        position: epoch, step, process rank.
    """
    state = np.random.SeedSequence([seed, int(stream), *position]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


@contextmanager
def isolated_random(device: torch.device) -> Iterator[None]:
    """Give back the global random state as it was: dropout can only draw from the global generators."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield

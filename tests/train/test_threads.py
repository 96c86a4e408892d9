from __future__ import annotations

import torch

from kdlgt.train.threads import cpu_threads


def test_the_number_holds_inside_and_comes_back() -> None:
    before = torch.get_num_threads()
    with cpu_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        with cpu_threads(None):
            assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before

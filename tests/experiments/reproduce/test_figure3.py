"""Figure 3."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kdlgt.experiments.reproduce import figure3
from kdlgt.experiments.reproduce.figure3 import Errors, _claims, _layer_row


def errors(*layers: list[float]) -> Errors:
    log_c = np.log(np.array(layers).T)
    return Errors(variant="LSAT", log_c=log_c, variation=np.zeros_like(log_c), features=64)


def test_the_papers_distribution_holds() -> None:
    claims = _claims(errors([0.05, 0.1, 0.1, 0.3], [0.1] * 4), "8 epochs")
    assert [claim.verdict for claim in claims] == ["holds"] * 3
    assert "mean 0.138, largest 0.3; factors 1.319 and 1.857; r = 64, 8 epochs" in claims[2].measured


def test_one_layer_far_from_zero_contradicts_it() -> None:
    claims = _claims(errors([0.1] * 4, [5.0, 7.0, 9.0, 0.1]), "8 epochs")
    assert [claim.verdict for claim in claims] == ["does not hold", "does not hold", "does not hold"]
    assert "25.0 %" in claims[1].measured


def test_the_row_of_a_layer() -> None:
    row = _layer_row(errors([0.5, 2.0, 4.0]), 0)
    assert row["share with c_max < 1"] == pytest.approx(1 / 3, abs=1e-4)
    assert row["r for a median of 1"] == 256
    assert row["factor at the mean"] == "none (c >= 1)"


def test_what_overflows_is_infinite() -> None:
    found = Errors(variant="", log_c=np.array([[800.0], [0.0]]), variation=np.zeros((2, 1)), features=4)
    assert found.c(0).tolist() == [math.inf, 1.0]


@pytest.mark.plugins
def test_a_tiny_run(request_of: Any, tiny_graphs: Any) -> None:
    request = request_of("figure3")
    outcome = figure3.run(request, figure3.Settings(graphs=5, data=tiny_graphs))
    assert outcome.settings["graphs"] == 5
    rows: Any = outcome.tables[0].records
    assert [(row["model"], row["layer"]) for row in rows[:3]] == [("LSAT", 1), ("LSAT", 2), ("LSAT", 3)]
    assert all(row["mean c_max"] == "none (c >= 1)" or row["mean c_max"] > 0 for row in rows)
    assert len(outcome.tables[1].rows) == 10
    assert (request.folder / "runs" / "plain" / "result.json").is_file()
    again = figure3.run(request, figure3.Settings(graphs=5, data=tiny_graphs))
    assert again.tables[0] == outcome.tables[0]

"""Table 2: cells, rows, claims."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kdlgt.errors import ArgumentError, UnknownNameError
from kdlgt.experiments.reproduce import table2, workers
from kdlgt.experiments.reproduce.cells import CellResult
from kdlgt.experiments.reproduce.table2_claims import Score, difference, judge_all


def results(**values: tuple[float, ...]) -> dict[tuple[str, str], Score]:
    return {
        tuple(key.replace("__", "-").split("_")): Score(values=given, metric="accuracy")  # type: ignore[misc]
        for key, given in values.items()
    }


def verdicts(found: Any) -> dict[str, str]:
    return {claim.key: claim.verdict for claim in found}


def test_a_difference_has_the_noise_of_both() -> None:
    found = difference(results(cora_lsat=(0.5, 0.6), cora_sat=(0.4, 0.4)), "cora", "lsat", "sat")
    assert found is not None
    assert found.gain == pytest.approx(0.15)
    assert found.noise == pytest.approx(2 * math.sqrt(0.005 / 2))


def test_an_error_counts_the_other_way_round_and_in_shares() -> None:
    scores = {
        ("zinc", name): Score(values=values, lower_is_better=True)
        for name, values in {"lsat": (0.4, 0.4), "sat": (0.5, 0.5)}.items()
    }
    found = difference(scores, "zinc", "lsat", "sat")
    assert found is not None
    assert found.gain == pytest.approx(0.2)


def test_ahead_needs_more_than_the_noise() -> None:
    clear = results(cora_lsat=(0.60, 0.61), cora_sat=(0.50, 0.51), citeseer_lsat=(0.5, 0.6), citeseer_sat=(0.5, 0.58))
    found = verdicts(judge_all(clear, "full"))
    assert found["table2.lsat-ahead-cora"] == "holds"
    assert found["table2.lsat-ahead-citeseer"] == "not tested"
    assert found["table2.lsat-ahead-lastfm-asia"] == "not tested"
    behind = results(cora_lsat=(0.40, 0.41), cora_sat=(0.50, 0.51))
    assert verdicts(judge_all(behind, "full"))["table2.lsat-ahead-cora"] == "does not hold"


def test_one_seed_decides_no_lead() -> None:
    found = judge_all(results(cora_lsat=(0.9,), cora_sat=(0.1,)), "full")
    assert verdicts(found)["table2.lsat-ahead-cora"] == "not tested"


def test_the_small_budget_decides_nothing_and_shows_the_figure() -> None:
    found = {c.key: c for c in judge_all(results(cora_lsat=(0.6, 0.6), cora_sat=(0.5, 0.5)), "small")}
    claim = found["table2.lsat-ahead-cora"]
    assert claim.verdict == "not tested"
    assert "would hold: cora +0.100" in claim.measured


def test_close_allows_two_points() -> None:
    near = results(cora_lsat=(0.49,), cora_sat=(0.50,))
    far = results(cora_lsat=(0.40,), cora_sat=(0.50,))
    assert verdicts(judge_all(near, "full"))["table2.lsat-close"] == "holds"
    assert verdicts(judge_all(far, "full"))["table2.lsat-close"] == "does not hold"


def test_gps_drop() -> None:
    found = results(cora_gps=(0.8, 0.8)) | {("cora", "gps-without-gnn"): Score(values=(0.6, 0.6))}
    assert verdicts(judge_all(found, "full"))["table2.gps-drop"] == "holds"


def test_claims_without_cells_are_not_tested() -> None:
    assert set(verdicts(judge_all({}, "full")).values()) == {"not tested"}


def cell(system: str, seed: int, **values: Any) -> CellResult:
    given: dict[str, Any] = {"status": "trained", "metric": "accuracy", **values}
    return CellResult(system=system, data="cora", seed=seed, **given)


def test_a_seed_out_of_memory_is_written_with_the_need() -> None:
    found = table2.group(
        [
            cell("sat", 0, test=0.5),
            cell("sat", 1, status="out of memory", peak=9_200_000_000),
            cell("lsat", 0, test=0.5),
        ]
    )
    assert str(found["cora", "sat"]) == "OOM (> 9.20 GB)"
    assert str(found["cora", "lsat"]) == "0.500"
    assert "OOM, needs more than 9.20 GB" in table2.describe(cell("sat", 1, status="out of memory", peak=9_200_000_000))


def test_mean_and_deviation() -> None:
    assert str(Score(values=(0.5, 0.7))) == "0.600 ± 0.141"


def test_names_are_checked_before_anything_runs(request_of: Any) -> None:
    request = request_of("table2")
    with pytest.raises(UnknownNameError, match="Did you mean 'sapdgt'"):
        table2.chosen_settings(request, systems=["sapdg"])
    with pytest.raises(UnknownNameError, match="Did you mean 'mutag'"):
        table2.chosen_settings(request, data=["mutagg"])
    with pytest.raises(ArgumentError, match="seeds = 0"):
        table2.chosen_settings(request, seeds=0)


def test_the_grid_of_cells(request_of: Any) -> None:
    request = request_of("table2", seed=4)
    chosen = table2.chosen_settings(request, ["mutag", "cora"], ["lsat", "gcn"], 2)
    made = table2.make_cells(request, chosen)
    assert [(c.seed, c.data, c.system) for c in made[:3]] == [
        (4, "mutag", "lsat"),
        (4, "mutag", "gcn"),
        (4, "cora", "lsat"),
    ]
    assert len({c.file for c in made}) == len(made) == 8
    assert table2.chosen_settings(request).systems == table2.all_systems()


def test_the_outcome_holds_table_picture_and_claims(request_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("table2")
    values = {"lsat": 0.6, "sat": None}

    def trained(self: Any, cell: Any) -> CellResult:
        value = values[cell.system]
        if value is None:
            return CellResult(system=cell.system, data=cell.data, seed=cell.seed, status="out of memory", peak=10**10)
        return CellResult(
            system=cell.system, data=cell.data, seed=cell.seed, status="trained", metric="accuracy", test=value
        )

    monkeypatch.setattr(workers._Worker, "train", trained)
    outcome = table2.run(request, table2.chosen_settings(request, ["mutag"], ["lsat", "sat"], 2))
    assert [row["MUTAG (accuracy)"] for row in outcome.tables[0].records] == ["0.600 ± 0.000", "OOM (> 10.00 GB)"]
    assert len(outcome.tables[2].rows) == 4
    assert {claim.verdict for claim in outcome.claims} == {"not tested"}
    assert outcome.pictures[0].name == "table2"

"""Results as tables."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from kdlgt.train import RunResult
    from kdlgt.train.compare import ComparisonRow, Statistic
    from kdlgt.train.demo import DemoOutcome


def console() -> Console:
    """Standard output; tables keep their width where it is no terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=160)


def print_result(out: Console, folder: pathlib.Path, result: RunResult) -> None:
    """The metrics of a run, and where the rest is."""
    print_scores(out, f"{folder}, best epoch {result.best_epoch}", {"val": result.val, "test": result.test})
    out.print(
        f"attention {result.attention_in_words}; {result.parameters:,} parameters, {result.seconds:.1f} s; "
        f"look at {folder / 'report.html'}",
        highlight=False,
        soft_wrap=True,
    )


def print_scores(out: Console, title: str, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Metrics by split."""
    metrics = list(next(iter(scores.values())))
    out.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    table = Table("split", *metrics)
    for split, values in scores.items():
        table.add_row(split, *(f"{values[metric]:.4f}" for metric in metrics))
    out.print(table)


def print_summary(out: Console, folder: pathlib.Path, summary: Mapping[str, Statistic]) -> None:
    """Mean and deviation over seeds."""
    out.print(str(folder), style="bold", markup=False, highlight=False, soft_wrap=True)
    table = Table("test metric", "mean", "deviation")
    for metric, value in summary.items():
        table.add_row(metric, f"{value.mean:.4f}", f"{value.deviation:.4f}")
    out.print(table)


def print_comparison(out: Console, rows: Sequence[ComparisonRow]) -> None:
    """One row per config."""
    metrics = list(dict.fromkeys(metric for row in rows for metric in row.test))
    table = Table(
        "run", "data", "attention", "RPE", "seeds", "parameters", "seconds", *(f"test {metric}" for metric in metrics)
    )
    for row in rows:
        cells = [
            row.name,
            row.data,
            row.attention,
            row.rpe,
            str(len(row.seeds)),
            f"{row.parameters:,}",
            f"{row.seconds.mean:.1f}",
        ]
        table.add_row(*cells, *(str(row.test.get(metric, "")) for metric in metrics))
    out.print(table)


def print_demo(out: Console, outcome: DemoOutcome) -> None:
    """The demo's accuracies."""
    out.print("digits: 10 classes, 10 labels of each", style="bold", highlight=False)
    table = Table("RPE", "attention", "test accuracy")
    for row in outcome.rows:
        table.add_row(row.rpe, row.attention, f"{row.accuracy:.4f}")
    out.print(table)
    out.print(f"{outcome.seconds:.0f} s; run folders in {outcome.folder}", highlight=False, soft_wrap=True)


def write_json(path: pathlib.Path | None, tree: Mapping[str, Any]) -> None:
    """Write a command's result to a file, when one was asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")

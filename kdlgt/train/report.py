"""The page of a run: one self-contained HTML file, pictures inline as SVG."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from torch import Tensor

from kdlgt.data.bundle import Task
from kdlgt.train.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELLED_CLASSES = 20
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
.number { border: 1px solid #d5dae3; border-radius: 8px; padding: .6rem 1rem; min-width: 7rem; }
.number b { display: block; font-size: 1.5rem; } .number span, .note { color: #5b6575; font-size: .85rem; }
table { border-collapse: collapse; }
td, th { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #e5e8ee; }
td:first-child, th:first-child { text-align: left; } svg { max-width: 100%; height: auto; }
pre { background: #f5f6f9; padding: 1rem; overflow-x: auto; font-size: .85rem; }
"""


@attrs.frozen(eq=False, kw_only=True)
class ReportInput:
    """What the page shows.

    Attributes:
        title: name of the run.
        numbers: the figures at the top, by caption.
        task: the data set's task.
        output: test outputs [M, C].
        target: test targets.
        classes: names of the classes, where they are known.
        config: the resolved config as TOML.
        health: one entry per layer and head of :meth:`kdlgt.model.ModelHealth.to_dict`; empty without linear attention.
    """

    title: str
    numbers: Mapping[str, str]
    task: Task
    output: Tensor
    target: Tensor
    classes: tuple[str, ...]
    config: str
    health: Sequence[Mapping[str, Any]] = ()


def write_report(folder: RunFolder, given: ReportInput) -> None:
    """Write ``report.html``: figures, curves, confusion matrix or scatter plot, per-class table, config."""
    _, rows = folder.read_metrics()
    sections = [_numbers(given.numbers), "<h2>Training</h2>", _curves(rows), "<h2>Test set</h2>"]
    sections += _test_sections(given)
    sections += _health_sections(given.health)
    sections += [
        "<h2>Config</h2>",
        f"<details><summary>config.toml</summary><pre>{html.escape(given.config)}</pre></details>",
    ]
    title = html.escape(given.title)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = "\n".join(sections)
    folder.write_text(
        folder.report,
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{title}</h1>\n{body}\n</body></html>\n',
    )


def _numbers(numbers: Mapping[str, str]) -> str:
    boxes = (
        f'<div class="number"><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>'
        for name, value in numbers.items()
    )
    return f'<div class="numbers">{"".join(boxes)}</div>'


def _curves(rows: Sequence[Mapping[str, float]]) -> str:
    if not rows:
        return '<p class="note">No epoch was trained.</p>'
    epochs = [row["epoch"] for row in rows]
    others = [name for name in rows[0] if name.startswith("val_") and name != "val_loss"]
    figure = _figure(10, 3.4)
    loss, metric = figure.subplots(1, 2)
    for name in ("train_loss", "val_loss"):
        loss.plot(epochs, [row[name] for row in rows], label=name)
    for name in others:
        metric.plot(epochs, [row[name] for row in rows], label=name)
    _finish(loss, "epoch", "loss")
    _finish(metric, "epoch", "validation metric")
    return _svg(figure)


def _finish(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)


def _test_sections(given: ReportInput) -> list[str]:
    if given.task == "multiclass":
        return _classification_sections(given)
    if given.task == "regression":
        return [_scatter(given.output, given.target)]
    return [_label_table(given.output, given.target)]


def _classification_sections(given: ReportInput) -> list[str]:
    output, labels = given.output, given.target.reshape(-1)
    names = given.classes or tuple(map(str, range(output.size(-1))))
    present = labels >= 0
    matrix = confusion(output[present].argmax(-1).numpy(), labels[present].numpy(), output.size(-1))
    rows = []
    for label in range(len(matrix)):
        hits, said, true = matrix[label, label], matrix[:, label].sum(), matrix[label].sum()
        shares = _ratio(hits, said), _ratio(hits, true), _ratio(2 * hits, said + true)
        rows.append([names[label], *map(_share, shares), str(true)])
    return [_heat_map(matrix, names), _table(["class", "precision", "recall", "F1", "test labels"], rows)]


def confusion(predicted: np.ndarray, target: np.ndarray, classes: int) -> np.ndarray:
    """Counts [C, C]: true classes down, predicted classes across."""
    return np.bincount(target * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _share(value: float) -> str:
    """Three digits; a dash where there was nothing to divide by."""
    return "\N{EN DASH}" if math.isnan(value) else f"{value:.3f}"


def _heat_map(matrix: np.ndarray, names: Sequence[str]) -> str:
    side = min(3.0 + 0.28 * len(matrix), 9.0)
    figure = _figure(side, side)
    axes = figure.subplots()
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(matrix) <= LABELLED_CLASSES:
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        for (row, column), count in np.ndenumerate(matrix):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(count), ha="center", va="center", color=colour, fontsize=8)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    return _svg(figure)


def _label_table(output: Tensor, target: Tensor) -> str:
    from kdlgt.train.metrics import scores

    target = target.reshape(output.shape)
    rows = []
    for label in range(output.size(1)):
        score = scores("multilabel", output[:, label : label + 1], target[:, label : label + 1])
        counts = [int((target[:, label] == value).sum()) for value in (1, 0)]
        rows.append([str(label), f"{score['roc_auc']:.3f}", f"{score['average_precision']:.3f}", *map(str, counts)])
    return _table(["label", "ROC-AUC", "average precision", "positives", "negatives"], rows)


def _scatter(output: Tensor, target: Tensor) -> str:
    predicted, true = output.reshape(-1).numpy(), target.reshape(-1).numpy()
    figure = _figure(5, 5)
    axes = figure.subplots()
    axes.scatter(true, predicted, s=6, alpha=0.5)
    if np.isfinite(true).any():
        ends = [np.nanmin(true), np.nanmax(true)]
        axes.plot(ends, ends, color="grey", linewidth=1)
    _finish(axes, "target", "prediction")
    return _svg(figure)


def _health_sections(heads: Sequence[Mapping[str, Any]]) -> list[str]:
    if not heads:
        return []
    rows = [
        [
            f"layer {head['layer']}, head {head['head']}",
            f"{head['effective_size']:.1f} of {head['num_features']}",
            f"{head['total_variation']:.3f}",
            "" if head["log_c_max"] is None else f"{head['log_c_max']:.2f}",
            "collapsed" if head["collapsed"] else "ok",
        ]
        for head in heads
    ]
    note = (
        '<p class="note">How far linear attention is from the softmax, on sampled nodes: effective features per row, '
        "total variation to the exact row, and the largest log relative error of one entry.</p>"
    )
    header = ["linear attention", "effective features", "total variation", "log c max", "state"]
    return ["<h2>Health</h2>", note, _table(header, rows)]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _figure(width: float, height: float) -> Figure:
    """A figure of its own: pyplot keeps global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]

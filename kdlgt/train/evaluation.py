"""After training: metrics, predictions and the report of a run's best weights."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

import torch
from torch import Tensor

from kdlgt.config.schema import Config
from kdlgt.data.bundle import DataBundle, Task
from kdlgt.model import ModelHealth, model_health
from kdlgt.model.segments import attends_exactly
from kdlgt.train.batches import PARTS, Part
from kdlgt.train.checkpoint import load_checkpoint, load_weights
from kdlgt.train.loop import Loop
from kdlgt.train.metrics import Scores, scores
from kdlgt.train.report import ReportInput, write_report
from kdlgt.train.result import RunResult
from kdlgt.train.run_folder import RunFolder, to_csv

HEALTH_ROWS = 32
"""Nodes that the health report samples in each layer."""

Outputs = dict[Part, tuple[Tensor, Tensor]]


def finish_run(loop: Loop, bundle: DataBundle, folder: RunFolder, config: Config) -> RunResult:
    """Evaluate the best weights, and write predictions, result and report."""
    if folder.best.exists():
        load_weights(folder.best, load_checkpoint(folder.best), loop.model)
    outputs = loop.outputs(*PARTS)
    result = _result(loop, bundle, folder, config, outputs)
    if loop.fabric.is_global_zero:
        write_predictions(folder.predictions, bundle, outputs)
        folder.write_json(folder.result, result.to_dict())
        _report(loop, bundle, folder, result, outputs, _health(loop, folder, config))
    return result


def _health(loop: Loop, folder: RunFolder, config: Config) -> ModelHealth | None:
    """Measure and write the health of the best weights on the first validation batch; warn where it has collapsed."""
    if not config.model.attend or config.model.attention.mode == "exact":
        return None
    for batch in loop.batches.evaluation("val"):
        health = model_health(loop.model, loop.on_device(batch), rows=HEALTH_ROWS, seed=config.train.seed)
        folder.write_json(folder.health, health.to_dict())
        return health
    return None


def part_scores(task: Task, outputs: Outputs, parts: Iterable[Part] = PARTS) -> dict[Part, Scores]:
    """Metrics by part."""
    return {part: scores(task, *outputs[part]) for part in parts}


def _result(loop: Loop, bundle: DataBundle, folder: RunFolder, config: Config, outputs: Outputs) -> RunResult:
    by_part = part_scores(bundle.task, outputs)
    seconds = sum(row["seconds"] for row in folder.read_metrics()[1])
    attention = config.model.attention
    mode = attention.mode if config.model.attend else "none"
    sizes = torch.tensor([graph.num_nodes for graph in bundle.graphs])
    return RunResult(
        test=by_part["test"],
        val=by_part["val"],
        metric=bundle.metric,
        best_epoch=loop.progress.best_epoch,
        epochs=loop.progress.epoch,
        seconds=seconds,
        parameters=sum(parameter.numel() for parameter in loop.model.parameters() if parameter.requires_grad),
        seed=config.train.seed,
        data=bundle.name,
        attention=mode,
        rpe=tuple(component.name for component in config.model.rpe),
        exact_graphs=int(attends_exactly(sizes, mode, attention.auto_threshold).sum()),
        graphs=len(sizes),
    )


def write_predictions(path: pathlib.Path, bundle: DataBundle, outputs: Outputs) -> int:
    """Write one row per node or graph with a label: number, part, target, prediction, outputs; return their number.

    Classes come with probabilities, binary and multi-label targets with one probability each.
    """
    width = bundle.out_features
    single = bundle.task == "multiclass"
    targets = ["target"] if single else [f"target_{index}" for index in range(width)]
    header = [bundle.level, "part", *targets, *(["prediction"] if single else [])]
    header += [f"{'output' if bundle.task == 'regression' else 'probability'}_{index}" for index in range(width)]
    rows = [row for part in PARTS for row in _rows(bundle, part, *outputs[part])]
    path.parent.mkdir(parents=True, exist_ok=True)
    RunFolder(path.parent).write_text(path, to_csv(header, rows))
    return len(rows)


def _rows(bundle: DataBundle, part: Part, output: Tensor, target: Tensor) -> list[list[object]]:
    shown = {"multiclass": output.softmax(-1), "regression": output}.get(bundle.task, output.sigmoid())
    columns = [target.reshape(len(output), -1).double()]
    if bundle.task == "multiclass":
        columns.append(output.argmax(-1, keepdim=True).double())
    table = torch.cat([*columns, shown.double()], dim=1).tolist()
    numbers = bundle.split.parts[part].tolist()
    return [
        [number, part, *(float(f"{value:.6g}") for value in row)] for number, row in zip(numbers, table, strict=True)
    ]


def _report(
    loop: Loop,
    bundle: DataBundle,
    folder: RunFolder,
    result: RunResult,
    outputs: Outputs,
    health: ModelHealth | None,
) -> None:
    numbers = {f"test {name}": f"{value:.4f}" for name, value in result.test.items()}
    numbers |= {f"validation {bundle.metric}": f"{result.val[bundle.metric]:.4f}"}
    numbers |= {"best epoch": f"{result.best_epoch} of {result.epochs}", "parameters": f"{result.parameters:,}"}
    numbers |= {
        "training time": f"{result.seconds:.0f} s",
        "attention": result.attention_in_words,
        "RPE": " + ".join(result.rpe) or "none",
    }
    output, target = outputs["test"]
    given = ReportInput(
        title=f"{bundle.name}: {folder.path.name}",
        numbers=numbers,
        task=bundle.task,
        output=output,
        target=target,
        classes=bundle.classes,
        config=loop.toml,
        health=() if health is None else health.to_dict()["heads"],
    )
    write_report(folder, given)

"""``kdlgt bench``: a group of commands, one module each, imported when it runs."""

from __future__ import annotations

from cyclopts import App

BENCHMARKS: dict[str, tuple[str, str]] = {
    "attention": (
        "kdlgt.cli.bench_attention:attention",
        "Time and memory of one attention layer: linear, exact, its matrix products alone, and PyG's layers.",
    ),
    "model": (
        "kdlgt.cli.bench_model:model",
        "Training step and evaluation of a model, linear against its exact twins and PyG's GPS.",
    ),
    "error": (
        "kdlgt.cli.bench_error:error",
        "Distance of every feature map to the softmax on a trained model's logits, with time beside error.",
    ),
    "encodings": (
        "kdlgt.cli.bench_encodings:encodings",
        "Distance of attention with each linear encoding to attention with the exact shortest path bias.",
    ),
    "prepare": (
        "kdlgt.cli.bench_prepare:prepare",
        "Time to prepare SAPD and spectral encodings on large graphs, beside scipy.",
    ),
}
"""Name of each benchmark, where its function is, and its line in ``--help``."""

app = App(name="bench", help="Measure time, memory and error.", help_format="plaintext")
for _name, (_target, _line) in BENCHMARKS.items():
    app.command(_target, name=_name, help=_line)

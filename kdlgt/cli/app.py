"""The table of commands, and how errors leave the program.

A command is one module of this package with one function, whose docstring describes its parameters; it gets an entry in
:data:`COMMANDS`. Modules are imported when their command runs (or its help is shown), and import torch inside the
function: ``kdlgt --help`` answers at once.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from cyclopts import App, CycloptsError
from rich.console import Console

from kdlgt.errors import KdlgtError

COMMANDS: dict[str, tuple[str, str]] = {
    "train": (
        "kdlgt.cli.train:train",
        "Train from a config, write a run folder, print the test metrics; without a config, the digits demo.",
    ),
    "evaluate": ("kdlgt.cli.evaluate:evaluate", "Evaluate a run's best checkpoint, as it was or with exact attention."),
    "predict": ("kdlgt.cli.predict:predict", "Predict with a run's best checkpoint: a CSV table."),
    "compare": ("kdlgt.cli.compare:compare", "Compare runs; those that differ by their seed alone share a row."),
    "health": ("kdlgt.cli.health:health", "How far linear attention is from the softmax, for each layer and head."),
    "bench": ("kdlgt.cli.bench:app", "Measure time, memory and error."),
    "reproduce": ("kdlgt.cli.reproduce:app", "Run the paper's experiments, with its claims beside what was measured."),
    "plugins": ("kdlgt.cli.plugins:plugins", "List encodings, feature maps and data sets, and broken plugins."),
    "check": ("kdlgt.cli.check:check", "Run the conformance kit on an encoding, a feature map or a data set."),
    "new-plugin": ("kdlgt.cli.new_plugin:new_plugin", "Write a plugin of your own, with tests that pass."),
}
"""Name of each command, where its function (or cyclopts app of the same name) is, and its line in ``--help``."""

DEBUG = "--debug"
EXIT_CODE: Final = "return_int_as_exit_code_else_zero"


def build_app() -> App:
    """The cyclopts application with every command of the table, none of them imported yet."""
    app = App(
        name="kdlgt",
        help="Graph transformers with relative positional encodings in linear time.",
        help_epilogue=f"Errors are one message and exit code 2; {DEBUG} shows the traceback too.",
        help_format="plaintext",
        version_flags=["--version"],
        version=_version,
    )
    for name, (target, line) in COMMANDS.items():
        app.command(target, name=name, help=line)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and exit: 0 when it worked, 2 with one message when it did not."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    sys.exit(run([token for token in given if token != DEBUG], debug=debug))


def run(tokens: Sequence[str], *, debug: bool = False) -> int:
    """Run one command line and return its exit code."""
    errors = Console(stderr=True)
    try:
        with _warnings_in_one_line(errors):
            code = build_app()(tokens, exit_on_error=False, error_console=errors, result_action=EXIT_CODE)
    except CycloptsError:
        return 2
    except KdlgtError as error:
        if debug:
            errors.print_exception()
        errors.print("[bold red]error:[/bold red]", end=" ")
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    return int(code)


@contextlib.contextmanager
def _warnings_in_one_line(errors: Console) -> Iterator[None]:
    """Show warnings as messages to the user, without the line of code that gave them."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        errors.print("[bold yellow]warning:[/bold yellow]", end=" ")
        errors.print(str(message), style="yellow", markup=False, highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _version() -> str:
    import importlib.metadata

    return importlib.metadata.version("kdlgt")

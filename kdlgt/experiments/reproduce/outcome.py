"""What an experiment hands over: tables, pictures and claims, as values."""

from __future__ import annotations

import csv
import io
import pathlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from kdlgt.experiments.reproduce.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Budget = Literal["small", "medium", "full"]
Entry = str | int | float | bool | None


def number(row: Mapping[str, Entry], column: str) -> float:
    """An entry that is a number."""
    value = row[column]
    assert isinstance(value, int | float)
    return value


@attrs.frozen(kw_only=True)
class Request:
    """What a person asked for.

    Attributes:
        experiment: its name on the command line.
        folder: where the experiment writes.
        arguments: what else was given on the command line.
        budget: how much of it is run.
        seed: seed of every draw.
        data_root: folder of data sets; ``None`` for ``$KDLGT_DATA``, else a download.
        say: takes one line of progress.
    """

    experiment: str
    folder: pathlib.Path
    arguments: tuple[str, ...] = ()
    budget: Budget = "small"
    seed: int = 0
    data_root: pathlib.Path | None = None
    say: Callable[[str], None] = lambda line: None

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        words = ["kdlgt", "reproduce", self.experiment, *self.arguments, "--budget", self.budget]
        words += ["--seed", str(self.seed), "--out", str(self.folder)]
        return shlex.join(words if self.data_root is None else [*words, "--data-root", str(self.data_root)])


@attrs.frozen(kw_only=True)
class Table:
    """A table with a name for its file.

    Attributes:
        name: file name without suffix.
        title: one line above it.
        columns: names of the columns.
        rows: entries, in the order of the columns.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]

    @classmethod
    def of(cls, name: str, title: str, records: Sequence[Mapping[str, Entry]]) -> Table:
        """A table from records; the columns are the keys in order of appearance."""
        columns = tuple(dict.fromkeys(key for record in records for key in record))
        return cls(
            name=name,
            title=title,
            columns=columns,
            rows=tuple(tuple(record.get(column) for column in columns) for record in records),
        )

    @property
    def records(self) -> list[dict[str, Entry]]:
        """The rows by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_csv(self) -> str:
        """The table as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        return text.getvalue()


@attrs.frozen(eq=False, kw_only=True)
class Picture:
    """A figure with a name for its file.

    Attributes:
        name: file name without suffix.
        title: caption.
        figure: what is drawn.
    """

    name: str
    title: str
    figure: Figure


@attrs.frozen(eq=False, kw_only=True)
class Outcome:
    """The outcome of one experiment.

    Attributes:
        name: the experiment, as in the command.
        title: one line.
        summary: what was done, in a few sentences.
        settings: the budget in numbers.
        tables, pictures, claims: what was found.
        notes: what a reader must know to judge it.
    """

    name: str
    title: str
    summary: str
    settings: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pictures."""
        return {
            "experiment": self.name,
            "title": self.title,
            "summary": self.summary,
            "settings": dict(self.settings),
            "tables": {table.name: table.records for table in self.tables},
            "claims": [claim.to_dict() for claim in self.claims],
            "notes": list(self.notes),
        }

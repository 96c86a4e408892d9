"""Tables of a graph in CSV or Parquet, as typed NumPy columns."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdlgt.errors import DataError, suggestion

Column = NDArray[Any]
Table = dict[str, Column]


def locate(root: pathlib.Path | None, name: str) -> pathlib.Path:
    """A path below the data folder when it is there, else below the working directory."""
    inside = None if root is None else root / name
    return inside if inside is not None and inside.exists() else pathlib.Path(name)


def read_table(path: pathlib.Path) -> Table:
    """Columns by name: int64, float64 (NaN where empty) or text (empty where missing).

    Raises:
        DataError: the file is missing or broken, or no CSV or Parquet file.
    """
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise DataError(f"{path} has the ending {path.suffix!r}; allowed: .csv, .parquet")
    if not path.is_file():
        raise DataError(f"{path} does not exist; paths are relative to the data folder, or to the working directory")
    table = readers[path.suffix](path)
    if not table:
        raise DataError(f"{path} is empty; a header and at least one column are needed")
    return table


def column(table: Table, name: str, path: str) -> Column:
    """One column.

    Raises:
        DataError: the table does not have it.
    """
    if name not in table:
        raise DataError(f"{path} has no column {name!r}; it has: {', '.join(table)}.{suggestion(name, table)}")
    return table[name]


def is_text(values: Column) -> bool:
    """Whether a column holds text."""
    return values.dtype.kind not in "iuf"


def rows(table: Table, chosen: NDArray[np.int64]) -> Table:
    """The chosen rows of every column."""
    return {name: values[chosen] for name, values in table.items()}


def length(table: Table) -> int:
    """Number of rows."""
    return len(next(iter(table.values())))


def _read_csv(path: pathlib.Path) -> Table:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV in UTF-8: {error}") from error
    lines = [line for line in lines if line]
    for number, line in enumerate(lines):
        if len(line) != len(header):
            raise DataError(f"{path}: row {number + 1} has {len(line)} values, the header {len(header)}")
    columns = zip(*lines, strict=True) if lines else ((),) * len(header)
    return {name.strip(): _typed(values) for name, values in zip(header, columns, strict=True)}


def _typed(values: Sequence[str]) -> Column:
    for kind in (np.int64, np.float64):
        try:
            filled = [value or "nan" for value in values] if kind is np.float64 else values
            return np.array(filled, dtype=np.str_).astype(kind) if values else np.empty(0, dtype=np.int64)
        except (ValueError, OverflowError):
            continue
    return np.array(values, dtype=object)


def _read_parquet(path: pathlib.Path) -> Table:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError(f"{path} needs pyarrow; pip install 'kdlgt[data]', or give a CSV file") from error
    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
    return {name: _from_arrow(table[name].to_numpy()) for name in table.column_names}


def _from_arrow(values: Column) -> Column:
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    return np.array(["" if value is None else str(value) for value in values], dtype=object)

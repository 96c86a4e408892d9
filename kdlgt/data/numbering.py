"""From the names of graphs and nodes in tables to numbers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from kdlgt.data.tables import Column, Table, column, is_text, length
from kdlgt.errors import DataError

Integers = NDArray[np.int64]


@attrs.frozen(eq=False, kw_only=True)
class Numbering:
    """Nodes of all graphs, numbered graph by graph.

    Attributes:
        graphs: number of graphs G.
        counts: nodes of each graph [G].
        node_rows: row of the node table of each node [N]; ``None`` without that table.
        ends: source and target of each edge as node numbers [2, E].
        label_rows: what each row of the label table names [R]: nodes when it has a column ``node``, else graphs;
            ``None`` without that table.
    """

    graphs: int
    counts: Integers
    node_rows: Integers | None
    ends: Integers
    label_rows: Integers | None


def number(edges: Table, nodes: Table | None, labels: Table | None) -> Numbering:
    """Number the nodes in the order of the node table; without one, all nodes that edges and labels name, sorted.

    Raises:
        DataError: a node stands twice in the node table, or an edge or a label names a node that is not in it.
    """
    tables = [table for table in (edges, nodes, labels) if table is not None]
    graphs, total = _codes([table.get("graph", np.zeros(length(table), dtype=np.int64)) for table in tables])
    of_edges, of_labels = graphs[0], graphs[-1]
    names = [column(edges, "source", "the edge table"), column(edges, "target", "the edge table")]
    owners = [of_edges, of_edges]
    if labels is not None and "node" in labels:
        names, owners = [*names, labels["node"]], [*owners, of_labels]
    if nodes is not None:
        names, owners = [*names, _node_names(nodes, graphs[1])], [*owners, graphs[1]]
    codes, width = _codes(names)
    keys = [owner * width + code for owner, code in zip(owners, codes, strict=True)]
    known, node_rows = _known(keys, width, has_table=nodes is not None)
    found = [_positions(known, key, name) for key, name in zip(keys[:3], names[:3], strict=False)]
    named = found[2] if labels is not None and "node" in labels else of_labels
    return Numbering(
        graphs=total,
        counts=np.bincount(known // width, minlength=total).astype(np.int64),
        node_rows=node_rows,
        ends=np.stack(found[:2]),
        label_rows=None if labels is None else named,
    )


def _codes(columns: Sequence[Column]) -> tuple[list[Integers], int]:
    """Numbers for the distinct values of several columns together, in sorted order, and how many there are."""
    comparable = [values.astype(str) for values in columns] if any(map(is_text, columns)) else list(columns)
    together = np.concatenate(comparable)
    distinct, inverse = np.unique(together, return_inverse=True)
    ends = np.cumsum([len(values) for values in columns])[:-1]
    return [part.astype(np.int64) for part in np.split(inverse, ends)], max(len(distinct), 1)


def _node_names(nodes: Table, graph: Integers) -> Column:
    """The column ``node``, or the row number within the graph."""
    if "node" in nodes:
        return nodes["node"]
    order = np.argsort(graph, kind="stable")
    counts = np.bincount(graph)
    within = np.empty(len(graph), dtype=np.int64)
    within[order] = np.arange(len(graph)) - np.repeat(np.cumsum(counts) - counts, counts)
    return within


def _known(keys: Sequence[Integers], width: int, *, has_table: bool) -> tuple[Integers, Integers | None]:
    """Keys of all nodes in their final order, and their rows in the node table."""
    if not has_table:
        return np.unique(np.concatenate(list(keys))), None
    table = keys[-1]
    if len(np.unique(table)) != len(table):
        raise DataError("a node stands twice in the node table; nodes are told apart by the columns `graph` and `node`")
    by_graph = np.argsort(table // width, kind="stable")
    return table[by_graph], by_graph


def _positions(known: Integers, keys: Integers, names: Column) -> Integers:
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], keys), max(len(known) - 1, 0))
    wrong = np.ones(len(keys), dtype=bool) if not len(known) else known[order][at] != keys
    if wrong.any():
        name = names[int(wrong.argmax())]
        raise DataError(f"an edge or a label names node {str(name)!r}, which is not in the node table")
    return order[at]

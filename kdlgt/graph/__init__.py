"""Graphs as encodings see them, and the structure that is computed from them once."""

from kdlgt.graph.graph import Graph
from kdlgt.graph.structure import Prepare, Structure, graph_ids, graph_ptr, read_structure

__all__ = ["Graph", "Prepare", "Structure", "graph_ids", "graph_ptr", "read_structure"]

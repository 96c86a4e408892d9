"""Options of the core's data sets: what may stand beside ``name`` in ``[data.dataset]``; free of torch."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class PlanetoidOptions:
    """Options of a citation graph.

    Attributes:
        normalise: divide each node's features by their sum.
    """

    normalise: bool = False


@attrs.frozen(kw_only=True)
class TUOptions:
    """Options of a TU data set.

    Attributes:
        attributes: use the real-valued node and edge attributes beside the labels; features are then floats, labels
            one-hot.
    """

    attributes: bool = False


@attrs.frozen(kw_only=True)
class ZincOptions:
    """ZINC has no options."""


@attrs.frozen(kw_only=True)
class MolhivOptions:
    """OGBG-MOLHIV has no options."""


@attrs.frozen(kw_only=True)
class LastFMOptions:
    """LastFM-Asia has no options."""


@attrs.frozen(kw_only=True)
class DigitsOptions:
    """Options of the digits graph.

    Attributes:
        neighbours: each digit is joined to so many nearest ones.
        labels_per_class: training labels of each class; the others validate and test.
    """

    neighbours: int = 10
    labels_per_class: int = 10


@attrs.frozen(kw_only=True)
class KarateOptions:
    """Options of the karate club.

    Attributes:
        labels_per_class: training labels of each community.
    """

    labels_per_class: int = 2


@attrs.frozen(kw_only=True)
class RegularOptions:
    """Options of a random regular graph.

    Attributes:
        nodes: number of nodes N.
        degree: neighbours of each node.
        features: width of the Gaussian features.
        classes: number of classes.
        seed: seed of graph, features and labels (not of the split).
    """

    nodes: int = 4096
    degree: int = 6
    features: int = 16
    classes: int = 5
    seed: int = 0


@attrs.frozen(kw_only=True)
class DistanceOptions:
    """Options of the distance task.

    Attributes:
        graphs: number of graphs.
        nodes: nodes of each cycle.
        classes: number of distance ranges.
        seed: seed of the marked nodes.
    """

    graphs: int = 1000
    nodes: int = 32
    classes: int = 2
    seed: int = 0


@attrs.frozen(kw_only=True)
class FilesOptions:
    """Options of your own data: either ``graphs``, or ``edges`` with ``nodes`` and ``labels``.

    Paths are relative to the data folder when there is one, else to the working directory.

    Attributes:
        graphs: a ``.pt`` file with a PyG ``Data`` or a list of them.
        edges: table of edges: columns ``source``, ``target``, with many graphs ``graph``, and any edge features.
        nodes: table of nodes: column ``node`` (else the row number within the graph), with many graphs ``graph``, any
            features, and with node-level labels the ``label`` columns.
        labels: table of labels by ``node`` or ``graph`` when they do not stand in ``nodes``.
        label: names of the label columns.
        level: whether labels belong to nodes or to graphs.
        task: kind of target; ``auto`` takes ``multiclass`` for integers and text, ``regression`` for other numbers.
        metric: what validation and test report; ``auto`` takes the usual one of the task.
        features: node features as categories or as numbers; ``auto`` takes categories when all columns are integers.
        edge_features: the same for edges.
    """

    graphs: str = ""
    edges: str = ""
    nodes: str = ""
    labels: str = ""
    label: tuple[str, ...] = ("label",)
    level: Literal["auto", "node", "graph"] = "auto"
    task: Literal["auto", "multiclass", "binary", "multilabel", "regression"] = "auto"
    metric: Literal["auto", "accuracy", "f1", "roc_auc", "average_precision", "mae", "rmse"] = "auto"
    features: Literal["auto", "categories", "numbers"] = "auto"
    edge_features: Literal["auto", "categories", "numbers"] = "auto"


@attrs.frozen(kw_only=True)
class PygOptions:
    """Options of any PyG data set.

    Attributes:
        path: dotted path of the class, e.g. ``torch_geometric.datasets.WikipediaNetwork``.
        arguments: its arguments as ``key=value``, the value in JSON or plain text, e.g. ``["name=chameleon"]``;
            ``root`` is a folder in the cache unless given.
        level: whether labels belong to nodes or to graphs.
        task: kind of target.
        metric: what validation and test report.
    """

    path: str = ""
    arguments: tuple[str, ...] = ()
    level: Literal["auto", "node", "graph"] = "auto"
    task: Literal["auto", "multiclass", "binary", "multilabel", "regression"] = "auto"
    metric: Literal["auto", "accuracy", "f1", "roc_auc", "average_precision", "mae", "rmse"] = "auto"

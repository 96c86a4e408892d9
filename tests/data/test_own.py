"""Your own data: saved graphs, tables, and PyG data sets by path."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from kdlgt.data.options import FilesOptions
from kdlgt.data.own import described, load_graphs
from kdlgt.errors import DataError, GraphError
from kdlgt.graph import generate

Load = Any


def path_graph(nodes: int, **fields: Any) -> Data:
    return Data(edge_index=generate.path(nodes).edge_index, **fields)


def save(path: pathlib.Path, *graphs: Data) -> dict[str, Any]:
    torch.save(list(graphs), path)
    return {"graphs": str(path)}


def write(folder: pathlib.Path, **tables: str) -> dict[str, Any]:
    for name, text in tables.items():
        lines = [line.strip() for line in text.strip().splitlines()]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return {name: str(folder / f"{name}.csv") for name in tables}


# Saved graphs


def test_the_short_example(load: Load, tmp_path: pathlib.Path) -> None:
    graphs = []
    for number in range(40):
        nodes = 4 + number % 5
        graph = generate.path(nodes) if number % 2 else generate.star(nodes)
        graph.x = torch.randn(nodes, 8)
        graph.y = torch.tensor([number % 2])
        graphs.append(graph)
    torch.save(graphs, tmp_path / "mine.pt")
    bundle = load("files", options={"graphs": "mine.pt"}, root=tmp_path)
    assert (bundle.level, bundle.task, bundle.in_features, bundle.out_features) == ("graph", "multiclass", 8, 2)
    assert (len(bundle.train), len(bundle.val), len(bundle.test)) == (28, 6, 6)


@pytest.mark.parametrize(
    ("labels", "task", "out", "metric"),
    [
        ([torch.tensor([number % 3]) for number in range(20)], "multiclass", 3, "accuracy"),
        ([torch.tensor(number % 3) for number in range(20)], "multiclass", 3, "accuracy"),
        ([torch.tensor([0.5 * number]) for number in range(20)], "regression", 1, "mae"),
        ([torch.rand(1, 4) for _ in range(20)], "regression", 4, "mae"),
        ([torch.tensor([[1.0, 0.0, torch.nan]]) for _ in range(20)], "multilabel", 3, "average_precision"),
        ([torch.tensor([[1, 0]]) for _ in range(20)], "multilabel", 2, "average_precision"),
    ],
)
def test_labels_describe_the_task(
    load: Load, tmp_path: pathlib.Path, labels: list[torch.Tensor], task: str, out: int, metric: str
) -> None:
    graphs = [path_graph(3, x=torch.zeros(3, 1), y=y) for y in labels]
    bundle = load("files", options=save(tmp_path / "mine.pt", *graphs))
    assert (bundle.task, bundle.out_features, bundle.metric) == (task, out, metric)
    rows = bundle.graphs[0].y
    assert rows.shape == ((1,) if task == "multiclass" else (1, out))


def test_the_task_and_metric_can_be_given(load: Load, tmp_path: pathlib.Path) -> None:
    graphs = [path_graph(3, x=torch.zeros(3, 1), y=torch.tensor([number % 2])) for number in range(20)]
    options = save(tmp_path / "mine.pt", *graphs) | {"task": "binary", "metric": "average_precision"}
    bundle = load("files", options=options)
    assert (bundle.task, bundle.metric, bundle.out_features) == ("binary", "average_precision", 1)
    assert bundle.graphs[1].y.tolist() == [[1.0]]


def test_one_graph_with_masks_is_node_level_with_a_public_split(load: Load, tmp_path: pathlib.Path) -> None:
    fields: dict[str, Any] = {"x": torch.randint(4, (9,)), "y": torch.arange(9) % 3}
    for start, name in enumerate(("train", "val", "test")):
        mask = torch.zeros(9, 2, dtype=torch.bool)
        mask[3 * start : 3 * start + 3, 0] = True
        fields[f"{name}_mask"] = mask
    bundle = load("files", options=save(tmp_path / "mine.pt", path_graph(9, **fields)))
    assert (bundle.level, bundle.in_features) == ("node", (int(fields["x"].max()) + 1,))
    assert bundle.split.val.tolist() == [3, 4, 5]
    assert bundle.graph.val_mask.shape == (9,)


def test_double_precision_becomes_single_and_truth_values_numbers() -> None:
    given = path_graph(3, x=torch.rand(3, 2).double(), edge_attr=torch.ones(4).bool(), y=torch.ones(1).double())
    raw = described([given], FilesOptions())
    (graph,) = raw.graphs
    assert [graph[name].dtype for name in ("x", "edge_attr", "y")] == [torch.float32] * 3
    assert (raw.in_features, raw.edge_features) == (2, 1)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle ran",)


def test_loading_leaves_torchs_list_of_safe_classes_alone(tmp_path: pathlib.Path) -> None:
    save(tmp_path / "mine.pt", path_graph(3, y=torch.zeros(1)))
    before = set(torch.serialization.get_safe_globals())
    load_graphs(tmp_path / "mine.pt")
    assert set(torch.serialization.get_safe_globals()) == before


@pytest.mark.parametrize("content", [pickle.dumps(Bomb()), b"", b"\x00" * 50], ids=["code", "empty", "noise"])
def test_files_with_code_or_noise_are_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "mine.pt").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as saved graphs"):
        load_graphs(tmp_path / "mine.pt")


def test_a_saved_bomb_does_not_run(tmp_path: pathlib.Path) -> None:
    torch.save([Bomb()], tmp_path / "mine.pt")
    with pytest.raises(DataError, match="cannot be read as saved graphs"):
        load_graphs(tmp_path / "mine.pt")


def test_anything_but_graphs_is_refused(load: Load, tmp_path: pathlib.Path) -> None:
    torch.save({"x": torch.zeros(1)}, tmp_path / "mine.pt")
    with pytest.raises(DataError, match="holds dict; expected"):
        load_graphs(tmp_path / "mine.pt")
    with pytest.raises(DataError, match="without labels y"):
        load("files", options=save(tmp_path / "mine.pt", path_graph(3, x=torch.zeros(3, 1))))
    with pytest.raises(DataError, match="cannot be read"):
        load("files", options={"graphs": str(tmp_path / "absent.pt")})


@pytest.mark.parametrize("options", [{}, {"graphs": "a.pt", "edges": "b.csv"}])
def test_graphs_or_edges_must_be_named(load: Load, options: dict[str, str]) -> None:
    with pytest.raises(DataError, match="either `graphs`"):
        load("files", options=options)


# Tables


def test_a_node_table_and_an_edge_list(load: Load, tmp_path: pathlib.Path) -> None:
    people = "\n".join(f"p{i},{i / 2},{2 * i},{'red' if i % 2 else 'blue'}" for i in range(30))
    ties = "\n".join(f"p{i},p{(i + 1) % 30}" for i in range(30))
    options = write(tmp_path, nodes=f"node,age,height,label\n{people}", edges=f"source,target\n{ties}")
    with pytest.raises(GraphError, match="directed"):
        load("files", options=options)
    bundle = load("files", options=options, symmetrise=True)
    assert (bundle.level, bundle.task, bundle.classes) == ("node", "multiclass", ("blue", "red"))
    assert bundle.in_features == 2
    assert bundle.graph.x[3].tolist() == [1.5, 6.0]
    assert bundle.graph.y[:4].tolist() == [0, 1, 0, 1]
    assert bundle.graph.edge_index.size(1) == 60
    assert sum(len(part) for part in bundle.split.parts.values()) == 30


def test_edge_features_categories_and_a_split_column(load: Load, tmp_path: pathlib.Path) -> None:
    options = write(
        tmp_path,
        nodes="""node,kind,colour,label,split
                 10,0,red,5,train
                 20,1,blue,7,val
                 30,2,red,,test
                 40,0,green,5,test
                 50,0,green,7,""",
        edges="""source,target,bond
                 10,20,1
                 20,10,1
                 40,20,0
                 20,40,0""",
    )
    bundle = load("files", options=options)
    assert bundle.in_features == (3, 3)
    assert bundle.graph.x.tolist() == [[0, 2], [1, 0], [2, 2], [0, 1], [0, 1]]
    assert bundle.edge_features == (2,)
    assert bundle.graph.edge_index.tolist() == [[0, 1, 3, 1], [1, 0, 1, 3]]
    assert bundle.graph.edge_attr.flatten().tolist() == [1, 1, 0, 0]
    assert bundle.classes == ("5", "7")
    assert bundle.graph.y.tolist() == [0, 1, -1, 0, 1]
    assert [part.tolist() for part in bundle.split.parts.values()] == [[0], [1], [3]]
    numbers = load("files", options=options | {"edge_features": "numbers"})
    assert numbers.edge_features == 1
    assert numbers.graph.edge_attr.dtype == torch.float32


def test_labels_in_a_table_of_their_own_and_nodes_from_the_edges(load: Load, tmp_path: pathlib.Path) -> None:
    ties = "\n".join(f"{i},{(i + 1) % 30}\n{(i + 1) % 30},{i}" for i in range(30))
    targets = "\n".join(f"{i},{i * 0.25}" for i in reversed(range(25)))
    options = write(tmp_path, edges=f"source,target\n{ties}", labels=f"node,label\n{targets}")
    bundle = load("files", options=options)
    assert (bundle.level, bundle.task, bundle.in_features, bundle.metric) == ("node", "regression", None, "mae")
    assert bundle.graph.y[:3].tolist() == [[0.0], [0.25], [0.5]]
    assert bundle.graph.y[25:].isnan().all()
    assert sum(len(part) for part in bundle.split.parts.values()) == 25


def test_many_graphs_in_tables(load: Load, tmp_path: pathlib.Path) -> None:
    """Rows of the tables in any order, graphs named by text, one graph without edges and one without a label."""
    options = write(
        tmp_path,
        nodes="\n".join(["graph,node,mass"] + [f"g{g},{n},{10 * g + n}.5" for n in range(3) for g in range(12)]),
        edges="\n".join(
            ["graph,source,target"] + [f"g{g},{a},{b}" for a, b in ((0, 2), (2, 0)) for g in reversed(range(11))]
        ),
        labels="\n".join(["graph,toxic,soluble"] + [f"g{g},{g % 2},{'' if g == 3 else 1}" for g in range(11)]),
    )
    bundle = load("files", options=options | {"label": ["toxic", "soluble"]})
    assert (bundle.level, bundle.task, bundle.out_features) == ("graph", "multilabel", 2)
    assert len(bundle.graphs) == 12
    order = sorted(f"g{g}" for g in range(12))
    third = bundle.graphs[order.index("g3")]
    assert third.x.flatten().tolist() == [30.5, 31.5, 32.5]
    assert third.edge_index.tolist() == [[0, 2], [2, 0]]
    assert third.y.isnan().tolist() == [[False, True]]
    bare = bundle.graphs[order.index("g11")]
    assert bare.edge_index.size(1) == 0
    assert order.index("g11") not in torch.cat(list(bundle.split.parts.values()))


def test_node_numbers_are_row_numbers_without_a_column(load: Load, tmp_path: pathlib.Path) -> None:
    options = write(
        tmp_path,
        nodes="label\n" + "\n".join(str(i % 2) for i in range(20)),
        edges="source,target\n" + "\n".join(f"{i},{19 - i}" for i in range(20)),
    )
    assert load("files", options=options).graph.edge_index[1].tolist() == list(range(19, -1, -1))


def test_parquet(load: Load, tmp_path: pathlib.Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    nodes = {"node": [f"n{i}" for i in range(20)], "w": [0.5] * 20, "label": [None, *(["a", "b"] * 10)[:19]]}
    ends = [f"n{i}" for i in range(20)]
    parquet.write_table(arrow.table(nodes), tmp_path / "nodes.parquet")
    parquet.write_table(arrow.table({"source": ends, "target": ends[::-1]}), tmp_path / "edges.parquet")
    bundle = load("files", root=tmp_path, options={"nodes": "nodes.parquet", "edges": "edges.parquet"})
    assert bundle.classes == ("a", "b")
    assert bundle.graph.y[:3].tolist() == [-1, 0, 1]
    assert bundle.in_features == 1


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ({"edges": "from,to\n1,2", "nodes": "node,label\n1,0\n2,1"}, {}, "no column 'source'"),
        ({"edges": "source,target\n1,3", "nodes": "node,label\n1,0\n2,1"}, {}, "names node '3', which is not in"),
        ({"edges": "source,target\n1,2", "nodes": "node,label\n1,0\n1,1"}, {}, "stands twice"),
        ({"edges": "source,target\n1,2"}, {}, "no labels"),
        ({"edges": "source,target\n1,2", "nodes": "node,lable\n1,0\n2,1"}, {}, "Did you mean 'lable'"),
        ({"edges": "source,target\n1,2\n3", "nodes": "node,label\n1,0"}, {}, "row 2 has 1 values, the header 2"),
        ({"edges": "source,target\n1,2", "nodes": "node,a,b,label\n1,red,.5,0\n2,blue,.5,0"}, {}, r"\['a'\] hold text"),
        (
            {"edges": "source,target\n1,2", "nodes": "node,a,label\n1,.5,0\n2,.5,0"},
            {"features": "categories"},
            "fractions",
        ),
        ({"edges": "source,target\n1,2", "nodes": "node,label\n1,a\n2,b"}, {"task": "regression"}, "hold text"),
        ({"edges": "source,target\n1,2", "nodes": "node,label\n1,0\n2,1"}, {"level": "graph"}, "column 'graph'"),
        ({"edges": "source,target\n1,2", "labels": "node,label\n1,0\n1,1"}, {}, "several rows of labels"),
        ({"edges": ""}, {}, "is empty"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    load: Load, tmp_path: pathlib.Path, tables: dict[str, str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load("files", options=write(tmp_path, **tables) | options)


def test_only_known_files_are_read(load: Load, tmp_path: pathlib.Path) -> None:
    (tmp_path / "edges.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"'\.xlsx'; allowed: \.csv, \.parquet"):
        load("files", options={"edges": str(tmp_path / "edges.xlsx")})
    with pytest.raises(DataError, match="does not exist"):
        load("files", options={"edges": str(tmp_path / "edges.csv")})


# PyG data sets by path


def test_any_pyg_data_set(load: Load) -> None:
    bundle = load(
        "pyg",
        options={
            "path": "torch_geometric.datasets.FakeDataset",
            "arguments": ["num_graphs=30", "avg_num_nodes=8", "num_classes=3", "is_undirected=true"],
        },
    )
    assert len(bundle.graphs) == 30
    assert (bundle.level, bundle.task) == ("graph", "multiclass")
    assert bundle.in_features == 64


@pytest.mark.parametrize(
    ("path", "arguments", "message"),
    [
        ("", [], "names no class"),
        ("torch_geometric.datasets.Nothing", [], "names no class"),
        ("os.path.join", [], "no subclass"),
        ("torch_geometric.datasets.FakeDataset", ["num_graphs"], "write key=value"),
        ("torch_geometric.datasets.FakeDataset", ["colour=red"], r"FakeDataset\(\*\*\{'colour': 'red'\}\) failed"),
    ],
)
def test_pyg_data_sets_that_are_none(load: Load, path: str, arguments: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load("pyg", options={"path": path, "arguments": arguments})


def ring(tmp_path: pathlib.Path, labels: list[str]) -> dict[str, Any]:
    """A ring of nodes with these labels, as options of ``files``."""
    count = len(labels)
    edges = [f"{i},{(i + step) % count}" for i in range(count) for step in (1, -1)]
    nodes = [f"{i},0.5,{label}" for i, label in enumerate(labels)]
    return write(tmp_path, edges="\n".join(["source,target", *edges]), nodes="\n".join(["node,f,label", *nodes]))


@pytest.mark.parametrize(
    ("labels", "classes", "missing"),
    [(["-1", "1"], ("-1", "1"), 0), (["-1", "0", "1"], ("0", "1"), 10), (["", "-1", "1"], ("-1", "1"), 10)],
)
def test_minus_one_is_a_class_beside_plus_one_alone(
    load: Load, tmp_path: pathlib.Path, labels: list[str], classes: tuple[str, ...], missing: int
) -> None:
    bundle = load("files", options=ring(tmp_path, labels * 10))
    assert bundle.classes == classes
    assert int((bundle.graph.y == -1).sum()) == missing


def test_one_class_is_no_classification(load: Load, tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match=r"files: all labels are of one class \('same'\)"):
        load("files", options=ring(tmp_path, ["same"] * 20))
    with pytest.raises(DataError, match=r"label = \[\]; name one or more label columns"):
        load("files", options=ring(tmp_path, ["a", "b"] * 10) | {"label": []})


def test_numbers_beyond_64_bits_are_floats(load: Load, tmp_path: pathlib.Path) -> None:
    options = ring(tmp_path, ["a", "b"] * 10)
    text = (tmp_path / "nodes.csv").read_text().replace("0,0.5,a", f"0,{10**30},a", 1)
    (tmp_path / "nodes.csv").write_text(text)
    assert load("files", options=options).graph.x[0].item() == pytest.approx(1e30)


@pytest.mark.parametrize(
    ("content", "message"), [(b"hello", "cannot be read as saved graphs"), (b"", "cannot be read as saved graphs: EOF")]
)
def test_a_file_that_is_no_saved_graph_is_named(tmp_path: pathlib.Path, content: bytes, message: str) -> None:
    (tmp_path / "mine.pt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_graphs(tmp_path / "mine.pt")
    with pytest.raises(DataError, match="there is no such file"):
        load_graphs(tmp_path / "other.pt")

"""Structure is computed once, kept on disk, and never trusted blindly."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch_geometric.data import Data

import kdlgt.data.preparation
from kdlgt.data.cache import as_fields, as_graph, cached, read_fields, write_fields
from kdlgt.data.preparation import prepared
from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import Graph, Prepare, Structure, generate, read_structure
from kdlgt.graph.absolute import ReturnProbabilities

Degrees = Any


def graphs() -> list[Data]:
    return [
        generate.path(3),
        generate.star(5),
        generate.cycle(4),
        Data(edge_index=torch.empty(2, 0).long(), num_nodes=1),
    ]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of nodes of every graph whose structure is computed."""
    seen: list[int] = []
    original = Prepare.forward

    def forward(self: Prepare, data: Data) -> Data:
        seen.append(int(data.num_nodes or 0))
        return original(self, data)

    monkeypatch.setattr(Prepare, "forward", forward)
    return seen


def assert_equal(found: tuple[Data, ...], expected: tuple[Data, ...]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert set(a.keys()) == set(b.keys())
        assert all(torch.equal(a[name], b[name]) for name in a.keys() if isinstance(a[name], Tensor))  # noqa: SIM118


def cached_file(cache: pathlib.Path) -> pathlib.Path:
    (file,) = (cache / "structure").glob("*.safetensors")
    return file


def test_every_graph_gets_the_fields_of_the_structure(degrees: Degrees) -> None:
    structure = degrees(power=2)
    given = graphs()
    star = prepared(given, Prepare([structure]))[1]
    assert read_structure(star, structure, "degree").tolist() == [16, 1, 1, 1, 1]
    assert read_structure(star, structure, "pair_index").shape == (2, 8)
    assert len(given[1].keys()) == 2


def test_the_second_time_is_read_from_disk(degrees: Degrees, computed: list[int]) -> None:
    first = prepared(graphs(), Prepare([degrees()]))
    assert computed == [3, 5, 4, 1]
    second = prepared(graphs(), Prepare([degrees()]))
    assert computed == [3, 5, 4, 1]
    assert_equal(second, first)


def test_the_key_covers_data_options_order_and_version(
    degrees: Degrees, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_edges = graphs()
    other_edges[0].edge_index = torch.tensor([[0, 1], [1, 0]])
    with_features = graphs()
    with_features[0].x = torch.ones(3, 1)
    runs: list[tuple[list[Data], Structure]] = [
        (graphs(), degrees()),
        (graphs(), degrees(power=2)),
        (graphs()[::-1], degrees()),
        (graphs()[:3], degrees()),
        (other_edges, degrees()),
        (with_features, degrees()),
    ]
    for number, (given, structure) in enumerate(runs):
        before = len(computed)
        prepared(given, Prepare([structure]))
        assert len(computed) - before == len(given), f"run {number} was taken from the cache"
    monkeypatch.setattr(kdlgt.data.preparation, "version", lambda _: "99")
    prepared(graphs(), Prepare([degrees()]))
    assert len(computed) == sum(len(given) for given, _ in runs) + 4


def test_an_edited_encoding_is_computed_anew(
    degrees: Degrees, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(graphs(), Prepare([degrees()]))
    monkeypatch.setattr(kdlgt.data.preparation, "_sources", lambda _: [b"edited"])
    prepared(graphs(), Prepare([degrees()]))
    assert len(computed) == 8


def test_code_without_a_file_is_not_cached(cache: pathlib.Path, computed: list[int]) -> None:
    class Interactive(Structure):
        def compute(self, graph: Graph) -> dict[str, Tensor]:
            return {"one": torch.ones(graph.num_nodes)}

    Interactive.__module__ = "a_notebook"
    for _ in range(2):
        prepared(graphs(), Prepare([Interactive()]))
    assert len(computed) == 8
    assert not cache.exists()


def truncate(file: pathlib.Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def empty(file: pathlib.Path) -> None:
    file.write_bytes(b"")


def pickled(file: pathlib.Path) -> None:
    file.write_bytes(pickle.dumps({"value": 1}))


def flipped(file: pathlib.Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))


def without_metadata(file: pathlib.Path) -> None:
    save_file(load_file(file), file)


def of_another_key(file: pathlib.Path) -> None:
    write_fields(file, "another key", [{"value": torch.zeros(3)}] * 4)


def missing(file: pathlib.Path) -> None:
    file.unlink()


@pytest.mark.parametrize("damage", [truncate, empty, pickled, flipped, without_metadata, of_another_key, missing])
def test_a_broken_or_foreign_file_is_built_anew(
    degrees: Degrees, cache: pathlib.Path, computed: list[int], damage: Callable[[pathlib.Path], None]
) -> None:
    first = prepared(graphs(), Prepare([degrees()]))
    file = cached_file(cache)
    damage(file)
    assert_equal(prepared(graphs(), Prepare([degrees()])), first)
    assert len(computed) == 8
    assert_equal(prepared(graphs(), Prepare([degrees()])), first)
    assert len(computed) == 8


def wrong_rows(fields: dict[str, Tensor], prefix: str) -> None:
    fields[f"{prefix}_table"] = torch.zeros(fields[f"{prefix}_table"].size(0) + 1, 2)


def wrong_nodes(fields: dict[str, Tensor], prefix: str) -> None:
    fields[f"{prefix}_pair_index"] = torch.full((2, 2), 77)


def wrong_name(fields: dict[str, Tensor], prefix: str) -> None:
    fields["x"] = torch.zeros(1)


@pytest.mark.parametrize("damage", [wrong_rows, wrong_nodes, wrong_name])
def test_a_file_that_does_not_fit_the_graphs_is_built_anew(
    degrees: Degrees, cache: pathlib.Path, computed: list[int], damage: Callable[[dict[str, Tensor], str], None]
) -> None:
    """Even with the right key and checksum."""
    structure = degrees()
    first = prepared(graphs(), Prepare([structure]))
    (key,) = [kdlgt.data.preparation._key(graphs(), Prepare([structure]))]
    assert key is not None
    content = read_fields(cached_file(cache), key)
    assert content is not None
    for fields in content:
        damage(fields, structure.key)
    write_fields(cached_file(cache), key, content)
    assert_equal(prepared(graphs(), Prepare([structure])), first)
    assert len(computed) == 8


def test_nothing_partial_is_left_behind(degrees: Degrees, cache: pathlib.Path) -> None:
    prepared(graphs(), Prepare([degrees()]))
    assert [path.suffix for path in (cache / "structure").iterdir()] == [".safetensors"]


def test_a_cache_that_cannot_be_written_costs_a_warning(
    degrees: Degrees, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("KDLGT_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="KDLGT_CACHE"):
        assert len(prepared(graphs(), Prepare([degrees()]))) == 4


def test_the_cache_can_be_switched_off(degrees: Degrees, cache: pathlib.Path, computed: list[int]) -> None:
    for _ in range(2):
        prepared(graphs(), Prepare([degrees()]), cache=False)
    assert len(computed) == 8
    assert not cache.exists()


def test_without_structures_nothing_happens(cache: pathlib.Path) -> None:
    given = graphs()
    assert prepared(given, None) == tuple(given)
    assert prepared(given, Prepare([])) == tuple(given)
    assert not cache.exists()


def test_a_structure_that_refuses_a_graph_names_it(monkeypatch: pytest.MonkeyPatch, degrees: Degrees) -> None:
    def refuse(self: Structure, graph: Graph) -> dict[str, Tensor]:
        if graph.num_nodes == 4:
            raise GraphError("no cycles, please")
        return {"one": torch.ones(graph.num_nodes)}

    monkeypatch.setattr(degrees, "compute", refuse)
    with pytest.raises(GraphError, match=r"graph 2 \(of 4, from 0\): no cycles"):
        prepared(graphs(), Prepare([degrees()]))


def test_fields_must_agree_between_graphs(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ArgumentError, match="graph 1 has the fields"):
        write_fields(tmp_path / "file", "key", [{"a": torch.zeros(1)}, {"b": torch.zeros(1)}])


class Adjacency(Structure):
    """The obvious mistake: the width is the number of nodes."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"rows": torch.from_numpy(graph.adjacency.toarray())}


def test_a_width_that_follows_the_graph_is_named_with_both_graphs(cache: pathlib.Path) -> None:
    with pytest.raises(ArgumentError, match=r"\[\*, 5\] on graph 1 and torch\.\w+ \[\*, 3\] on graph 0"):
        prepared(graphs(), Prepare([Adjacency()]))
    assert not list(cache.glob("**/*.safetensors"))


def test_graphs_survive_the_cache(tmp_path: pathlib.Path) -> None:
    given = Data(
        x=torch.rand(3, 2, dtype=torch.float64),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        mask=torch.tensor([True, False, True]),
        y=torch.tensor([[1.5]]),
        num_nodes=3,
    )
    lonely = Data(
        x=torch.rand(1, 2).double(),
        edge_index=torch.empty(2, 0).long(),
        mask=torch.tensor([False]),
        y=torch.zeros(1, 1),
    )
    found = cached("test", "0" * 64, lambda: [as_fields(given), as_fields(lonely)])
    again = cached("test", "0" * 64, lambda: pytest.fail("not read from disk"))
    for fields in (found, again):
        assert_equal(tuple(map(as_graph, fields)), (given, Data(**lonely.to_dict(), num_nodes=1)))


@pytest.mark.slow
def test_several_processes_give_the_same() -> None:
    many = [generate.cycle(3 + number % 7) for number in range(40)]
    prepare = Prepare([ReturnProbabilities(width=4)])
    assert_equal(prepared(many, prepare, workers=2, cache=False), prepared(many, prepare, workers=1, cache=False))


def test_processes_that_cannot_take_the_work_cost_a_warning(monkeypatch: pytest.MonkeyPatch, degrees: Degrees) -> None:
    import joblib

    class Refuses:
        def __init__(self, **_: Any) -> None: ...

        def __call__(self, _: Any) -> Any:
            raise pickle.PicklingError("cannot travel")

    monkeypatch.setattr(joblib, "Parallel", Refuses)
    with pytest.warns(RuntimeWarning, match="in one process: PicklingError: cannot travel"):
        found = prepared(graphs(), Prepare([degrees()]), workers=2, cache=False)
    assert_equal(found, prepared(graphs(), Prepare([degrees()]), workers=1, cache=False))


def test_short_work_stays_in_this_process(monkeypatch: pytest.MonkeyPatch, degrees: Degrees) -> None:
    monkeypatch.setattr(kdlgt.data.preparation, "_parallel", lambda *_: pytest.fail("processes were started"))
    assert len(prepared(graphs(), Prepare([degrees()]), workers=None, cache=False)) == 4


def test_long_work_goes_to_processes(monkeypatch: pytest.MonkeyPatch, degrees: Degrees) -> None:
    monkeypatch.setattr(kdlgt.data.preparation, "_long", lambda elapsed, done, left: done == 2)
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    taken = []

    def parallel(given: list[Data], first: int, prepare: Prepare, workers: int) -> Any:
        taken.append((first, workers))
        return iter(kdlgt.data.preparation._fields(graph, prepare, 0, 1) for graph in given[first:])

    monkeypatch.setattr(kdlgt.data.preparation, "_parallel", parallel)
    assert_equal(
        prepared(graphs(), Prepare([degrees()]), workers=None, cache=False),
        prepared(graphs(), Prepare([degrees()]), workers=1, cache=False),
    )
    assert taken == [(2, 4)]


def test_progress_is_shown_when_asked(capsys: pytest.CaptureFixture[str], degrees: Degrees) -> None:
    prepared(graphs(), Prepare([degrees()]), cache=False, progress=True)
    assert "structure" in capsys.readouterr().out
    prepared(graphs(), Prepare([degrees()]), cache=False)
    assert capsys.readouterr().out == ""

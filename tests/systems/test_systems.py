"""Published systems as configs."""

from __future__ import annotations

import pytest

from kdlgt.build import build_model, prepare
from kdlgt.config import config_from_dict, load_config
from kdlgt.data import load_data
from kdlgt.errors import UnknownNameError
from kdlgt.registry import load_plugins
from kdlgt.systems import read_system, system_names, system_path, system_summary


def test_the_systems_of_the_paper_are_there() -> None:
    assert {"lsat", "sapdgt", "sat", "graphormer", "gps", "gps-without-gnn", "gkat", "gcn", "gin"} <= set(
        system_names()
    )


@pytest.mark.plugins
@pytest.mark.parametrize("name", system_names())
def test_a_system_is_a_config_that_trains_a_model(name: str) -> None:
    registry = load_plugins()
    config = load_config(system_path(name), ["data.dataset=karate", "data.cache=false"], registry)
    bundle = load_data(config.data, prepare=prepare(config.model, registry), registry=registry)
    model = build_model(config.model, in_features=bundle.in_features, out_features=4, registry=registry)
    model(bundle.graph).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.plugins
@pytest.mark.parametrize(("linear", "exact"), [("lsat", "sat"), ("sapdgt", "sapdgt-exact")])
def test_twins_differ_in_their_attention_alone(linear: str, exact: str) -> None:
    first, second = (read_system(name)["model"] for name in (linear, exact))
    assert (first.pop("attention"), second.pop("attention")) == ("linear", "exact")
    del first["features"]
    assert first == second


def test_gps_without_its_gnn_lacks_nothing_else() -> None:
    whole, without = (read_system(name)["model"] for name in ("gps", "gps-without-gnn"))
    assert whole.pop("local") == "GatedGCN"
    assert whole == without


def test_systems_have_one_size() -> None:
    sizes = {tuple(read_system(name)["model"][key] for key in ("hidden", "layers", "heads")) for name in system_names()}
    assert len(sizes) == 1


def test_the_summary_is_the_comment_at_the_head() -> None:
    assert system_summary("gps-without-gnn").startswith("GPS without its GNN")
    assert "(Rampasek et al., NeurIPS 2022)" in system_summary("gps-without-gnn")


def test_an_unknown_system_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'lsat'"):
        system_path("lsatt")


def test_a_system_trains_on_its_default_data() -> None:
    assert config_from_dict(read_system("gcn")).data.dataset.name == "digits"

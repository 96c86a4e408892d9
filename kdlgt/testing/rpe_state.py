"""Saving, copying, moving, repeating; and leaving alone what is not the encoding's."""

from __future__ import annotations

import copy
import io

import torch

from kdlgt.algebra import Decomposition, lower
from kdlgt.graph import Prepare
from kdlgt.rpe import RPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import assert_same
from kdlgt.testing.purity import pickled, same_fields, tensors_of, untouched_random_state
from kdlgt.testing.round_trip import check_round_trip
from kdlgt.testing.rpe_case import RPECase


def saving(case: RPECase) -> None:
    """``state_dict``, ``pickle`` and ``deepcopy`` of the module give the same value; its preparation pickles too."""
    rpe = case.rpe()
    data = pickled(Prepare(rpe.structures))(case.ordinary["grid 3x4"].clone())
    expected = case.observed(case.value(rpe, data), data)
    copies = {"state_dict": _reloaded(case, rpe), "deepcopy": copy.deepcopy(rpe)}
    copies["pickle"] = pickled(rpe)
    for name, other in copies.items():
        assert_same(case.observed(case.value(other, data), data), expected, f"after {name}")


def _reloaded(case: RPECase, rpe: RPE) -> RPE:
    """A new module with the saved state, which must load without running pickled code."""
    buffer = io.BytesIO()
    torch.save(rpe.state_dict(), buffer)
    buffer.seek(0)
    other = case.fresh()
    other.load_state_dict(torch.load(buffer, weights_only=True))
    return other


def dtype(case: RPECase) -> None:
    """The value has the module's dtype after ``.float()`` and ``.double()``, and is the same bias to rounding."""
    rpe = case.rpe()
    data = case.prepared(rpe, case.ordinary["grid 3x4"])
    double = case.value(rpe, data)
    _assert_dtype(double, torch.float64)
    single = case.rpe().float()
    value = single(data.clone(), data.x.float() if rpe.needs_states else None)
    _assert_dtype(value, torch.float32)
    expected = case.observed(double, data)
    got = case.observed(value.to(torch.float64), data)
    assert_same(got, expected, "in float32 against float64", rtol=1e-3, atol=1e-3)


def _assert_dtype(value: Decomposition, expected: torch.dtype) -> None:
    form = lower(value)
    found = {tensor.dtype for part in form.parts for tensor in tensors_of(part) if tensor.is_floating_point()}
    assert found <= {expected}, (
        f"a module in {expected} gave a value in {', '.join(sorted(map(str, found)))}; "
        "convert what preparation stored to the parameters' dtype"
    )


def device(case: RPECase) -> None:
    """The value follows ``.to(device)``."""
    if not torch.cuda.is_available():
        raise SkipCheck("this machine has no second device")
    rpe = case.rpe()
    data = case.prepared(rpe, case.ordinary["grid 3x4"])
    expected = case.observed(case.value(rpe, data), data)
    value = case.value(rpe.to("cuda"), data.clone().to("cuda"))
    devices = {tensor.device.type for part in lower(value).parts for tensor in tensors_of(part)}
    assert devices == {"cuda"}, f"a module and a graph on cuda gave tensors on {', '.join(sorted(devices))}"
    assert_same(case.observed(value.to("cpu"), data), expected, "on cuda against cpu")


def config(case: RPECase) -> None:
    """The options go through TOML, as in a config, and come back equal."""
    check_round_trip("rpe", case.spec, case.options)


def determinism(case: RPECase) -> None:
    """Two preparations with the same options are equal, and so are two values of them."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        difference = same_fields(data, case.prepared(case.rpe(), graph))
        assert not difference, f"{name}: two preparations differ in {difference}; draw from a seeded generator"
        first, second = (case.observed(case.value(rpe, data), data) for _ in range(2))
        assert torch.equal(first, second), f"{name}: two calls on the same data give different values"


def random_state(case: RPECase) -> None:
    """Neither preparation nor a call touches a global random state."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        with untouched_random_state(f"{name}: preparation"):
            data = case.prepared(rpe, graph)
        for form, make in case.forms(rpe).items():
            with untouched_random_state(f"{name}: the {form}"):
                make(data)


def inputs(case: RPECase) -> None:
    """Neither preparation nor a call changes what it is given."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        given = graph.clone()
        data = Prepare(rpe.structures)(given)
        assert not (difference := same_fields(given, graph)), f"{name}: preparation changed its input: {difference}"
        for call in (rpe, rpe.exact):
            batch, states = data.clone(), data.x.clone()
            call(batch, states if rpe.needs_states else None)
            assert not (difference := same_fields(batch, data)), f"{name}: a call changed its batch: {difference}"
            assert torch.equal(states, data.x), f"{name}: a call changed the node states"

"""Every method of statistics provides what the agent and the coordinator ask of it."""

import inspect
from types import FunctionType

import pytest

from methods import contract
from methods.registry import METHODS, load_coordinator, load_device, trains

STATISTICS = [name for name in METHODS if not trains(name)]


def asked(protocol: type) -> dict[str, FunctionType]:
    return {name: f for name, f in vars(protocol).items() if isinstance(f, FunctionType)} | {
        name: f.__func__ for name, f in vars(protocol).items() if isinstance(f, classmethod)
    }


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


@pytest.mark.parametrize("name", STATISTICS)
def test_both_halves_have_the_functions_of_the_contract(name: str):
    halves = (
        (load_device(name), contract.DeviceHalf),
        (
            load_coordinator(name),
            contract.CoordinatorHalf,
        ),
    )
    for half, protocol in halves:
        functions = asked(protocol)
        functions.pop("__init__", None)
        functions.pop("__subclasshook__", None)
        assert functions
        for function, told in functions.items():
            assert parameters(getattr(half, function)) == parameters(told), f"{name}: {function}"


@pytest.mark.parametrize("name", STATISTICS)
def test_an_aggregate_can_be_added_to_taken_from_and_renamed(name: str):
    for method in ("empty", "of", "__add__", "__sub__", "renamed"):
        told = asked(contract.ExactAggregate)[method]
        own = getattr(load_coordinator(name).Aggregate, method)
        assert parameters(own) == parameters(told), method


@pytest.mark.parametrize("name", STATISTICS)
def test_an_assignment_says_how_large_parts_may_be_and_how_wide_features_are(name: str):
    half = load_coordinator(name)
    told = half.assign({}, 12)
    assert 1 <= told.settings.min_samples_per_class <= told.settings.max_samples_per_part
    assert told.settings.logit_scale > 0
    assert told.class_names == ()
    after = half.feature_map(told)
    assert told.columns == (12 if after.matrix is None else after.matrix.shape[1])
    assert half.read_assignment(told.model_dump(mode="json")) == told
    assert load_device(name).read_assignment(told.model_dump(mode="json")) == told

"""Every method of statistics provides what the agent and the coordinator ask of it."""

import pytest

from fleetledger.methods.registry import (
    METHODS,
    descriptor,
    statistics_coordinator,
    statistics_device,
)

STATISTICS = [name for name in METHODS if not descriptor(name).trains]


@pytest.mark.parametrize("name", STATISTICS)
def test_an_aggregate_can_be_added_to_taken_from_and_renamed(name: str):
    side = statistics_coordinator(name)
    nothing = side.aggregate_type.empty(side.assign({}, 12))
    for made in (nothing + nothing, nothing - nothing, nothing.renamed({})):
        assert type(made) is type(nothing)
        assert made.digest == nothing.digest


@pytest.mark.parametrize("name", STATISTICS)
def test_without_contributions_every_class_has_a_row_of_zeros(name: str):
    side = statistics_coordinator(name)
    told = side.assign({}, 12)
    head = side.solve(told, side.aggregate_type.empty(told), ("cat", "dog"))
    assert head.weights.shape == (2, told.columns)
    assert head.weights.dtype == "float32"
    assert not head.weights.any()
    assert head.remarks == ()


@pytest.mark.parametrize("name", STATISTICS)
def test_an_assignment_says_how_large_parts_may_be_and_how_wide_features_are(name: str):
    side = statistics_coordinator(name)
    told = side.assign({}, 12)
    assert 1 <= told.settings.min_samples_per_class <= told.settings.max_samples_per_part
    assert told.settings.logit_scale > 0
    assert told.class_names == ()
    after = side.feature_map(told)
    assert told.columns == (12 if after.matrix is None else after.matrix.shape[1])
    assert side.read_assignment(told.model_dump(mode="json")) == told
    assert statistics_device(name).read_assignment(told.model_dump(mode="json")) == told

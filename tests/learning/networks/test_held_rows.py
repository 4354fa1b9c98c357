"""First rows of a head kept apart from those that are trained, and put back."""

import pytest
import torch

from fleetledger.learning.networks.held_rows import joined_rows, split_rows

pytestmark = pytest.mark.torch

PARAMETERS = {
    "body.weight": torch.ones(2, 3),
    "head.weight": torch.arange(12.0).reshape(4, 3),
    "head.bias": torch.arange(4.0),
}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("held", [0, 1, 3, 4])
def test_the_rows_are_split_and_come_back(held):
    trained, fixed = split_rows(PARAMETERS, held)
    assert fixed.keys() == {"head.weight", "head.bias"}
    assert len(fixed["head.bias"]) == held
    assert len(trained["head.weight"]) == 4 - held
    assert same(joined_rows(fixed, trained), PARAMETERS)


def test_a_tensor_that_is_not_of_rows_is_on_one_side_or_the_other():
    assert joined_rows({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize("shared", [True, False])
def test_in_a_stack_every_agent_has_the_held_rows_before_its_own(shared):
    agents = [{name: value + k for name, value in PARAMETERS.items()} for k in range(3)]
    splits = [split_rows(agent, 2) for agent in agents]
    trained = {name: torch.stack([split[0][name] for split in splits]) for name in PARAMETERS}
    held = [split[1] for split in splits[: 1 if shared else 3]]
    fixed = {name: torch.stack([rows[name] for rows in held]) for name in held[0]}
    if shared:
        fixed = {name: rows[0] for name, rows in fixed.items()}
    joined = joined_rows(fixed, trained)
    for place, split in enumerate(splits):
        alone = joined_rows(held[0] if shared else split[1], split[0])
        assert same({name: rows[place] for name, rows in joined.items()}, alone)

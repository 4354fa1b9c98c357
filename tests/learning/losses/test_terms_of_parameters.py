"""Terms of parameters against plain sums, alone and in a stack."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.ewc import consolidated, ewc_penalty
from fleetledger.learning.losses.proximal import proximal
from tests.learning.losses import slow

pytestmark = pytest.mark.torch

AGENTS = 3
SHAPES = {"linear.weight": (4, 3), "head.weight": (5, 4), "head.bias": (5,), "scale": ()}
OLD_ROWS = 3


def draw(seed, lead=(), rows=None):
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, shape in SHAPES.items():
        cut = (rows, *shape[1:]) if rows and name.startswith("head") else shape
        arrays[name] = generator.normal(size=(*lead, *cut))
    return arrays


def t(arrays):
    return {name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()}


def of_agent(arrays, agent):
    return {name: np.asarray(array[agent]) for name, array in arrays.items()}


def test_proximal_is_half_the_squared_distance():
    parameters, anchor = draw(1), draw(2)
    wanted = slow.half_squared_distance(parameters, anchor)
    assert float(proximal(t(parameters), t(anchor))) == pytest.approx(wanted)


def test_the_form_of_fedmax_divides_by_the_size_of_each_tensor():
    parameters, anchor = draw(1), draw(2)
    wanted = sum(
        slow.half_squared_distance({name: parameters[name]}, {name: old}) / old.size
        for name, old in anchor.items()
    )
    assert float(proximal(t(parameters), t(anchor), "tensor_mean")) == pytest.approx(wanted)


@pytest.mark.parametrize("reduction", ["sum", "tensor_mean"])
@pytest.mark.parametrize("shared", [True, False])
def test_proximal_of_a_stack_is_that_of_each_agent(reduction, shared):
    parameters, anchor = draw(1, (AGENTS,)), draw(2, () if shared else (AGENTS,))
    values = proximal(t(parameters), t(anchor), reduction, stacked=True)
    for agent in range(AGENTS):
        own = anchor if shared else of_agent(anchor, agent)
        wanted = proximal(t(of_agent(parameters, agent)), t(own), reduction)
        assert float(values[agent]) == pytest.approx(float(wanted))


def test_only_trained_tensors_count_for_proximal():
    parameters = {"scale": np.array(3.0)}
    assert float(proximal(t(parameters), t(draw(2) | {"scale": np.array(1.0)}))) == 2.0


def test_ewc_weighs_by_importance_and_leaves_new_rows_free():
    parameters = draw(1)
    anchor, fisher = draw(2, rows=OLD_ROWS), draw(3, rows=OLD_ROWS)
    wanted = slow.half_squared_distance(parameters, anchor, fisher)
    leaves = {name: value.requires_grad_() for name, value in t(parameters).items()}
    value = ewc_penalty(leaves, t(anchor), t(fisher))
    assert float(value.detach()) == pytest.approx(wanted)
    gradient = torch.autograd.grad(value, leaves["head.weight"])[0].numpy()
    step = parameters["head.weight"][:OLD_ROWS] - anchor["head.weight"]
    assert np.allclose(gradient[:OLD_ROWS], fisher["head.weight"] * step)
    assert not gradient[OLD_ROWS:].any()


@pytest.mark.parametrize("shared", [True, False])
def test_ewc_of_a_stack_is_that_of_each_agent(shared):
    lead = () if shared else (AGENTS,)
    parameters = draw(1, (AGENTS,))
    anchor, fisher = draw(2, lead, OLD_ROWS), draw(3, lead, OLD_ROWS)
    values = ewc_penalty(t(parameters), t(anchor), t(fisher), stacked=True)
    for agent in range(AGENTS):
        own = [part if shared else of_agent(part, agent) for part in (anchor, fisher)]
        wanted = slow.half_squared_distance(of_agent(parameters, agent), *own)
        assert float(values[agent]) == pytest.approx(wanted)


def test_a_tensor_without_importance_is_free():
    anchor, fisher = draw(2), draw(3)
    fisher = {"scale": fisher["scale"]}
    value = ewc_penalty(t(draw(1)), t(anchor), t(fisher))
    wanted = 0.5 * fisher["scale"] * (draw(1)["scale"] - anchor["scale"]) ** 2
    assert float(value) == pytest.approx(float(wanted))


def test_importance_of_tasks_is_merged_and_new_rows_keep_theirs():
    old, new = draw(1, rows=OLD_ROWS), draw(2)
    merged = consolidated(t(old), t(new), 0.6)
    for name, importance in new.items():
        rows = OLD_ROWS if name.startswith("head") else None
        known = 0.6 * old[name] + 0.4 * (importance[:rows] if importance.ndim else importance)
        wanted = known if rows is None else np.concatenate([known, importance[rows:]])
        assert np.allclose(merged[name].numpy(), wanted)
    assert consolidated({}, t(new), 0.6).keys() == new.keys()

"""FedHAF's two stages, head then adapter, each while the other part is in use: stack, loop, torch.

Every agent's second work begins with what its first one trained, on the same data.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.composition import FIXED, ComposedLoss, Weighted
from fleetledger.learning.losses.terms import (
    CrossEntropy,
    Divergence,
    FeatureBalance,
    FeatureDistance,
)
from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.feature_adjustment import FeatureAdjustment
from fleetledger.learning.networks.network import Network
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.engine import train
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stacking import signature
from fleetledger.learning.training.work import Batching, Data, Sgd, Work
from tests.learning.networks.adapter_modules import AdapterAndHead
from tests.learning.training.agents import largest_difference, slow_mask

pytestmark = pytest.mark.torch

INPUTS, CLASSES, OLD_CLASSES, RATE = 12, 5, 3, 0.25
NETWORK = Network(FeatureAdjustment(INPUTS, 16, 8, "hidden", RATE), "hidden", RATE)
HEAD_DROPOUT = 1 << 16
IS_NEW = torch.arange(CLASSES) >= OLD_CLASSES
HEAD_LOSS = ComposedLoss(
    NETWORK,
    (
        Weighted(1.0, CrossEntropy("task")),
        Weighted(1.0, Divergence("old", 1.0, rows="exemplar", direction="student_first")),
    ),
    training="head",
)
BODY_LOSS = ComposedLoss(
    NETWORK,
    (
        Weighted(2.0, FeatureDistance("old", rows="exemplar")),
        Weighted(1.0, FeatureBalance("task")),
    ),
    training="body",
)
HEAD_STEPS = Sgd((0.02,) * 4, momentum=0.9, weight_decay=5e-4)
BODY_STEPS = Sgd((0.005, 0.005, 0.002, 0.002), momentum=0.9, weight_decay=5e-4)
SIZES = (37, 8, 64, 3, 16, 33, 5)
LOOP, STACK = TrainingEngineSettings("loop"), TrainingEngineSettings("stack")


def tensors(seed, dtype, classes=CLASSES):
    """Return parameters and buffers of a network in use."""
    arrays = NETWORK.initial(seed, [f"class {i}" for i in range(classes)])
    random = np.random.default_rng(seed)
    for name, array in arrays.items():
        if name.endswith(("running_mean", "running_var")):
            arrays[name] = array + random.uniform(0, 0.5, array.shape).astype(np.float32)
    parts = to_tensors(arrays)
    return tuple({name: value.to(dtype) for name, value in part.items()} for part in parts)


def data(samples, dtype, seed):
    """Return samples of all classes; those of old ones are exemplars. Few lack a class or two."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, CLASSES, samples)
    inputs = np.random.default_rng(7).normal(size=(CLASSES, INPUTS))[targets]
    inputs = torch.from_numpy(inputs + random.normal(size=inputs.shape)).to(dtype)
    exemplar = torch.from_numpy(targets < OLD_CLASSES).to(dtype)
    return Data(inputs, torch.from_numpy(targets), {"exemplar": exemplar})


def of_head(parameters):
    return {name: value for name, value in parameters.items() if name.startswith("head.")}


def of_body(parameters):
    return {name: value for name, value in parameters.items() if not name.startswith("head.")}


def first_works(sizes=SIZES, dtype=torch.float64):
    """Return what all agents train first: the head, behind the adapter that all were sent."""
    parameters, buffers = tensors(1, dtype)
    old, old_buffers = tensors(2, dtype, OLD_CLASSES)
    frozen = {
        "task": IS_NEW,
        "old": {"parameters": old, "buffers": old_buffers},
        FIXED: of_body(parameters),
    }
    return [
        Work(
            of_head(parameters),
            buffers,
            data(size, dtype, 50 + index),
            HEAD_LOSS,
            HEAD_STEPS,
            Batching(8),
            Chance(5, f"agent-{index}", stage=2, round=3, phase="head"),
            frozen,
        )
        for index, size in enumerate(sizes)
    ]


def second(work, trained):
    """Return what the agent trains then: the adapter before its own new head."""
    adapter = work.frozen[FIXED]
    frozen = {**work.frozen, FIXED: trained.parameters}
    return replace(
        work,
        parameters=adapter,
        buffers=trained.buffers,
        frozen=frozen,
        loss=BODY_LOSS,
        optimiser=BODY_STEPS,
        chance=replace(work.chance, phase="body"),
    )


def both_stages(works, settings):
    """Return what each agent trained first and then."""
    heads = train(works, settings)
    then = [second(work, head) for work, head in zip(works, heads, strict=True)]
    return heads, train(then, settings)


def state(trained):
    return {**trained.parameters, **trained.buffers}


def states(works, settings):
    return [[state(trained) for trained in stage] for stage in both_stages(works, settings)]


def assert_stack_is_loop(works, within):
    for together, alone in zip(states(works, STACK), states(works, LOOP), strict=True):
        for one, two in zip(together, alone, strict=True):
            assert largest_difference(one, two) < within


def test_agents_in_a_stack_train_both_stages_as_alone():
    works = first_works()
    assert len({signature(work) for work in works}) == 1
    assert_stack_is_loop(works, 1e-12)


def test_forty_steps_of_both_stages_in_float32_differ_by_rounding_only():
    # Batches of two or three are left out: their normalisation amplifies rounding.
    works = first_works((80, 77, 8, 48, 20), torch.float32)
    assert both_stages(works, LOOP)[1][0].steps == 40
    assert_stack_is_loop(works, 1e-5)


@pytest.mark.parametrize("settings", [LOOP, STACK], ids=["loop", "stack"])
def test_only_the_named_parameters_and_the_trained_parts_buffers_move(settings):
    works = first_works()
    given = {**works[0].frozen[FIXED], **works[0].parameters}
    before = {name: value.clone() for name, value in {**given, **works[0].buffers}.items()}
    heads, adapters = both_stages(works, settings)
    for head, adapter in zip(heads, adapters, strict=True):
        assert all(name.startswith("head.") for name in head.parameters)
        assert not any(name.startswith("head.") for name in adapter.parameters)
        for name, value in head.buffers.items():
            assert torch.equal(value, before[name]) != name.startswith("head."), name
        for name, value in adapter.buffers.items():
            assert torch.equal(value, head.buffers[name]) == name.startswith("head."), name
    assert all(torch.equal(value, before[name]) for name, value in given.items())
    assert all(torch.equal(value, before[name]) for name, value in works[0].buffers.items())


def modules(parameters, buffers, classes=CLASSES):
    module = AdapterAndHead(NETWORK.body, classes).double()
    module.load_state_dict({**parameters, **buffers}, strict=False)
    return module.eval()


def batches(work):
    """Yield rows, rate and place (epoch, batch) of an agent's batches."""
    for epoch, rate in enumerate(work.optimiser.rates):
        order = torch.from_numpy(work.chance.shuffled(epoch, len(work.data)))
        for number, rows in enumerate(order.split(work.batching.size)):
            if len(rows) >= work.batching.smallest:
                yield rows, rate, (epoch, number)


def slow_head_loss(work, rows, logits, old_logits):
    """Equations 4 and 5: new samples over the task's slice; old ones over the old classes."""
    targets = work.data.targets[rows].tolist()
    new = [i for i, target in enumerate(targets) if target >= OLD_CLASSES]
    old = [i for i, target in enumerate(targets) if target < OLD_CLASSES]
    loss = torch.zeros(()).double()
    for i in new:
        scores = torch.log_softmax(logits[i, OLD_CLASSES:], 0)
        loss = loss - scores[targets[i] - OLD_CLASSES] / len(new)
    for i in old:
        p = torch.log_softmax(logits[i, :OLD_CLASSES], 0)
        q = torch.log_softmax(old_logits[i], 0)
        loss = loss + (p.exp() * (p - q)).sum() / len(old)
    return loss


def slow_body_loss(work, rows, features, old_features):
    """Equations 2, as a mean over dimensions, and 3."""
    targets = work.data.targets[rows].tolist()
    old = [i for i, target in enumerate(targets) if target < OLD_CLASSES]
    loss = torch.zeros(()).double()
    for i in old:
        loss = loss + 2 * (features[i] - old_features[i]).square().mean() / len(old)
    lengths, counts = {}, Counter(targets)
    for i, target in enumerate(targets):
        lengths[target] = lengths.get(target, 0) + features[i].norm() / counts[target]
    groups = [[lengths[c] for c in counts if (c >= OLD_CLASSES) == new] for new in (True, False)]
    if all(groups):
        one, two = (torch.stack(group).mean() for group in groups)
        loss = loss + (one - two).abs()
    return loss


def train_stage_by_modules(work, module, part):
    """Train one part with torch.optim and modules; the other part stays in eval mode."""
    names = [name for name, _ in module.named_parameters()]
    in_head = {name: name.startswith("head.") for name in names}
    chosen = [p for name, p in module.named_parameters() if in_head[name] == (part == "head")]
    module.eval()
    norms = [module.head.norm] if part == "head" else [module.norm0, module.norm1, module.norm2]
    for norm in norms:
        norm.train()
    teacher = work.frozen["old"]
    old = modules(teacher["parameters"], teacher["buffers"], OLD_CLASSES)
    settings = work.optimiser
    optimiser = torch.optim.SGD(
        chosen, lr=0.0, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    for rows, rate, place in batches(work):
        masks = [1.0, 1.0, 1.0]
        widths = {2: (HEAD_DROPOUT, 128)} if part == "head" else {0: (0, 16), 1: (1, 16)}
        for layer, (number, width) in widths.items():
            masks[layer] = slow_mask(work.chance, (*place, number), (len(rows), width), RATE)
        features, logits = module(work.data.inputs[rows], masks)
        with torch.no_grad():
            old_features, old_logits = old(work.data.inputs[rows], (1.0, 1.0, 1.0))
        loss = (
            slow_head_loss(work, rows, logits, old_logits)
            if part == "head"
            else slow_body_loss(work, rows, features, old_features)
        )
        optimiser.param_groups[0]["lr"] = rate
        module.zero_grad()
        if loss.requires_grad:
            loss.backward()
        for parameter in chosen:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        optimiser.step()


def test_both_stages_are_those_of_torch_with_modules():
    works = first_works((37, 9, 16))
    heads, adapters = both_stages(works, LOOP)
    for work, head, adapter in zip(works, heads, adapters, strict=True):
        module = modules({**work.frozen[FIXED], **work.parameters}, work.buffers)
        train_stage_by_modules(work, module, "head")
        found = module.state_dict()
        assert largest_difference(state(head), {n: found[n] for n in state(head)}) < 1e-12
        train_stage_by_modules(second(work, head), module, "body")
        found = module.state_dict()
        assert largest_difference(state(adapter), {n: found[n] for n in state(adapter)}) < 1e-12


def test_in_the_first_stage_adapter_and_head_can_train_together():
    both = ComposedLoss(NETWORK, (Weighted(1.0, CrossEntropy("task")),))
    works = []
    for work in first_works():
        parameters = {**work.frozen[FIXED], **work.parameters}
        works.append(
            replace(work, parameters=parameters, loss=both, frozen={"task": work.frozen["task"]})
        )
    for one, two in zip(train(works, STACK), train(works, LOOP), strict=True):
        assert largest_difference(state(one), state(two)) < 1e-12

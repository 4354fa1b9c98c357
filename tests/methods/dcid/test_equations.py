"""Equations (1), (3) and (5) on a small network in float64: values by hand, and their gradients."""

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.relation import drawn_triples
from fleetledger.learning.networks.conversion import to_arrays
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.training.chance import Chance, words
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batch
from fleetledger.methods.dcid.assignment import DcidAssignment
from fleetledger.methods.dcid.distillation import (
    Student,
    Teacher,
    distilled,
    distilling_work,
)
from fleetledger.methods.dcid.learners import (
    ANCHOR,
    NEW,
    TEACHER,
    Session,
    learner_of,
)
from fleetledger.methods.training.exchange import RoundConfig
from fleetledger.schemas.values import ClassName
from tests.learning.losses import slow_anchors
from tests.methods.dcid import by_hand

pytestmark = pytest.mark.torch

SHAPE, OLD, CLASSES, ROWS = (1, 3, 2), 3, 5, 14
NAMES = tuple(ClassName(f"class {i}") for i in range(CLASSES))
generator = np.random.default_rng(8)
IMAGES = generator.integers(0, 256, (ROWS, *SHAPE), dtype=np.uint8)
INPUTS = (IMAGES / 255 - 0.5) / 0.25
ENSEMBLE = generator.normal(0, 4, (ROWS, CLASSES))
TARGETS = np.array([0, 3, 1, 4, 2, 3, 0, 4, 1, 3, 2, 0, 2, 4])
ANCHORS = TARGETS < OLD
STEP = 1e-6


class InDoubles(Pictures):
    """Inputs in float64, as no device trains."""

    def on(self, device):
        return lambda raw: (raw.double() / 255 - 0.5) / 0.25


def told(**settings) -> DcidAssignment:
    given = {"network": "mlp", "distil_epochs": 1, "momentum": 0.0, **settings}
    return DcidAssignment.from_values({"settings": given, "input_shape": SHAPE})


def used(network: Network, classes: int, seed: int) -> by_hand.Arrays:
    """Tensors in float64 as training leaves them."""
    arrays = {n: a.astype(float) for n, a in network.initial(seed, NAMES[:classes]).items()}
    random = np.random.default_rng(seed)
    for name, array in arrays.items():
        low = 0.5 if name.endswith(("running_var", "head.scale")) else -0.3
        if is_buffer(name) or name.endswith(("bias", "scale")):
            arrays[name] = random.uniform(low, low + 1, array.shape)
    return arrays


def split(arrays):
    given = {name: torch.tensor(array) for name, array in arrays.items()}
    parameters = {name: value for name, value in given.items() if not is_buffer(name)}
    return parameters, {name: value for name, value in given.items() if is_buffer(name)}


def directions(parameters, count=4):
    for seed in range(count):
        random = np.random.default_rng(seed)
        yield {name: random.normal(size=value.shape) for name, value in parameters.items()}


def along(slope, arrays, direction):
    """Return the derivative of `slope` at `arrays` along a direction, by a central difference."""
    ahead, behind = (
        slope({n: a + sign * STEP * direction.get(n, 0) for n, a in arrays.items()})
        for sign in (1, -1)
    )
    return (ahead - behind) / (2 * STEP)


def product(gradients, direction):
    return sum(float((gradients[name] * direction[name]).sum()) for name in direction)


FACTORS = {"mean": 1, "mean_tau2": 9, "sum": ROWS}


@pytest.mark.parametrize("reduction", FACTORS)
@pytest.mark.parametrize("softmax_range", ["new", "all"])
@pytest.mark.parametrize("learner", ["icarl", "lucir"])
def test_a_step_of_dcd_goes_against_the_gradient_of_equation_3(learner, softmax_range, reduction):
    assignment = told(
        learner=learner, softmax_range=softmax_range, reduction=reduction, distil_rate=0.125
    )
    arrays = used(assignment.network, CLASSES, 1)
    student = Student(*split(arrays), IMAGES, InDoubles((0.5,), (0.25,)))
    work = distilling_work(assignment, student, ENSEMBLE, OLD, 3.0, Chance(1, "a"))
    trained = train_alone(work, TrainingEngineSettings())
    classes = list(range(OLD if softmax_range == "new" else 0, CLASSES))

    def loss(tensors):
        logits = by_hand.passed(tensors, INPUTS, training=False)[1]
        return FACTORS[reduction] * by_hand.distilled(logits, ENSEMBLE, classes, 3.0)

    assert trained.losses == (pytest.approx(loss(arrays), rel=1e-9),)
    after = {name: value.numpy() for name, value in trained.parameters.items()}
    gradients = {name: (arrays[name] - value) / 0.125 for name, value in after.items()}
    for direction in directions(student.parameters):
        wanted = along(loss, arrays, direction)
        assert product(gradients, direction) == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    for name, value in trained.buffers.items():
        np.testing.assert_array_equal(value, arrays[name])
    if softmax_range == "new":
        np.testing.assert_array_equal(after["head.weight"][:OLD], arrays["head.weight"][:OLD])


def test_dad_is_the_same_at_the_coordinator():
    assignment = told(tau2=3.0, distil_rate=0.125, dcd=False)
    arrays = {n: a.astype(np.float32) for n, a in used(assignment.network, CLASSES, 1).items()}
    config = RoundConfig("train-alone", 1, 1, b"", (), NAMES, mean=(0.5,), deviation=(0.25,))
    made, remarks = distilled(
        assignment, config, arrays, Teacher(IMAGES, ENSEMBLE.astype(np.float32), OLD)
    )
    student = Student(
        *split({n: a.astype(float) for n, a in arrays.items()}), IMAGES, InDoubles((), ())
    )
    work = distilling_work(assignment, student, ENSEMBLE, OLD, 3.0, Chance(1, "a"))
    trained = train_alone(work, TrainingEngineSettings())
    for name, wanted in to_arrays(trained.parameters, trained.buffers).items():
        np.testing.assert_allclose(made[name], wanted, rtol=1e-4, atol=1e-5)
    assert "14 images" in remarks[0]


LEARNERS = {
    "icarl": {"learner": "icarl"},
    "icarl, sigmoid": {"learner": "icarl", "scores": "sigmoid"},
    "lucir": {"learner": "lucir", "network": "mlp"},
    "erdil": {"learner": "erdil", "triples": 60},
    "tpcil": {"learner": "tpcil"},
}


@pytest.mark.parametrize("distill_on", ["anchors", "all"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_did_is_equation_1_and_so_is_its_gradient(learner, distill_on):
    assignment = told(**LEARNERS[learner], distill_on=distill_on)
    network, known = assignment.network, learner_of(assignment.settings)
    arrays, teacher = used(network, CLASSES, 1), used(network, OLD, 2)
    terms = known.anchor_loss(Session(OLD, CLASSES - OLD))
    loss = ComposedLoss(network, (Weighted(1.0, known.classification()), *terms))
    weight = torch.ones(ROWS).double()
    looked = ANCHORS if distill_on == "anchors" else np.ones(ROWS, bool)

    def draw(count):
        return words(torch.tensor(77), count)

    batch = Batch(
        torch.tensor(INPUTS),
        torch.tensor(TARGETS),
        weight,
        {ANCHOR: torch.tensor(ANCHORS).double()},
        words=draw,
    )
    old_parameters, old_buffers = split(teacher)
    frozen = {
        TEACHER: {"parameters": old_parameters, "buffers": old_buffers},
        NEW: torch.arange(CLASSES) >= OLD,
    }
    before, old = by_hand.passed(teacher, INPUTS, training=False)

    def slowly(tensors):
        features, logits = by_hand.passed(tensors, INPUTS, training=True)
        step = {
            "logits": logits[looked],
            "old": old[looked],
            "features": features if learner == "erdil" else features[looked],
            "before": before if learner == "erdil" else before[looked],
            "triples": drawn_triples(draw(60), torch.tensor(looked))[0].tolist(),
        }
        total = by_hand.classification(learner, logits, TARGETS)
        total += by_hand.anchor_loss(learner, step)
        if learner == "lucir":
            cosines = by_hand.cosines(tensors["head.weight"], features)
            new = list(range(OLD, CLASSES))
            total += slow_anchors.margin_ranking(cosines, TARGETS, new, 2, 0.5)
        return total

    parameters, buffers = split(arrays)
    leaves = {name: value.requires_grad_() for name, value in parameters.items()}
    value, _ = loss(leaves, buffers, frozen, {}, batch)
    assert float(value.detach()) == pytest.approx(slowly(arrays), rel=1e-9)
    found = torch.autograd.grad(value, list(leaves.values()))
    gradients = dict(zip(leaves, (gradient.numpy() for gradient in found), strict=True))
    for direction in directions(parameters):
        wanted = along(slowly, arrays, direction)
        assert product(gradients, direction) == pytest.approx(wanted, rel=1e-4, abs=1e-6)

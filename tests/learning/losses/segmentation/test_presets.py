"""Whole losses of a network, as training calls them, against sums of loops over pixels."""

import dataclasses

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.segmentation import presets
from fleetledger.learning.losses.segmentation.composition import DenseLoss, WeightedTerm
from fleetledger.learning.losses.segmentation.local_pod import PodFactors
from fleetledger.learning.losses.segmentation.parts import (
    AdaptiveLabels,
    ProbableLabels,
)
from fleetledger.learning.losses.segmentation.step import DenseOutputs
from fleetledger.learning.losses.segmentation.terms import LocalPod
from fleetledger.learning.losses.segmentation.thresholds import (
    accepted_share,
    adaptive_thresholds,
)
from fleetledger.learning.networks.torch_layers import Mode
from fleetledger.learning.training.chance import Chance
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Batch, Batching, Data, Extras, Sgd, Work
from tests.learning.losses.segmentation import slow
from tests.learning.losses.segmentation.scene import CHANNELS, OLD, TASKS
from tests.learning.losses.segmentation.tiny import (
    BEFORE,
    BUFFERS,
    NOW,
    Tiny,
    pictures,
)

pytestmark = pytest.mark.torch

INPUTS, MASKS = pictures()
LABELS = MASKS.numpy().astype(np.int64)
OUT, _ = Tiny()(NOW, BUFFERS, INPUTS, Mode())
OLD_OUT, _ = Tiny()(BEFORE, BUFFERS, INPUTS, Mode())
LOGITS, OLD_LOGITS = OUT.logits.numpy(), OLD_OUT.logits.numpy()
EXPONENT = 2 / 3
LIMITS = [0.1] * OLD
ADAPTIVE = [
    limit + 1e-9 for limit in slow.adaptive_thresholds([(LOGITS, OLD_LOGITS, LABELS)], OLD, 0.6)
]
MEDIANS = [limit + 1e-9 for limit in slow.median_thresholds([(OLD_LOGITS, LABELS)], OLD)]
FROZEN = {
    "old": {"parameters": BEFORE, "buffers": BUFFERS},
    "tasks": torch.tensor(TASKS),
    "exponent": torch.tensor(EXPONENT),
}
BATCH = Batch(INPUTS, MASKS, torch.ones(len(INPUTS)).double())


def value(terms, thresholds=ADAPTIVE):
    extras = {"thresholds": torch.tensor(thresholds, dtype=torch.float64)}
    return float(DenseLoss(Tiny(), terms)(NOW, BUFFERS, FROZEN, extras, BATCH)[0])


def pod(maps=0.01, logits=0.0005):
    small = OUT.small_logits
    merged = torch.cat([small[:, :1] + small[:, OLD:].sum(1, keepdim=True), small[:, 1:OLD]], 1)
    pairs = [(a.numpy(), b.numpy()) for a, b in zip(OUT.maps, OLD_OUT.maps, strict=True)]
    pairs.append((merged.numpy(), OLD_OUT.small_logits.numpy()))
    return slow.local_pod(pairs, [maps] * 3 + [logits], CHANNELS - OLD, CHANNELS)


def paper(labels, balanced=True, relations=True, bounds=None):
    """L_FS + 0.5 L_FR of these labels."""
    gradients = slow.balanced(LOGITS, labels, OLD, float(FROZEN["exponent"]))
    weights = slow.balancing_weights(gradients, labels, TASKS) if balanced else None
    if bounds:
        weights = {
            place: min(max(weight, bounds[0]), bounds[1]) for place, weight in weights.items()
        }
    total = slow.cross_entropy(LOGITS, labels, weights)
    if relations:
        total += 0.5 * slow.relation_consistency(LOGITS, OLD_LOGITS, labels, gradients, TASKS)
    return total


def adaptive(unsure=0):
    return slow.adaptive_labels(LOGITS, OLD_LOGITS, LABELS, ADAPTIVE, unsure)


def probable(unsure=0):
    """The old model's guesses at background where it gives them 0.6, else `unsure`."""
    labels = LABELS.copy()
    for place in slow.pixels(LABELS):
        p = slow.probabilities(OLD_LOGITS, place)
        if LABELS[place] == 0 and (guess := slow.highest(p)):
            labels[place] = guess if max(p) >= 0.6 else unsure
    return labels


def test_fbl_is_compensation_half_the_relations_and_local_pod():
    assert value(presets.fbl()) == pytest.approx(paper(adaptive()) + pod(), rel=1e-9)


def test_fbl_ignores_unsure_pixels_where_that_is_asked():
    terms = presets.fbl(AdaptiveLabels(unsure="ignore"))
    assert value(terms) == pytest.approx(paper(adaptive(255)) + pod(), rel=1e-9)
    assert (adaptive(255) != adaptive()).any()


def test_weights_of_pixels_may_be_bounded():
    expected = paper(adaptive(), bounds=(0.8, 1.1)) + pod()
    assert value(presets.fbl(bounds=(0.8, 1.1))) == pytest.approx(expected, rel=1e-9)
    assert expected != pytest.approx(paper(adaptive()) + pod(), rel=1e-6)


def test_literal_pod_has_one_factor_outside():
    literal = WeightedTerm(0.0005, LocalPod(factors=PodFactors(1.0, 1.0)))
    expected = paper(adaptive()) + 0.0005 * pod(1.0, 1.0)
    assert value(presets.fbl(pod=literal)) == pytest.approx(expected, rel=1e-9)


def test_ablations_leave_one_part_out():
    without_balance = paper(adaptive(), balanced=False) + pod()
    assert value(presets.fbl(balanced=False)) == pytest.approx(without_balance, rel=1e-9)
    without_relations = paper(adaptive(), relations=False) + pod()
    assert value(presets.fbl(relations=0.0)) == pytest.approx(without_relations, rel=1e-9)
    one_probability = value(presets.fbl(ProbableLabels(probability=0.6)))
    assert one_probability == pytest.approx(paper(probable()) + pod(), rel=1e-9)


def test_the_released_program_has_five_terms():
    labels, factors = slow.released_labels(OLD_LOGITS, LABELS, LIMITS, CHANNELS)
    weights = slow.released_weights(LOGITS, labels, TASKS, OLD)
    expected = (
        slow.released_cross_entropy(LOGITS, labels, weights, factors)
        + 0.3 * slow.soft_label_loss(LOGITS, OLD_LOGITS, labels)
        + 0.1 * slow.output_entropy(LOGITS, labels)
        + 0.5 * slow.class_confidence(LOGITS, OLD_LOGITS, labels, weights)
        + pod()
    )
    assert value(presets.released_fbl(), LIMITS) == pytest.approx(expected, rel=1e-9)
    assert 255 in labels
    assert {0, 1, 2, 3, 4} & set(labels[LABELS == 0].tolist())


def test_ablations_of_the_released_program_leave_one_part_out():
    labels, factors = slow.released_labels(OLD_LOGITS, LABELS, LIMITS, CHANNELS)
    weights = slow.released_weights(LOGITS, labels, TASKS, OLD)
    alike = dict.fromkeys(slow.pixels(labels), 1.0)
    relations = (
        0.3 * slow.soft_label_loss(LOGITS, OLD_LOGITS, labels)
        + 0.1 * slow.output_entropy(LOGITS, labels)
        + 0.5 * slow.class_confidence(LOGITS, OLD_LOGITS, labels, weights)
    )
    without_balance = (
        slow.released_cross_entropy(LOGITS, labels, alike, factors) + relations + pod()
    )
    found = value(presets.released_fbl(balanced=False), LIMITS)
    assert found == pytest.approx(without_balance, rel=1e-9)
    without_relations = slow.released_cross_entropy(LOGITS, labels, weights, factors) + pod()
    found = value(presets.released_fbl(relations=False), LIMITS)
    assert found == pytest.approx(without_relations, rel=1e-9)


def test_one_probability_for_all_classes_takes_the_place_of_the_released_thresholds():
    labels = probable(255)
    weights = slow.released_weights(LOGITS, labels, TASKS, OLD)
    expected = slow.released_cross_entropy(LOGITS, labels, weights, [1.0] * len(LABELS)) + pod()
    terms = presets.released_fbl(
        labels=ProbableLabels(probability=0.6, unsure="ignore"), relations=False
    )
    assert value(terms) == pytest.approx(expected, rel=1e-9)


def test_baselines_are_their_papers_sums():
    plain = slow.cross_entropy(LOGITS, LABELS)
    distilled = 100 * slow.pixel_distillation(LOGITS, OLD_LOGITS, LABELS)
    encoder = ((OUT.maps[1] - OLD_OUT.maps[1]) ** 2).mean().item()
    unbiased = slow.unbiased_cross_entropy(LOGITS, LABELS, OLD)
    background = 10 * slow.unbiased_distillation(LOGITS, OLD_LOGITS, LABELS)
    assert value(presets.finetuning()) == pytest.approx(plain)
    assert value(presets.lwf()) == pytest.approx(plain + distilled)
    assert value(presets.ilt()) == pytest.approx(plain + distilled + 100 * encoder)
    assert value(presets.mib()) == pytest.approx(unbiased + background)


def test_the_released_program_s_first_task_divides_by_all_pixels_ignored_ones_too():
    assert (LABELS == 255).any()
    total = slow.cross_entropy(LOGITS, LABELS) * len(list(slow.counted(LABELS)))
    assert value(presets.released_first()) == pytest.approx(total / LABELS.size, rel=1e-9)
    assert value(presets.released_first()) < value(presets.finetuning())


def test_plop_multiplies_images_by_the_share_that_was_accepted():
    labels, factors = slow.median_labels(OLD_LOGITS, LABELS, MEDIANS)
    by_image = {place: factors[place[0]] for place in slow.counted(labels)}
    expected = slow.cross_entropy(LOGITS, labels, by_image) + pod()
    assert value(presets.plop(), MEDIANS) == pytest.approx(expected, rel=1e-9)


def test_losses_are_values():
    assert DenseLoss(Tiny(), presets.fbl()) == DenseLoss(Tiny(), presets.fbl())
    assert len({presets.fbl(), presets.fbl(), presets.plop(), presets.released_fbl()}) == 3
    assert not DenseLoss(Tiny(), presets.fbl()).stackable


@dataclasses.dataclass(frozen=True)
class Counting(Tiny):
    """Notes the rows of the head at each pass."""

    rows: tuple = ()
    seen: list = dataclasses.field(default_factory=list, compare=False)

    def __call__(self, parameters, buffers, inputs, mode):
        self.seen.append((len(parameters["head.bias"]), mode.training, torch.is_grad_enabled()))
        return super().__call__(parameters, buffers, inputs, mode)


@pytest.mark.parametrize("terms", [presets.fbl(), presets.released_fbl(), presets.ilt()])
def test_the_old_model_is_asked_once_a_step_in_use_and_without_gradient(terms):
    network = Counting()
    extras = {"thresholds": torch.tensor(ADAPTIVE)}
    _, buffers = DenseLoss(network, terms)(NOW, BUFFERS, FROZEN, extras, BATCH)
    assert network.seen == [(CHANNELS, True, True), (OLD, False, False)]
    assert buffers["passes"] == 1, "the network's own buffers come back"


@dataclasses.dataclass(frozen=True)
class Coarse(Tiny):
    """Speaks bfloat16."""

    def __call__(self, parameters, buffers, inputs, mode):
        out, buffers = super().__call__(parameters, buffers, inputs, mode)
        maps = tuple(values.bfloat16() for values in out.maps)
        return DenseOutputs(maps, out.small_logits.bfloat16(), out.logits.bfloat16()), buffers


@pytest.mark.parametrize("terms", [presets.fbl(), presets.released_fbl(), presets.mib()])
def test_losses_of_bfloat16_scores_are_summed_in_full(terms):
    extras = {"thresholds": torch.full((OLD,), 0.1)}
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = DenseLoss(Coarse(), terms)(NOW, BUFFERS, FROZEN, extras, BATCH)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(value(terms, [0.1] * OLD), rel=0.05)


def test_training_with_thresholds_of_each_epoch_brings_the_loss_down():
    inputs, masks = pictures(7, number=12)
    asked = []

    def prepare(work, parameters, buffers, epoch, infer):
        now, _ = Tiny()(parameters, buffers, work.data.inputs, Mode())
        old, _ = Tiny()(BEFORE, BUFFERS, work.data.inputs, Mode())
        batches = [(now.logits, old.logits, work.data.targets)]
        asked.append(adaptive_thresholds(batches, accepted_share(epoch)))
        return Extras(agent={"thresholds": asked[-1]})

    work = Work(
        NOW,
        BUFFERS,
        Data(inputs, masks),
        loss=DenseLoss(Tiny(), presets.fbl()),
        optimiser=Sgd((0.02,) * 6, momentum=0.9),
        batching=Batching(4),
        chance=Chance(3, "site", stage=2, round=1),
        frozen=FROZEN,
        prepare=prepare,
    )
    trained = train_alone(work, TrainingEngineSettings(engine="loop"))
    assert trained.losses[-1] < 0.9 * trained.losses[0]
    assert trained.buffers["passes"] == trained.steps == 18
    assert len(asked) == 6
    assert not torch.equal(asked[0], asked[-1])

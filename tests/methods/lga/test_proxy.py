"""The proxy: a pool that tells nothing of devices, tasks that begin once, and scores of models."""

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.training.lbfgs import LbfgsSettings
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.lga import proxy
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.gradient_sets import GradientSet, encode_gradients
from fleetledger.methods.lga.inversion import SEARCH, InversionSettings, peak_signal_to_noise
from fleetledger.methods.lga.scoring import AugmentationSettings
from fleetledger.methods.lga.slots import RELEASED, SlotRules
from fleetledger.schemas.values import ClassName, Digest

pytestmark = pytest.mark.torch

ENCODING = Encoding(1, 8, 6, seed=1)
NAMES = tuple(ClassName(name) for name in ("ant", "bee", "cat", "dog", "eel"))
PICTURES = Pictures((0.5,), (0.3,))
NETWORK = build_network("mlp", (1, 8, 8))
RULES = proxy.ProxyRules(ENCODING, InversionSettings(replace(SEARCH, enough=1e-3), kept=3))
QUICK = InversionSettings(LbfgsSettings(steps=1, inner=1), kept=1)
TRUTHS = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(7))
"""A picture of each output."""


def sent(*labels, traces=(), truths=TRUTHS):
    found = ENCODING.gradients(truths[list(labels)], torch.tensor(labels))
    traces = traces or [1e-4] * len(labels)
    sets = [
        GradientSet({name: t[row] for name, t in found.items()}, trace)
        for row, trace in enumerate(traces)
    ]
    return encode_gradients(sets)


def separating():
    """Return weights of a network whose head names each true picture rightly."""
    arrays = NETWORK.initial(3, NAMES)
    seen = Inference(pictures=PICTURES)(NETWORK, *to_tensors(arrays), 255 * TRUTHS[: len(NAMES)])
    rows = np.linalg.pinv(seen.features.numpy()).T.astype(np.float32)
    return arrays | {"head.weight": rows, "head.bias": np.zeros(len(NAMES), np.float32)}


def model(number=1, arrays=None, names=NAMES, round_of_stage=1):
    arrays = NETWORK.initial(number, names) if arrays is None else arrays
    digest = Digest.of(b"%d" % number)
    return proxy.Model(digest, number, round_of_stage, NETWORK, arrays, names, PICTURES)


def after(rules, *happenings, state=None, seed=1):
    """Return the state and the last outcome after gradients (task, payload) and models."""
    state, outcome = state or proxy.ProxyState(), None
    for happened in happenings:
        if isinstance(happened, tuple):
            state = proxy.receive(rules, state, *happened)
        else:
            state, outcome = proxy.score(rules, state, happened, seed)
    return state, outcome


def test_pictures_come_out_of_gradients_under_the_names_of_their_outputs():
    state, outcome = after(RULES, (1, sent(0, 3)), (1, sent(1)), model())
    assert state.names == (NAMES[0], NAMES[1], NAMES[3])
    assert (outcome.gradients, outcome.shifted, outcome.remarks) == (3, True, ())
    assert not state.waiting
    for item in state.pool:
        assert item.iterates.shape == (3, 1, 8, 8)
        truth = TRUTHS[NAMES.index(item.name)]
        assert peak_signal_to_noise(item.iterates[-1], truth) > 25


def test_the_pool_does_not_tell_which_device_sent_what_nor_who_came_first():
    one, other, third = (1, sent(0, 3)), (1, sent(1)), (1, sent(2, 4))
    pools, orders = [], set()
    quick = replace(RULES, worst_distance=1e9, inversion=QUICK)
    for arrived in permutations([one, other, third]):
        state, _ = after(quick, *arrived, model())
        pools.append([item.name for item in state.pool])
    assert all(pool == pools[0] for pool in pools)
    for seed in range(8):
        state, _ = after(quick, one, other, third, model(), seed=seed)
        orders.add(tuple(item.name for item in state.pool))
    assert len(orders) > 4


def test_gradients_of_a_late_joiner_join_the_pool_without_shifting_the_slots():
    first, begun = after(RULES, (1, sent(0)), model(1))
    late, outcome = after(RULES, (1, sent(1)), model(2), state=first)
    assert (begun.shifted, outcome.shifted) == (True, False)
    assert late.names == NAMES[:2]
    assert late.slots.previous is None
    assert [item.round for item in late.slots.scored] == [1, 2]
    assert late.gradients == 2


def test_a_new_task_empties_the_pool_and_shifts_once():
    state, _ = after(RULES, (1, sent(0)), model(1))
    best = state.slots.current
    state, outcome = after(RULES, (2, sent(2)), model(2), state=state)
    assert outcome.shifted
    assert (state.names, state.gradients) == ((NAMES[2],), 1)
    assert (state.slots.task, state.slots.previous) == (2, best)
    state, outcome = after(RULES, model(3), state=state)
    assert (outcome.gradients, outcome.shifted) == (0, False)


@pytest.mark.parametrize("together", [True, False])
def test_gradients_of_an_earlier_task_are_left_out_with_a_remark(together):
    state, _ = after(RULES, (1, sent(0)), model(1))
    if not together:
        state, _ = after(RULES, (2, sent(2)), model(2), state=state)
    new = [(2, sent(2))] if together else []
    state, outcome = after(RULES, *new, (1, sent(1)), model(3), state=state)
    assert outcome.remarks == ("gradients of stage 1 came in stage 2, and are left out",)
    assert state.names == (NAMES[2],)
    assert state.slots.task == 2


STAGES = (1, 1, 2, 2, 3)
"""Of `NAMES`."""


def filed_slowly(rounds):
    """File classes one by one: (said stage, outputs) a round; return task and names after each."""
    task, pool, told = 0, set(), []
    for sets in rounds:
        stages = [STAGES[label] for _, labels in sets for label in labels]
        newest = max([task, *stages])
        pool = pool if newest == task else set()
        task = newest
        pool |= {NAMES[label] for _, labels in sets for label in labels if STAGES[label] == task}
        told.append((task, tuple(sorted(pool))))
    return told


@pytest.mark.parametrize(
    "rounds",
    [
        [[(1, (0,))], [(2, (1,))], [(2, (2,))]],  # one that trains late, before the new task came
        [[(1, (0,))], [(2, (1,)), (2, (3,))], [(2, (0,))]],  # with it, and after it
        [[(1, (0,))], [(3, (1, 2)), (2, (4,))], [(3, (2,))]],  # classes of several tasks at once
    ],
)
def test_gradients_are_filed_under_the_task_of_their_class(rounds):
    quick = replace(RULES, worst_distance=1e9, inversion=QUICK)
    state, told, shifts = proxy.ProxyState(), [], []
    for number, sets in enumerate(rounds, start=1):
        asked = replace(model(number), class_stages=STAGES)
        arrived = [(said, sent(*labels)) for said, labels in sets]
        state, outcome = after(quick, *arrived, asked, state=state)
        told.append((state.slots.task, state.names))
        shifts.append(outcome.shifted)
    wanted = filed_slowly(rounds)
    assert told == wanted
    tasks = [0, *(task for task, _ in wanted)]
    assert shifts == [now != before for before, now in pairwise(tasks)]


def test_a_device_cannot_begin_a_task_by_saying_so():
    state, _ = after(RULES, (1, sent(0)), replace(model(1), class_stages=STAGES))
    best = state.slots.current
    state, outcome = after(
        RULES, (3, sent(1, 5)), replace(model(2), class_stages=STAGES), state=state
    )
    assert (state.slots.task, state.slots.previous, outcome.shifted) == (1, None, False)
    assert outcome.remarks == ("gradients of output 5, and the fleet has 5 classes: left out",)
    state, outcome = after(
        RULES, (2, sent(2)), (2, sent(0)), replace(model(3), class_stages=STAGES), state=state
    )
    assert state.slots.previous in {best, model(2).weights}
    assert outcome.remarks == ("gradients of stage 1 came in stage 2, and are left out",)
    assert outcome.gradients == 1


def test_a_class_that_the_fleet_does_not_know_is_left_out_with_a_remark():
    state, outcome = after(RULES, (1, sent(0, 5)), model())
    assert state.names == (NAMES[0],)
    assert outcome.remarks == ("gradients of output 5, and the fleet has 5 classes: left out",)
    nobody, outcome = after(RULES, (1, sent(5)), model())
    assert (nobody.pool, outcome.newest, nobody.slots.current) == ((), None, None)


def test_a_picture_that_was_not_found_is_left_out_with_a_remark():
    found = ENCODING.gradients(TRUTHS[:1], torch.tensor([0]))
    noise = torch.Generator().manual_seed(2)
    bad = {n: t[0] + 0.3 * torch.randn(t[0].shape, generator=noise) for n, t in found.items()}
    bad["4.weight"] = found["4.weight"][0]
    payload = encode_gradients([GradientSet(bad, 0.1)])
    quick = replace(RULES, inversion=InversionSettings(replace(SEARCH, steps=3), kept=1))
    state, outcome = after(quick, (1, payload), model())
    assert state.pool == ()
    assert len(outcome.remarks) == 1
    assert "no picture of 'ant' has these gradients" in outcome.remarks[0]
    assert state.gradients == 1


def test_what_is_no_gradient_does_not_wait():
    with pytest.raises(ContributionError):
        proxy.receive(RULES, proxy.ProxyState(), 1, b"nothing")
    found = {name: torch.ones(shape) for name, shape in ENCODING.shapes.items()}
    with pytest.raises(ContributionError, match="belong to no class"):
        proxy.receive(RULES, proxy.ProxyState(), 1, encode_gradients([GradientSet(found)]))


def test_omega_is_the_mean_over_the_classes_of_all_tasks():
    """Two devices send a class: their mean is the class's."""
    state, _ = after(RULES, (1, sent(0, traces=[0.2])), (1, sent(0, 1, traces=[0.6, 0.1])), model())
    assert state.omega == pytest.approx((0.4 + 0.1) / 2)
    state, _ = after(RULES, (2, sent(2, traces=[0.7])), model(2), state=state)
    assert state.old_classes == 2
    assert state.omega == pytest.approx((0.4 + 0.1 + 0.7) / 3)
    state, _ = after(RULES, (3, sent(3, traces=[0.0])), model(3), state=state)
    assert state.omega == pytest.approx((0.4 + 0.1 + 0.7 + 0.0) / 4)


def test_as_released_later_tasks_leave_the_mean_of_the_first_one_as_it_is():
    rules = replace(RULES, augmentation=AugmentationSettings(released=True))
    state, _ = after(rules, (1, sent(0, 1, traces=[0.4, 0.2])), model())
    assert (state.old_classes, state.omega_before) == (0, 0.0)
    for task in (2, 3):
        state, _ = after(rules, (task, sent(task, traces=[0.9])), model(task), state=state)
        assert state.omega_before == pytest.approx(0.3)
    assert state.old_classes == 3


@pytest.fixture(scope="module")
def pooled():
    """A pool with a picture of every class, and no model in a slot yet."""
    state, _ = after(RULES, (1, sent(0, 1, 2, 3, 4)), model())
    return replace(state, slots=proxy.ProxyState().slots)


@pytest.mark.parametrize("draws", [5, 0])
def test_a_model_that_separates_the_classes_scores_1_and_random_ones_like_chance(pooled, draws):
    rules = replace(RULES, augmentation=AugmentationSettings(draws))
    _, outcome = after(rules, model(1, separating()), state=pooled)
    assert outcome.newest.score == 1
    random = [after(rules, model(seed), state=pooled)[1].newest.score for seed in range(1, 21)]
    assert np.mean(random) == pytest.approx(1 / len(NAMES), abs=0.1)


@pytest.mark.parametrize("square_root", [True, False])
def test_noise_that_is_too_long_for_a_model_costs_score(pooled, square_root):
    """As printed, noise follows the pictures on the way; else the traces that devices sent."""
    others = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    spread = [torch.cat([others, item.iterates]) for item in pooled.pool]
    loud = [
        replace(item, iterates=iterates, trace=300.0)
        for item, iterates in zip(pooled.pool, spread, strict=True)
    ]
    rules = replace(RULES, augmentation=AugmentationSettings(20, 50.0, square_root))
    scores = [
        after(rules, model(1, separating()), state=state)[1].newest.score
        for state in (pooled, replace(pooled, pool=tuple(loud)))
    ]
    assert scores[0] == 1
    assert scores[1] < 0.9


def test_without_augmentation_only_the_pictures_are_scored(pooled):
    """Ablation w/oSSA: traces change nothing."""
    rules = replace(RULES, augmentation=AugmentationSettings(draws=0, xi=50.0))
    loud = replace(pooled, pool=tuple(replace(item, trace=300.0) for item in pooled.pool))
    for state in (pooled, loud):
        assert after(rules, model(1, separating()), state=state)[1].newest.score == 1


def test_the_best_model_stays_and_without_best_ones_the_newest(pooled):
    """Ablation w/oSBM."""
    good, bad = model(1, separating()), model(2)
    state, outcome = after(RULES, good, bad, state=pooled)
    assert state.slots.current == good.weights
    told = proxy.answer(17, state, outcome, 1.5)
    assert (told.action, told.newest, told.seconds) == (17, outcome.newest, 1.5)
    assert [item.weights for item in told.scored] == [good.weights, bad.weights]
    assert (told.previous, told.current) == (None, good.weights)
    assert (told.gradients, told.images, told.remarks) == (5, 5, ())
    newest = replace(RULES, slots=SlotRules(best=False))
    assert after(newest, good, bad, state=pooled)[0].slots.current == bad.weights


def test_the_released_program_shifts_with_a_late_joiner_and_ignores_first_rounds():
    rules = replace(RULES, slots=RELEASED)
    state, _ = after(rules, (1, sent(0)), model(1, separating(), round_of_stage=1))
    assert state.slots.scored[0].score == 0
    state, _ = after(rules, model(2, separating(), round_of_stage=7), state=state)
    assert state.slots.best == 1
    state, outcome = after(rules, (1, sent(1)), model(3), state=state)
    assert outcome.shifted
    assert state.slots.previous == model(2).weights
    state, _ = after(rules, (2, sent(2)), model(4, round_of_stage=7), state=state)
    assert state.slots.best == 1


def test_a_model_without_the_pools_classes_scores_nothing(pooled):
    other = (ClassName("fox"), ClassName("gnu"))
    _, outcome = after(RULES, model(1, names=other), state=pooled)
    assert outcome.newest.score == 0


def test_a_renamed_class_is_scored_by_the_pictures_of_its_old_name():
    fox = ClassName("fox")
    now = tuple(fox if name == NAMES[0] else name for name in NAMES)
    state, _ = after(RULES, (1, sent(0)), model(1, separating()))
    _, lost = after(RULES, model(2, separating(), now), state=state)
    followed, found = after(
        RULES, model(2, separating(), now), state=state.renamed({NAMES[0]: fox})
    )
    assert (lost.newest.score, found.newest.score) == (0, 1)
    assert followed.names == (fox,)


def test_pictures_of_merged_classes_are_those_of_one(pooled):
    merged = pooled.renamed({NAMES[1]: NAMES[0]})
    assert NAMES[1] not in merged.names
    assert len(merged.pool) == len(pooled.pool)

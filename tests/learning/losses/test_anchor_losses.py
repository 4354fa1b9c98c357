"""Losses on anchors against plain Python, alone and in a stack, and by finite differences."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch

from fleetledger.learning.losses.ensemble import ensemble_distillation
from fleetledger.learning.losses.features import less_forget_factor
from fleetledger.learning.losses.ranking import margin_ranking
from fleetledger.learning.losses.relation import angle_cosines, drawn_triples, relation
from fleetledger.learning.losses.topology import topology
from fleetledger.learning.training.chance import words
from tests.learning.losses import slow_anchors as slow
from tests.learning.losses.stacks import (
    check_gradient,
    check_stack,
    members,
    t,
    weight_of,
)

pytestmark = pytest.mark.torch

AGENTS, ROWS, CLASSES, WIDTH, TRIPLES = 5, 7, 6, 4, 40
VALID = (7, 5, 3, 2, 0)
"""Valid rows of each agent; two triples need three, the last agent has none."""

generator = np.random.default_rng(11)
COSINES = generator.uniform(-1, 1, size=(AGENTS, ROWS, CLASSES))
ENSEMBLE = generator.normal(size=(AGENTS, ROWS, CLASSES))
FEATURES = generator.normal(size=(AGENTS, ROWS, WIDTH))
OLD = generator.normal(size=(AGENTS, ROWS, WIDTH))
TARGETS = generator.integers(0, CLASSES, (AGENTS, ROWS))
NEW = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0], [0] * 6, [1] * 6], bool)
"""Of each agent: three new classes, two, one, none, and no old one."""
WORDS = words(torch.arange(AGENTS), TRIPLES).numpy()


def weights(valid=VALID):
    return weight_of(valid, ROWS)


def related(take, w):
    triples, counted = drawn_triples(take(WORDS), w)
    return relation(take(FEATURES), take(OLD), triples, counted)


def related_slowly(agent, rows):
    if rows < 3:
        return 0.0
    triples, _ = drawn_triples(t(WORDS[agent]), torch.ones(rows))
    return slow.relation(FEATURES[agent], OLD[agent], triples.tolist())


def form_of_ranking(hardest, margin):
    return (
        lambda take, w: margin_ranking(take(COSINES), take(TARGETS), w, take(NEW), hardest, margin),
        lambda k, n: slow.margin_ranking(
            COSINES[k, :n], TARGETS[k, :n], members(NEW[k]), hardest, margin
        ),
    )


def form_of_ensemble(reduction, *, narrow):
    def fast(take, w):
        mask = take(NEW) if narrow else None
        return ensemble_distillation(take(COSINES), take(ENSEMBLE), w, 5.0, mask, reduction)

    def slowly(agent, rows):
        classes = members(NEW[agent]) if narrow else list(range(CLASSES))
        if not classes:
            return 0.0
        return slow.ensemble(COSINES[agent, :rows], ENSEMBLE[agent, :rows], 5.0, classes, reduction)

    return fast, slowly


FORMS = {
    "margin ranking": form_of_ranking(2, 0.5),
    "margin ranking of one rival": form_of_ranking(1, 1.5),
    "margin ranking of more rivals than classes": form_of_ranking(9, 0.5),
    "relation": (related, related_slowly),
    "topology": (
        lambda take, w: topology(take(FEATURES), take(OLD), w),
        lambda k, n: slow.topology(FEATURES[k, :n], OLD[k, :n]),
    ),
    "ensemble, mean": form_of_ensemble("mean", narrow=False),
    "ensemble, mean times tau squared": form_of_ensemble("mean_tau2", narrow=True),
    "ensemble, sum": form_of_ensemble("sum", narrow=True),
}


@pytest.mark.parametrize("rows", [ROWS, 3, 2, 1])
@pytest.mark.parametrize("form", FORMS)
def test_alone_it_is_its_definition(form, rows):
    fast, reference = FORMS[form]
    for agent in range(AGENTS):

        def take(array, agent=agent):
            mine = array[agent]
            return t(mine[:rows] if array.shape[1] == ROWS else mine)

        value = fast(take, torch.ones(rows).double())
        assert float(value) == pytest.approx(reference(agent, rows), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_in_a_stack_each_agent_has_its_own_over_its_valid_rows(form):
    check_stack(FORMS[form], VALID, weights())


@pytest.mark.parametrize("form", FORMS)
def test_its_gradient_is_that_of_finite_differences(form):
    inputs = FEATURES if form in ("relation", "topology") else COSINES
    check_gradient(FORMS[form], inputs, weights())


@pytest.mark.parametrize("form", ["relation", "topology"])
def test_the_old_model_gets_no_gradient(form):
    fast, _ = FORMS[form]
    old = t(OLD).requires_grad_()
    value = fast(
        lambda a: old if a is OLD else t(a).clone().requires_grad_(a is FEATURES), weights()
    )
    assert torch.autograd.grad(value.sum(), old, allow_unused=True) == (None,)


@pytest.mark.parametrize("new", [0, 1, 2, 5])
def test_all_new_classes_are_rivals_where_there_are_fewer_than_two(new):
    mask = torch.arange(CLASSES) >= CLASSES - new
    targets = torch.zeros(AGENTS, ROWS, dtype=torch.long)
    values = margin_ranking(t(COSINES), targets, weights(), mask)
    rivals = list(range(CLASSES - new, CLASSES))
    wanted = [
        slow.margin_ranking(COSINES[k, :n], [0] * n, rivals, 2, 0.5) for k, n in enumerate(VALID)
    ]
    assert values.tolist() == pytest.approx(wanted, rel=1e-12)
    assert bool((values > 0).any()) == (new > 0)


@pytest.mark.parametrize(
    ("old", "new", "wanted"), [(50, 2, 25.0), (8, 2, 10.0), (0, 3, 0), (3, 0, 0)]
)
def test_the_factor_of_less_forget_grows_with_the_share_of_old_classes(old, new, wanted):
    assert less_forget_factor(5.0, old, new) == pytest.approx(wanted)


def test_triples_are_of_three_different_rows_that_count_and_all_alike_often():
    counts = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5, 1.0, 0.0])
    triples, weight = drawn_triples(words(torch.tensor(5), 24_000), counts)
    seen = Counter(map(tuple, triples.tolist()))
    assert seen.keys() == set(permutations((1, 2, 4, 5), 3))
    assert max(abs(number - 1000) for number in seen.values()) < 150
    assert bool((weight == 1).all())


def test_triples_do_not_depend_on_the_rows_that_pad():
    alone, _ = drawn_triples(t(WORDS[1]), torch.ones(VALID[1]))
    stacked, counted = drawn_triples(t(WORDS), weights())
    assert torch.equal(stacked[1], alone)
    assert counted.sum(dim=1).tolist() == [TRIPLES, TRIPLES, TRIPLES, 0, 0]


def test_the_same_angles_and_similarities_cost_nothing_more():
    turned, _ = np.linalg.qr(generator.normal(size=(WIDTH, WIDTH)))
    moved = {FEATURES.tobytes(): FEATURES, OLD.tobytes(): 3 * FEATURES @ turned}
    triples, weight = drawn_triples(t(WORDS), weights())
    both = [t(side) for side in moved.values()]
    assert relation(*both, triples, weight).tolist() == pytest.approx([0] * AGENTS, abs=1e-12)
    assert topology(*both, weights())[:3].tolist() == pytest.approx([-1] * 3)


@pytest.mark.parametrize("form", ["relation", "topology"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_anchors_that_are_all_alike_have_a_finite_gradient(form, value):
    fast, _ = FORMS[form]
    features = torch.full((AGENTS, ROWS, WIDTH), value, dtype=torch.float64, requires_grad=True)
    values = fast(lambda array: features if array is FEATURES else t(array), weights())
    gradient = torch.autograd.grad(values.sum(), features)[0]
    assert bool(torch.isfinite(values).all())
    assert float(gradient.abs().max()) < 100


def test_the_angle_is_the_one_at_the_second_row():
    features = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    cosines = angle_cosines(features, torch.tensor([[0, 1, 2], [1, 0, 2], [1, 2, 0]]))
    assert cosines.tolist() == pytest.approx([0.5**0.5, 0.0, 0.5**0.5])

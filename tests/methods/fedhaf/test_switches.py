"""Every switch changes what it says of the works, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log
from typing import Any

import pytest

from fleetledger.learning.losses.composition import ComposedLoss, Weighted
from fleetledger.learning.losses.terms import (
    CrossEntropy,
    Divergence,
    FeatureBalance,
    FeatureDistance,
)
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.work import Work
from fleetledger.methods.errors import MethodError
from fleetledger.methods.fedhaf.terms import KNOWN, NEW, OLD, PRIOR, TASK, TASKS, TEACHER
from tests.methods.fedhaf.making import CAT, DOG, EVERY, assignment
from tests.methods.fedhaf.training import Taught
from tests.methods.making import only

pytestmark = pytest.mark.torch

CE = Weighted(1.0, CrossEntropy(TASK, NEW))
KD = Weighted(1.0, Divergence(TEACHER, 1.0, KNOWN, OLD, "student_first"))
FD = Weighted(2.0, FeatureDistance(TEACHER, OLD, "mean"))
FB = Weighted(1.0, FeatureBalance(TASK))

HEAD, BODY = (CE, KD), (FD, FB)
STAGES = {"head": HEAD, "body": BODY}


def works(**settings: Any) -> list[Work]:
    """The works of a round of the second task."""
    begun = Taught(assignment(**settings)).begun()
    if begun.following is None:
        return [begun.work]
    trained = train_alone(begun.work, TrainingEngineSettings())
    return [begun.work, begun.following(trained).work]


def losses(some: list[Work]) -> dict[str, tuple[Weighted, ...]]:
    found = [work.loss for work in some]
    assert all(isinstance(loss, ComposedLoss) for loss in found)
    return {loss.training: loss.terms for loss in found}  # type: ignore[attr-defined]


def shape(work: Work) -> tuple[Any, ...]:
    """Everything of a work that settings decide, but its loss."""
    return (
        work.optimiser,
        work.batching,
        work.chance,
        {name: value.shape for name, value in work.parameters.items()},
        {name: value.shape for name, value in work.buffers.items()},
        set(work.frozen),
        len(work.data),
        set(work.data.extras),
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, STAGES),
        ({"cross_entropy": 0.5}, STAGES | {"head": (replace(CE, factor=0.5), KD)}),
        ({"ce_scope": "seen"}, STAGES | {"head": (Weighted(1.0, CrossEntropy(None, NEW)), KD)}),
        ({"preset": "without-ce"}, STAGES | {"head": (Weighted(1.0, CrossEntropy(None, NEW)), KD)}),
        (
            {"ce_scope": "seen", "ce_rows": "all"},
            STAGES | {"head": (Weighted(1.0, CrossEntropy(None, None)), KD)},
        ),
        ({"preset": "without-kd"}, STAGES | {"head": (CE,)}),
        (
            {"kd_direction": "teacher_first"},
            STAGES
            | {"head": (CE, Weighted(1.0, Divergence(TEACHER, 1.0, KNOWN, OLD, "teacher_first")))},
        ),
        (
            {"temperature": 2.0, "distillation": 0.5},
            STAGES
            | {"head": (CE, Weighted(0.5, Divergence(TEACHER, 2.0, KNOWN, OLD, "student_first")))},
        ),
        ({"preset": "without-fd"}, STAGES | {"body": (FB,)}),
        ({"preset": "without-fb"}, STAGES | {"body": (FD,)}),
        (
            {"fd_reduction": "sum"},
            STAGES | {"body": (Weighted(2.0, FeatureDistance(TEACHER, OLD, "sum")), FB)},
        ),
        ({"feature_balance": 10.0}, STAGES | {"body": (FD, replace(FB, factor=10.0))}),
    ],
)
def test_a_switch_of_the_losses_changes_its_term_alone(settings, expected):
    made, plain = works(**settings), works()
    assert losses(made) == expected
    assert [shape(work) for work in made] == [shape(work) for work in plain]


def test_exemplars_may_count_within_the_classes_of_their_own_task():
    fleet = Taught(assignment(ce_scope="own-task", ce_rows="all"))
    work = fleet.begun().work
    assert losses([work]) == {"head": (Weighted(1.0, CrossEntropy(None, None, None, TASKS)), KD)}
    assert work.frozen[TASKS].tolist() == [1, 1, 2, 2]
    fleet.order = replace(fleet.order, class_stages=(1,))
    with pytest.raises(MethodError, match="class_stages: 1 for 4 classes, and the loss"):
        fleet.begun()


@pytest.mark.parametrize("preset", ["fedhaf", "replay", "fedavg-replay"])
def test_a_prior_is_in_the_cross_entropy_and_nowhere_else(preset):
    made, plain = works(preset=preset, ce_prior="device"), works(preset=preset)
    for work, before in zip(made, plain, strict=True):
        assert set(work.frozen) - set(before.frozen) == {PRIOR}
        assert shape(replace(work, frozen=before.frozen)) == shape(before)
    (first, *others), (was, *were) = ([*losses(some).values()] for some in (made, plain))
    assert first == (replace(was[0], term=replace(was[0].term, prior=PRIOR)), *was[1:])
    assert others == were


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"ce_scope": "seen", "ce_rows": "all"}, [log(2), log(2), log(7), log(7)]),
        ({}, [-inf, -inf, log(7), log(7)]),
        ({"prior_absent": 1.0}, [0, 0, log(7), log(7)]),
        ({"prior_strength": 0.5, "prior_absent": 0.1}, [*[log(0.1) / 2] * 2, *[log(7) / 2] * 2]),
    ],
)
def test_the_prior_counts_the_samples_that_the_cross_entropy_looks_at(settings, wanted):
    """Two exemplars of each old class, and seven samples of each new one."""
    head = works(**{"ce_prior": "device", "prior_absent": 0.0, **settings})[0]
    assert head.frozen[PRIOR].tolist() == pytest.approx(wanted)


def test_without_two_stages_one_loop_has_all_losses():
    (work,) = works(preset="without-stages")
    head, body = works()
    assert losses([work]) == {"all": (CE, KD, FD, FB)}
    assert set(work.parameters) == {*head.parameters, *body.parameters}
    assert (work.optimiser, work.batching) == (head.optimiser, head.batching)
    assert set(work.frozen) == set(head.frozen)


def test_replay_trains_both_by_exemplars_labels_and_what_holds_features():
    (work,) = works(preset="replay")
    labels, balance = Weighted(1.0, CrossEntropy(None, None)), replace(FB, factor=0.1)
    assert losses([work]) == {"all": (labels, FD, balance)}
    assert shape(work) == shape(works(preset="without-stages")[0])


def test_calibrated_trains_both_by_labels_with_the_prior_and_feature_distance():
    (work,) = works(preset="calibrated")
    assert losses([work]) == {"all": (Weighted(1.0, CrossEntropy(None, None, PRIOR)), FD)}
    assert set(work.frozen) == {*works(preset="replay")[0].frozen, PRIOR}


def test_plain_averaging_has_the_same_exemplars_in_one_cross_entropy():
    (work,) = works(preset="fedavg-replay")
    (rival,) = works(preset="without-stages")
    terms = losses([work])["all"]
    assert terms == (Weighted(1.0, CrossEntropy(None, None)),)
    assert set(work.frozen) == {"fixed", TASK}
    assert len(work.data) == len(rival.data)
    assert work.optimiser == rival.optimiser


@pytest.mark.parametrize(("adapter", "width"), [("projection", 5), ("none", 6)])
def test_without_the_module_the_head_alone_learns(adapter, width):
    made = works(adapter=adapter)
    assert losses(made) == {"head": HEAD}
    assert made[0].parameters["head.hidden.weight"].shape == (128, width)
    assert shape(made[0])[:3] == shape(works()[0])[:3]


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({"head_epochs": 7, "head_rate": 0.01}, ((0.01,) * 7, (1e-3,) * 2)),
        ({"adapter_epochs": 5, "adapter_rate": 0.2}, ((0.05,) * 3, (0.2,) * 5)),
    ],
)
def test_each_stage_has_rate_and_epochs_of_its_own(settings, rates):
    made = works(**settings)
    assert tuple(work.optimiser.rates for work in made) == rates
    assert losses(made) == STAGES


def test_a_small_last_batch_is_left_out_unless_it_is_the_only_one():
    head, body = works(smallest_batch=5)  # 18 samples: 8, 8 and 2
    assert head.batching == body.batching
    assert head.batching.count(18) == 2
    assert works()[0].batching.count(18) == 3
    fleet = Taught(assignment(smallest_batch=5))
    few = fleet.begun(only(fleet.new, range(3))).work
    assert few.batching.count(len(few.data)) == 1
    assert works(smallest_batch=50)[0].batching.count(18) == 2


def test_no_work_is_left_where_no_loss_has_anything_to_say():
    without = {"feature_distance": 0.0, "feature_balance": 0.0}
    assert losses(works(**without)) == {"head": HEAD}


def test_a_shortcut_and_dropout_are_the_networks():
    for shortcut, source in (("hidden", 10), ("input", 6)):
        (_, body) = works(shortcut=shortcut)
        assert body.parameters["shortcut.weight"].shape == (5, source)
    (_, body) = works(shortcut="none")
    assert "shortcut.weight" not in body.parameters
    network = assignment(dropout=0.4).network
    assert network.head_dropout == 0.4
    assert network.body.dropout == 0.4  # type: ignore[attr-defined]


def test_the_works_know_the_tasks_classes_and_the_old_models():
    head, _ = works()
    assert head.frozen[TASK].tolist() == [name in (CAT, DOG) for name in EVERY]
    assert head.frozen[KNOWN].tolist() == [name not in (CAT, DOG) for name in EVERY]

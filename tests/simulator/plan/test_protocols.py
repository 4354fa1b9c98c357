"""The published protocols' numbers, on labels like those of CIFAR-100: 500 images per class."""

import numpy as np
import pytest

from fleetledger.simulator.metrics.plan_counts import plan_counts
from tests.simulator.plan.describing import describe_plan
from tests.simulator.plan.making import make_split, plan

CIFAR = make_split([500] * 100)


@pytest.mark.parametrize(("stages", "held"), [(5, 12), (10, 6), (20, 3)])
def test_lga(stages: int, held: int):
    """30 devices, 10 more with each task; 60 % of a task's classes each, with all their images."""
    made = plan(
        CIFAR,
        2021,
        data={"set": "cifar100"},
        stages={"order": "icarl", "count": stages},
        devices={
            "count": 30,
            "partition": {"rule": "class-share", "class_share": 0.6},
            "groups": {"rule": "redrawn", "new_share": 0.9, "joining": 10},
        },
    )
    assert made.stages[0].classes[:4] == (87, 0, 52, 58)
    assert len(made.devices) == 30 + 10 * (stages - 1)
    for described in describe_plan(made, CIFAR.train.labels):
        before = 30 + 10 * (described.stage - 2)
        if described.stage == 1:
            assert described.groups == {"new": 30}
        else:
            assert described.groups == {
                "old": before - int(before * 0.9),
                "new": int(before * 0.9),
                "joined": 10,
            }
        assert (described.classes.min, described.classes.max) == (held, held)
        assert (described.images.min, described.images.max) == (500 * held, 500 * held)


def test_fbl():
    """Half of a task's classes, 60 % of the images with them; 10 devices, 4 more each task."""
    made = plan(
        make_split([50] * 20),
        stages={"count": 5},
        devices={
            "count": 10,
            "partition": {"rule": "class-share", "class_share": 0.5, "image_share": 0.6},
            "groups": {"rule": "redrawn", "joining": 4},
        },
    )
    last = describe_plan(made, make_split([50] * 20).train.labels)[-1]
    assert len(made.devices) == 26
    assert (last.classes.min, last.classes.max) == (2, 2)
    assert (last.images.min, last.images.max) == (60, 60)


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_stsa(beta: float):
    """5 devices, Dirichlet with the cut, each task split anew; ten equal tasks."""
    made = plan(
        CIFAR,
        stages={"count": 10},
        devices={"count": 5, "partition": {"rule": "dirichlet", "beta": beta}},
    )
    assert [len(stage.classes) for stage in made.stages] == [10] * 10
    counts = plan_counts(made, CIFAR.train.labels)
    assert (counts.sum(axis=2) >= 1).all()
    assert (counts.sum(axis=(0, 1)) == 500).all()
    shares = counts.max(axis=1)[counts.max(axis=1) > 0] / 500
    assert shares.mean() > {0.1: 0.6, 0.5: 0.4, 1.0: 0.35}[beta]


def test_stsas_large_first_task():
    made = plan(CIFAR, stages={"first": 50, "count": 6})
    assert [len(stage.classes) for stage in made.stages] == [50, 10, 10, 10, 10, 10]


@pytest.mark.parametrize(("sessions", "classes"), [(5, 10), (10, 5)])
@pytest.mark.parametrize("sites", [2, 5, 10, 20])
def test_dcid(sessions: int, classes: int, sites: int):
    """Half of the classes first, then equal sessions; every class split evenly over the sites."""
    made = plan(
        CIFAR,
        stages={"first": 50, "count": sessions + 1},
        devices={"count": sites, "partition": {"rule": "iid"}},
    )
    assert [len(stage.classes) for stage in made.stages] == [50] + [classes] * sessions
    counts = plan_counts(made, CIFAR.train.labels)
    assert set(np.unique(counts)) == {0, 500 // sites}


@pytest.mark.parametrize("alpha", [1.0, 10.0, 100.0])
def test_dcid_without_iid(alpha: float):
    """Dirichlet(alpha p) over the sites with p uniform: beta is alpha divided by their number."""
    made = plan(
        CIFAR,
        stages={"first": 50, "count": 6},
        devices={
            "count": 5,
            "partition": {"rule": "dirichlet", "beta": alpha / 5, "full_devices_get_none": False},
        },
    )
    shares = plan_counts(made, CIFAR.train.labels).sum(axis=0) / 500
    assert shares.sum(axis=0).tolist() == pytest.approx([1.0] * 100)
    assert shares.var() == pytest.approx(4 / 25 / (alpha + 1), rel=0.3)


def test_fedhaf():
    """50 devices, ten tasks of ten classes, Dirichlet 1.0."""
    made = plan(
        CIFAR,
        stages={"count": 10},
        devices={"count": 50, "partition": {"rule": "dirichlet", "beta": 1.0}},
    )
    described = describe_plan(made, CIFAR.train.labels)
    assert len(made.devices) == 50
    assert all(stage.images.min >= 1 for stage in described)
    assert all(70 < stage.images.median < 130 for stage in described)


def test_omniglots_drawers_hold_every_character_once():
    split = make_split([20] * 30, owners=20, shuffled=False)
    made = plan(
        split,
        stages={"count": 3},
        devices={"count": 20, "partition": {"rule": "owner"}},
    )
    assert set(np.unique(plan_counts(made, split.train.labels))) == {0, 1}
    for stage in describe_plan(made, split.train.labels):
        assert (stage.images.min, stage.images.max) == (10, 10)

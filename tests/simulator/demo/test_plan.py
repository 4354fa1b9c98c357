"""The plan of a run."""

from pathlib import Path

import numpy as np
import pytest

from simulator.datasets.digits import split_digits
from simulator.demo.plan import make_plan
from simulator.demo.settings import DemoSettings
from simulator.errors import DemoError

OUT = Path("unused")


def test_every_training_and_test_image_goes_to_exactly_one_device():
    split = split_digits(seed=0)
    plan = make_plan(split, DemoSettings(OUT))
    trained = np.concatenate([p.images for s in plan.stages for p in s.private.values()])
    tested = np.concatenate([share.images for share in plan.test.values()])
    for dealt, part in ((trained, split.train), (tested, split.test)):
        assert len(dealt) == len(part)
        assert sorted(image.tobytes() for image in dealt) == sorted(
            image.tobytes() for image in part.images
        )


def test_each_stage_has_two_classes_and_images_for_every_device():
    plan = make_plan(split_digits(seed=0), DemoSettings(OUT))
    assert [s.class_names for s in plan.stages] == [
        ("0", "1"),
        ("2", "3"),
        ("4", "5"),
        ("6", "7"),
        ("8", "9"),
    ]
    for stage in plan.stages:
        assert len(stage.private) == 5
        assert all(len(images) for images in stage.private.values())
        assert set(stage.counts) == set(stage.class_names)


def test_what_must_be_counted_grows_with_the_stages():
    split = split_digits(seed=0)
    plan = make_plan(split, DemoSettings(OUT))
    expected = split.train.counts()
    assert plan.counted(2) == {name: expected[name] for name in ("0", "1", "2", "3")}
    assert plan.counted(5) == expected
    assert plan.seen(2) == ("0", "1", "2", "3")


def test_questions_of_all_devices_sum_to_the_test_images_of_the_seen_classes():
    split = split_digits(seed=0)
    plan = make_plan(split, DemoSettings(OUT))
    for stage in (1, 3, 5):
        total: dict[str, int] = {}
        for device in plan.devices:
            for name, number in plan.questions(device, stage).items():
                total[name] = total.get(name, 0) + number
        expected = split.test.counts()
        assert total == {name: expected[name] for name in plan.seen(stage)}


def test_the_seed_decides_the_plan():
    split = split_digits(seed=0)

    def sizes(seed: int) -> list[list[int]]:
        plan = make_plan(split, DemoSettings(OUT, seed=seed))
        return [[len(p) for p in s.private.values()] for s in plan.stages]

    assert sizes(4) == sizes(4)
    assert sizes(4) != sizes(5)


def test_a_short_demo_leaves_out_the_classes_beyond_its_last_stage():
    plan = make_plan(split_digits(seed=0), DemoSettings(OUT, agents=2, stages=2))
    assert plan.seen(2) == ("0", "1", "2", "3")
    assert {name for share in plan.test.values() for name in share.counts()} == set(plan.seen(2))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"agents": 0}, "agents"),
        ({"agents": 51}, "agents"),
        ({"stages": 0}, "stages"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_no_run_can_have_are_refused_by_name(wrong, named: str):
    with pytest.raises(DemoError, match=named):
        DemoSettings(OUT, **wrong)


@pytest.mark.parametrize("wrong", [{"stages": 6}, {"classes_per_stage": 3}])
def test_stages_that_need_more_classes_than_there_are_are_refused(wrong):
    with pytest.raises(DemoError, match="the 10 of the data set"):
        make_plan(split_digits(seed=0), DemoSettings(OUT, **wrong))

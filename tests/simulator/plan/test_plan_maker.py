"""Plans of whole fleets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.metrics.plan_counts import plan_counts
from fleetledger.simulator.plan.presence import draw_presence
from fleetledger.simulator.scenario.sections import DeviceSettings
from tests.simulator.plan.making import digest, make_split, plan, same, same_stage

DEALING_ONCE = ["iid", "dirichlet", "one-class", "owner"]


def devices(rule: str, count: int = 6, **others) -> dict:
    return {"count": count, "partition": {"rule": rule}, **others}


@settings(max_examples=40)
@given(rule=st.sampled_from(DEALING_ONCE), seed=st.integers(0, 2**40), count=st.integers(2, 6))
def test_every_image_reaches_one_device_in_its_classes_stage(rule: str, seed: int, count: int):
    split = make_split([30] * 8, owners=6)
    made = plan(
        split, seed, stages={"count": 4}, devices=devices(rule, 6 if rule == "owner" else count)
    )
    for stage in made.stages:
        arrived = np.sort(np.concatenate([d.indices for d in stage.devices.values()]))
        wanted = np.flatnonzero(np.isin(split.train.labels, stage.classes))
        assert np.array_equal(arrived, wanted)
        assert all(np.all(np.diff(d.indices) > 0) for d in stage.devices.values())
        assert stage.notes == ()


def test_devices_are_named_by_number_and_numbers_by_joining():
    groups = {"rule": "redrawn", "joining": 1}
    made = plan(make_split([20] * 4), stages={"count": 2}, devices=devices("iid", 3, groups=groups))
    assert made.devices == ("device-1", "device-2", "device-3", "device-4")
    assert "device-4" not in made.stages[0].devices
    assert [stage.number for stage in made.stages] == [1, 2]
    assert made.class_names == ("kind 000", "kind 001", "kind 002", "kind 003")


@pytest.mark.parametrize("rule", [*DEALING_ONCE, "class-share"])
def test_the_same_seed_gives_the_same_plan_and_another_seed_another(rule: str):
    split = make_split([40] * 6, owners=6)
    told = {"stages": {"count": 3}, "devices": devices(rule, dropout=0.2, stragglers=0.5)}
    assert same(plan(split, 5, **told), plan(split, 5, **told))
    assert not same(plan(split, 5, **told), plan(split, 6, **told))


@pytest.mark.parametrize("rule", ["iid", "dirichlet", "class-share"])
def test_a_stage_does_not_depend_on_how_many_follow(rule: str):
    split = make_split([40] * 8)
    groups = {"rule": "redrawn", "new_share": 0.5, "joining": 2}
    told = {"devices": devices(rule, dropout=0.2, stragglers=0.5, groups=groups)}
    short = plan(split, 2, stages={"count": 2, "classes": 4}, **told)
    long = plan(split, 2, stages={"count": 4, "classes": 8}, **told)
    assert all(same_stage(a, b) for a, b in zip(short.stages, long.stages[:2], strict=True))


def test_another_rule_for_one_thing_leaves_the_draws_of_the_others():
    split = make_split([40] * 6)
    groups = {"rule": "redrawn", "new_share": 0.5}
    base = plan(split, stages={"count": 3}, devices=devices("dirichlet", groups=groups))
    away = plan(
        split,
        stages={"count": 3},
        devices=devices("dirichlet", groups=groups, dropout=0.3, stragglers=0.3),
    )
    even = plan(split, stages={"count": 3}, devices=devices("iid", groups=groups))
    for one, other, third in zip(base.stages, away.stages, even.stages, strict=True):
        assert one.classes == other.classes == third.classes
        for name, device in one.devices.items():
            assert np.array_equal(device.indices, other.devices[name].indices)
            assert device.group == other.devices[name].group == third.devices[name].group
    assert any(not d.online for stage in away.stages for d in stage.devices.values())


def test_old_devices_get_nothing_and_the_others_share_all():
    split = make_split([40] * 6)
    groups = {"rule": "redrawn", "new_share": 0.5, "joining": 1}
    made = plan(split, stages={"count": 3}, devices=devices("iid", 6, groups=groups))
    for stage in made.stages[1:]:
        given = {name: len(d.indices) for name, d in stage.devices.items()}
        old = [name for name, d in stage.devices.items() if d.group == "old"]
        assert len(old) == (3 if stage.number == 2 else 4)
        assert all(given[name] == 0 for name in old)
        assert sum(given.values()) == 80


def test_an_offline_device_has_its_images_waiting():
    made = plan(make_split([40] * 6), 3, stages={"count": 3}, devices=devices("iid", dropout=0.5))
    away = [d for stage in made.stages for d in stage.devices.values() if not d.online]
    assert away
    assert all(len(device.indices) for device in away)


def test_absent_devices_are_not_in_the_stage():
    absences = [{"device": 2, "joins": 2}, {"device": 1, "leaves": 2}]
    made = plan(
        make_split([30] * 4), stages={"count": 2}, devices=devices("iid", 3, absences=absences)
    )
    assert list(made.stages[0].devices) == ["device-1", "device-3"]
    assert list(made.stages[1].devices) == ["device-2", "device-3"]
    assert made.stages[1].devices["device-2"].group == "joined"
    assert made.devices == ("device-1", "device-3", "device-2")


def test_owners_keep_their_devices_through_all_stages():
    split = make_split([24] * 6, owners=6)
    made = plan(split, stages={"count": 3}, devices=devices("owner", 4))
    for stage in made.stages:
        for number, device in enumerate(stage.devices.values()):
            assert (split.train.owners[device.indices] == number).all()
        others = np.isin(split.train.labels, stage.classes) & (split.train.owners >= 4)
        assert stage.notes == (f"{others.sum()} of 48 images of the stage reach no device",)


def test_at_most_as_many_devices_as_owners():
    made = plan(make_split([24] * 2, owners=5), stages={"count": 1}, devices=devices("owner", 90))
    assert len(made.devices) == 5


def test_what_nobody_drew_is_told():
    partition = {"rule": "class-share", "class_share": 0.5}
    made = plan(
        make_split([10] * 4),
        stages={"count": 1, "order": "as-is"},
        devices={"count": 1, "partition": partition},
    )
    labels = make_split([10] * 4).train.labels
    held = plan_counts(made, labels)[0, 0]
    missing = [f"kind {label:03d}" for label in np.flatnonzero(held == 0)]
    assert len(missing) == 2
    assert made.stages[0].notes == (
        f"20 of 40 images of the stage reach no device; nobody has {', '.join(missing)}",
    )


def seed_with_device_1_offline(stage: int, dropout: float) -> int:
    asked = DeviceSettings(dropout=dropout)
    return next(
        seed
        for seed in range(100)
        if all(draw_presence(asked, [1], seed, t)[1].online == (t != stage) for t in (1, 2))
    )


def test_a_later_stage_without_anyone_online_is_told():
    seed = seed_with_device_1_offline(stage=2, dropout=0.5)
    made = plan(
        make_split([9, 9]), seed, stages={"count": 2}, devices=devices("iid", 1, dropout=0.5)
    )
    assert made.stages[0].notes == ()
    assert "is offline in it" in made.stages[1].notes[0]


def test_a_first_stage_without_anyone_online_is_refused():
    seed = seed_with_device_1_offline(stage=1, dropout=0.5)
    with pytest.raises(PlanError, match="smaller dropout or another seed"):
        plan(make_split([9, 9]), seed, stages={"count": 2}, devices=devices("iid", 1, dropout=0.5))


def test_uneven_stages_are_told_once():
    made = plan(make_split([10] * 5), stages={"count": 2}, devices=devices("iid", 2))
    assert made.stages[0].notes == ("5 classes do not divide evenly: the 2 stages have 3, 2",)
    assert made.stages[1].notes == ()


@pytest.mark.parametrize(
    ("split", "sections", "error", "told"),
    [
        (make_split([9, 0, 9]), {"stages": {"count": 3}}, PlanError, "kind 001 of stage"),
        (make_split([9, 9]), {"stages": {"count": 3}}, PlanError, "stages.count"),
        (make_split([9, 9]), {"devices": devices("owner")}, PlanError, "does not say who owns"),
        (make_split([4, 4]), {"devices": devices("iid")}, PartitionError, "stage 1: devices: 6"),
        (make_split([9] * 8), {"devices": devices("one-class", 3)}, PartitionError, "at least 4"),
        (
            make_split([9] * 8),
            {"devices": devices("iid", 2, groups={"rule": "redrawn", "new_share": 0.0})},
            PartitionError,
            "stage 2: no device gets its images",
        ),
    ],
)
def test_what_the_data_set_cannot_give_is_refused(split, sections, error, told: str):
    with pytest.raises(error, match=told):
        plan(split, **{"stages": {"count": 2}, **sections})


def test_a_large_fleet_is_planned():
    partition = {"rule": "dirichlet", "beta": 0.5, "least_images": 0}
    made = plan(
        make_split([500] * 20),
        stages={"count": 2},
        devices={"count": 1000, "partition": partition, "dropout": 0.1},
    )
    assert len(made.devices) == 1000
    assert sum(len(d.indices) for d in made.stages[0].devices.values()) == 5000


PINNED = {
    "iid": "a342c45c7745",
    "dirichlet": "84ec9fb68c23",
    "class-share": "4b5493cbcaee",
    "one-class": "9edb1440201d",
}


@pytest.mark.parametrize("rule", PINNED)
def test_numpys_random_numbers_are_still_those_that_plans_were_drawn_with(rule: str):
    """`Generator` promises no streams over versions: a release that changes one fails here."""
    groups = {"rule": "redrawn", "new_share": 0.8, "joining": 1}
    asked = devices(rule, 5, groups=groups, dropout=0.2, stragglers=0.5)
    assert digest(plan(make_split([30] * 6), 7, stages={"count": 3}, devices=asked)) == PINNED[rule]

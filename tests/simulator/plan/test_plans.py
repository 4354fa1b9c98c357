"""Plans by name: what comes with which stage, to whom, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import fleetledger as fl
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.samples import Domains
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.plan.plans import PLANS
from fleetledger.simulator.plan.relabelled import as_given
from tests.outside import nothing_stays
from tests.simulator.plan.making import make_split, names, plan, scenario

IID = {"count": 3, "partition": {"rule": "iid"}}


@pytest.fixture(autouse=True)
def _own_plans_go() -> Iterator[None]:
    with nothing_stays(PLANS):
        yield


def drawn(name: str, split: Split | None = None, seed: int = 1, **options: Any) -> FleetPlan:
    stages = {"plan": name, "count": 3, "order": "as-is", "options": options}
    return plan(split or make_split([40] * 6), seed, stages=stages, devices=IID)


def dealt(made: FleetPlan) -> list[list[int]]:
    """All samples of each stage, once for each device that gets them."""
    return [
        sorted(i for part in stage.devices.values() for i in part.indices.tolist())
        for stage in made.stages
    ]


def refused(name: str, **stages: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        scenario(stages={"plan": name, **stages})
    return str(caught.value)


def domained(domains: list[int], labels: list[int]) -> Split:
    images = np.zeros((len(labels), 1, 1), np.uint8)
    of = Domains(("day", "night", "fog"), np.array(domains, np.int64))
    train = LabelledImages(images, np.array(labels, np.int64), names(2), domains=of)
    return Split(train, train)


@pytest.mark.parametrize("name", ["blurry", "repetition", "own-orders"])
def test_every_sample_comes_once_whatever_the_plan(name: str) -> None:
    stages = dealt(drawn(name))
    assert sorted(np.concatenate(stages).tolist()) == list(range(240))


@pytest.mark.parametrize(("reach", "apart"), [("neighbours", {0, 1}), ("any", {0, 1, 2})])
def test_of_every_class_a_share_comes_with_another_stage(reach: str, apart: set[int]) -> None:
    split = make_split([40] * 6)
    made = drawn("blurry", split, share=0.25, reach=reach)
    of_class, found = {label: label // 2 + 1 for label in range(6)}, Counter[tuple[int, int]]()
    for number, indices in enumerate(dealt(made), start=1):
        for label in split.train.labels[indices].tolist():
            found[label, abs(number - of_class[label])] += 1
    assert all(found[label, 0] == 30 for label in range(6))
    assert {distance for _, distance in found} == apart


def test_without_a_share_blurry_stages_have_the_classes_of_sharp_ones() -> None:
    blurry, sharp = drawn("blurry", share=0.0), drawn("classes")
    assert [stage.classes for stage in blurry.stages] == [stage.classes for stage in sharp.stages]
    assert dealt(blurry) == dealt(sharp)
    assert not blurry.repeats


@pytest.mark.parametrize(("again", "times"), [(0.0, 1), (1.0, 3)])
def test_a_class_of_the_first_stage_returns_as_often_as_is_asked(again: float, times: int) -> None:
    split = make_split([40] * 6)
    made = drawn("repetition", split, again=again)
    shown = [set(split.train.labels[indices].tolist()) for indices in dealt(made)]
    assert sum(0 in labels for labels in shown) == times
    assert [set(stage.named) for stage in made.stages] == shown
    assert made.repeats == (times > 1)
    assert made.seen(3) == tuple(range(6))  # each class once, with its first stage
    assert made.stages_of_classes().tolist() == [1, 1, 2, 2, 3, 3]


def test_every_stage_brings_all_classes_in_another_domain() -> None:
    split = domained([0, 1, 2] * 20, [0, 0, 0, 1, 1, 1] * 10)
    made = plan(split, stages={"plan": "domains", "count": 3}, devices=IID)
    for number, indices in enumerate(dealt(made)):
        assert set(split.train.domains.of_sample[indices].tolist()) == {number}
    assert [set(stage.named) for stage in made.stages] == [{0, 1}] * 3
    assert made.stages[1].classes == ()
    asked = Domains(("fog", "day", "night", "snow"), np.array([0, 1, 2, 3]))
    assert made.stages_of_samples(np.array([0, 1, 1, 0]), asked).tolist() == [3, 1, 2, 0]


def test_domains_that_are_not_there_are_refused() -> None:
    stages = {"plan": "domains", "count": 3}
    with pytest.raises(PlanError, match=r"stages\.plan: 'domains', and the data set does not say"):
        plan(make_split([9, 9]), stages=stages, devices=IID)
    with pytest.raises(PlanError, match=r"stages\.count: 4, .* 3 domains; give at most 3"):
        plan(domained([0, 1, 2] * 9, [0, 1, 1] * 9), stages=stages | {"count": 4}, devices=IID)


def test_devices_have_orders_of_their_own() -> None:
    split = make_split([60] * 6)
    made = drawn("own-orders", split)
    orders = {
        device: [
            frozenset(split.train.labels[stage.devices[device].indices].tolist())
            for stage in made.stages
        ]
        for device in made.devices
    }
    for order in orders.values():
        assert frozenset().union(*order) == frozenset(range(6))
        assert sum(map(len, order)) == 6  # a class comes to a device once
    assert len({tuple(order) for order in orders.values()}) > 1


@pytest.mark.parametrize("name", ["classes", "blurry", "repetition", "own-orders"])
def test_a_long_tail_falls_by_equal_factors(name: str) -> None:
    split = make_split([100] * 6)
    made = drawn(name, split, long_tail=32.0)
    counts = np.bincount(split.train.labels[made.dealt], minlength=6)
    assert counts.tolist() == [100, 50, 25, 12, 6, 3]


def test_noise_gives_a_share_of_every_device_another_label_of_its_stage() -> None:
    split = make_split([40] * 6)
    made = drawn("classes", split, label_noise=0.25)
    given, true = as_given(split, made).train, split.train
    assert len(given) == len(true) + len(made.renamed.samples)
    for number, stage in enumerate(made.stages):
        for part in stage.devices.values():
            sources = given.of_sample[part.indices]
            wrong = given.labels[part.indices] != true.labels[sources]
            assert wrong.sum() == len(part.indices) // 4
            assert {*given.labels[part.indices].tolist()} <= {2 * number, 2 * number + 1}
    assert given.digest(len(true)) == true.digest(int(made.renamed.samples[0]))
    assert given.fingerprint != true.fingerprint
    assert as_given(split, drawn("classes", split)) is split


def test_a_plan_of_ones_own_gives_rows() -> None:
    @fl.plan("test-two-halves")
    def two_halves(data, stages, devices, random, flip=False):
        assert (stages, devices) == (2, 3)
        order = random.permutation(len(data))
        for place, sample in enumerate(order.tolist()):
            yield 1 + place % 2, 1 + place % 3, sample, 0 if flip and place == 5 else -1

    split, stages = make_split([20, 20]), {"plan": "test-two-halves", "count": 2}
    made = plan(split, stages=stages, devices={"count": 3})
    assert [len(indices) for indices in dealt(made)] == [20, 20]
    assert [stage.named for stage in made.stages] == [(0, 1), (0, 1)]
    assert made.renamed is None
    again = plan(split, stages=stages, devices={"count": 3})
    assert dealt(again) == dealt(made) != dealt(plan(split, 2, stages=stages, devices={"count": 3}))
    flipped = [
        plan(split, seed, stages=stages | {"options": {"flip": True}}, devices={"count": 3})
        for seed in range(1, 9)
    ]
    assert any(each.renamed is not None for each in flipped)
    with pytest.raises(ValidationError, match=r"stages\.options\.flop: .* takes one of flip"):
        scenario(stages=stages | {"options": {"flop": 1}})


def test_a_plan_that_gives_no_rows_is_refused() -> None:
    for found, told in (
        (7, r"gave 7; give rows"),
        ([(1, 1)], r"numbers of fields in a row: 2;"),
        ([(1, 1, 0), (2, 1, 0, 1)], r"numbers of fields in a row: 3, 4;"),
        (np.zeros((3, 3)), r"float64 of shape \(3, 3\)"),
        ([], r"no row"),
        ([(1, 1, 0)], r"stage 2 of 2 has no row; .* stages\.count to 1"),
        ([(3, 1, 0)], r"row 1: stage 3; give 1 to 2"),
        ([(1, 4, 0)], r"row 1: device 4; give 1 to 3, or another devices\.count"),
        ([(1, 1, 40), (2, 1, 0)], r"row 1: sample 40; give 0 to 39"),
        ([(1, 1, 0, 2), (2, 1, 0, 1)], r"row 1: label 2; give -1 to 1"),
        ([(1, 1, 0), (2, 1, 0), (2, 1, 0)], r"sample 0 comes to device 1 in stage 2 twice"),
        ([(1, 1, "x")], r"row 1: sample 'x'; give a number"),
    ):
        fl.plan("test-none")(lambda *_, found=found: found)
        with pytest.raises(PlanError, match=told):
            plan(
                make_split([20, 20]),
                stages={"plan": "test-none", "count": 2},
                devices={"count": 3},
            )


def test_a_device_that_is_absent_is_given_nothing() -> None:
    fl.plan("test-absent")(lambda *_: [(1, 1, 0), (2, 2, 1)])
    absences = [{"device": 2, "leaves": 2}]
    with pytest.raises(PlanError, match=r"device 2 is not there in stage 2"):
        plan(
            make_split([2, 2]),
            stages={"plan": "test-absent", "count": 2},
            devices={"count": 2, "absences": absences},
        )


def test_what_does_not_go_with_a_plan_is_refused_with_the_way_out() -> None:
    assert "give one of 'classes', 'blurry'" in refused("blury")
    assert "stages.options.share: 1: must be less than 1" in refused("blurry", options={"share": 1})
    assert "did you mean 'share'" in refused("blurry", options={"shar": 0.1})
    assert "file: missing; plan 'rows' is read from one" in refused("rows")
    assert "set plan to 'rows'" in refused("blurry", file="plan.csv")
    assert "order: 'as-is' beside plan 'rows'" in refused("rows", file="p.csv", order="as-is")
    assert "opened_by: 'reports' beside plan 'blurry'" in refused("blurry", opened_by="reports")
    rows = {"plan": "rows", "file": "plan.csv"}
    for devices in ({"partition": {"rule": "iid"}}, {"groups": {"rule": "redrawn"}}):
        with pytest.raises(ValidationError, match=r"given beside stages\.plan 'rows'"):
            scenario(stages=rows, devices=devices)


@pytest.mark.parametrize("field", [{"stages": {"plan": "blurry"}}, {"devices": {"test": "own"}}])
def test_pictures_with_several_classes_have_the_plan_of_classes(field: dict[str, Any]) -> None:
    masked = {"data": {"set": "digit-scenes"}, "devices": {"partition": {"rule": "class-share"}}}
    sections = {**masked, **field, "devices": masked["devices"] | field.get("devices", {})}
    with pytest.raises(ValidationError, match=r"whose pictures have several classes; leave it out"):
        scenario(**sections)


def test_plans_of_ours_are_told_apart_by_what_they_leave_to_the_scenario() -> None:
    assert [name for name, plan in PLANS.items() if not plan.deals] == ["rows"]
    assert [name for name, plan in PLANS.items() if not plan.repeats] == ["classes"]


def test_the_plan_is_made_of_nothing_but_scenario_data_and_seed() -> None:
    one, other = (
        make_plan(scenario(stages={"plan": "repetition", "count": 3}, devices=IID), split, 5)
        for split in (make_split([40] * 6), make_split([40] * 6))
    )
    assert dealt(one) == dealt(other) != dealt(drawn("repetition", seed=6))
    assert re.fullmatch(r"device-\d", one.devices[0])

"""All metrics of one seed, from records, answers and plan."""

from dataclasses import replace

import numpy as np
import pytest

import fleetledger as fl
from fleetledger.runtime.registry import RegistryError
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.metrics.headline import METRICS, metric_of
from fleetledger.simulator.metrics.measurement import measure_seed
from fleetledger.simulator.metrics.seed_metrics import SeedMetrics
from tests.outside import added, nothing_stays
from tests.simulator.fake_run import FakeSeed, Shape, fake_seed

SHAPE = Shape(
    stages=4, classes_per_stage=3, devices=6, joining=2, offline=0.2, stored=50, detection=True
)


@pytest.fixture(scope="module")
def fake() -> FakeSeed:
    return fake_seed(SHAPE, seed=7)


@pytest.fixture(scope="module")
def metrics(fake: FakeSeed) -> SeedMetrics:
    return fake.metrics


def test_accuracy_old_and_new_are_shares_of_right_answers(fake: FakeSeed, metrics: SeedMetrics):
    task = fake.answers.stage_of_sample
    for stage in metrics.stages:
        right = fake.answers.predictions[stage.stage - 1] == fake.answers.labels
        assert stage.accuracy == pytest.approx(right[task <= stage.stage].mean())
        assert stage.new_accuracy == pytest.approx(right[task == stage.stage].mean())
        if stage.stage > 1:
            assert stage.old_accuracy == pytest.approx(right[task < stage.stage].mean())
    assert metrics.stages[0].old_accuracy is None


def test_tasks_and_forgetting_are_those_of_the_scores(fake: FakeSeed, metrics: SeedMetrics):
    scores = fake.answers.task_scores()
    last = metrics.stages[-1]
    assert last.task_correct == tuple(scores.correct[-1])
    assert metrics.stages[1].task_total == (120, 120)
    assert last.forgetting == metrics.headline["forgetting"] == scores.forgetting()
    assert metrics.headline["final_average_accuracy"] == scores.final_average_accuracy()
    assert np.array(metrics.task_confusion).sum() == len(fake.answers.labels)


def test_bytes_and_seconds_are_added_up_over_devices(fake: FakeSeed, metrics: SeedMetrics):
    for record, stage in zip(fake.records, metrics.stages, strict=True):
        up = [device.bytes_up for device in record.devices.values()]
        assert stage.bytes_up.total == sum(up)
        assert stage.bytes_up.mean == pytest.approx(sum(up) / len(up))
        assert stage.bytes_up.highest == max(up)
        assert stage.devices == len(up)
    everything = sum(d.bytes_up for record in fake.records for d in record.devices.values())
    assert metrics.headline["bytes_up"] == everything
    assert sum(device.bytes_up for device in metrics.devices) == everything
    assert metrics.headline["wall_seconds"] == pytest.approx(
        sum(record.seconds["total"] + record.seconds["evaluation"] for record in fake.records)
    )


def test_answers_are_those_of_rounds_or_of_devices_that_spoke_and_have_a_pace(
    fake: FakeSeed, metrics: SeedMetrics
):
    spoke = [
        sum(device.answered_seconds is not None for device in record.devices.values())
        for record in fake.records
    ]
    assert [stage.answers for stage in metrics.stages] == spoke
    seconds = sum(record.seconds["total"] for record in fake.records)
    assert metrics.headline["answers_per_second"] == pytest.approx(sum(spoke) / seconds)
    in_rounds = fake_seed(Shape(stages=2, rounds=3), seed=7)
    assert [record.answers for record in in_rounds.records] == [
        sum(told.counted for told in record.rounds) for record in in_rounds.records
    ]


def test_stages_without_time_or_without_a_fleet_have_no_pace(fake: FakeSeed):
    untimed = [record.model_copy(update={"seconds": {"total": 0.0}}) for record in fake.records]
    assert [record.answers_per_second for record in untimed] == [None] * 4
    assert "answers_per_second" not in measure_seed(untimed, fake.answers, fake.counts).headline
    alone = fake_seed(Shape(stages=1, rounds=3), seed=7).records[0]
    silent = {
        name: device.model_copy(update={"answered_seconds": None})
        for name, device in alone.devices.items()
    }
    assert alone.model_copy(update={"devices": silent}).answers == 0


def test_stored_samples_are_those_at_the_end(fake: FakeSeed, metrics: SeedMetrics):
    last = fake.records[-1].devices.values()
    assert metrics.headline["stored_samples"] == sum(device.stored_samples for device in last)


def test_a_device_is_followed_from_joining_on(fake: FakeSeed, metrics: SeedMetrics):
    assert [device.joined for device in metrics.devices] == [1] * 6 + [2] * 2 + [3] * 2 + [4] * 2
    late = metrics.devices[-1]
    assert (late.device, late.stages, late.group) == ("device-12", 1, "joined")
    share = fake.plan.stages[3].devices[late.device]
    assert late.samples == len(share.indices)
    assert late.classes == len(set(fake.train_labels[share.indices]))


def test_the_worst_device_is_the_one_whose_classes_are_learned_worst(
    fake: FakeSeed, metrics: SeedMetrics
):
    right = fake.answers.predictions[-1] == fake.answers.labels
    by_class = [right[fake.answers.labels == label].mean() for label in range(12)]
    own = []
    for device in fake.plan.devices:
        held = [
            by_class[fake.train_labels[index]]
            for stage in fake.plan.stages
            if device in stage.devices
            for index in stage.devices[device].indices
        ]
        own += [np.mean(held)] if held else []
    assert metrics.headline["worst_device_accuracy"] == pytest.approx(min(own))
    assert metrics.headline["device_accuracy"] == pytest.approx(np.mean(own))
    assert metrics.headline["device_accuracy_deviation"] == pytest.approx(np.std(own))


def test_detection_counts_every_device_that_is_online_once(metrics: SeedMetrics):
    assert metrics.stages[0].detection == ()
    for stage in metrics.stages[1:]:
        entropy, names = stage.detection
        assert entropy.with_new + entropy.without_new == stage.online
        assert 0 < entropy.noticed <= entropy.with_new
        assert len(entropy.delay_images) == entropy.noticed
        assert names.noticed == 0
    assert 0 < metrics.headline["detection_missed"] < 1
    assert metrics.headline["detection_delay_images"] >= 50


def test_numbers_that_nothing_was_measured_for_are_left_out():
    metrics = fake_seed(Shape(stages=1), seed=1).metrics
    assert "old_accuracy" not in metrics.headline
    assert "detection_missed" not in metrics.headline
    assert metrics.headline["forgetting"] == 0


def test_every_headline_is_told_apart_and_explained():
    known = [metric_of(name) for name in METRICS]
    assert all(metric.name == name for metric, name in zip(known, METRICS, strict=True))
    assert len({metric.title for metric in known}) == len(known)
    assert all(metric.meaning.endswith(".") for metric in known)


def test_a_metric_of_ones_own_is_measured_from_answers_and_plan():
    def mine(answers, plan):
        """Share of test samples of the first class, and devices."""
        return {"first": float((answers.labels == 0).mean()), "devices": len(plan.devices)}

    fake = fake_seed(Shape(stages=3, devices=4), seed=1)
    with nothing_stays(METRICS):
        assert fl.metric("mine", unit="share", better="lower")(mine) is mine
        fl.metric("stages")(lambda answers, _plan: answers.stages)
        fl.metric("unknown")(lambda _answers, _plan: None)
        metrics, meaning = fake.metrics, metric_of("mine").meaning
        part = metric_of("mine_first")
    found = {name: metrics.headline[name] for name in list(metrics.headline)[-3:]}
    first = sum(label == 0 for label in fake.answers.labels) / len(fake.answers.labels)
    assert found == {"mine_first": first, "mine_devices": 4.0, "stages": 3.0}
    assert meaning == "Share of test samples of the first class, and devices."
    assert (part.title, part.unit, part.better) == ("mine first", "share", "lower")
    assert metric_of("mine_first").unit == "number"


def test_a_metric_that_is_no_function_or_has_another_unit_is_refused():
    with pytest.raises(RegistryError, match="metric: 'mine' is 3; give a function"):
        fl.metric("mine")(3)
    with pytest.raises(RegistryError, match="the unit 'percent', 'higher' is better; units are"):
        fl.metric("mine", unit="percent")(len)


@pytest.mark.parametrize("value", [float("nan"), "many", [1, 2]])
def test_a_metric_that_returns_no_number_is_named(value):
    with (
        added(METRICS, "mine", lambda _answers, _plan: value),
        pytest.raises(MetricsError, match="metric mine"),
    ):
        _ = fake_seed(Shape(), seed=1).metrics


def test_a_run_that_is_not_done_is_measured_as_far_as_it_came(fake: FakeSeed):
    answers = replace(fake.answers, predictions=fake.answers.predictions[:2])
    metrics = measure_seed(fake.records[:2], answers, fake.counts)
    assert len(metrics.stages) == 2
    assert metrics.devices[-1].joined == 2
    assert len(metrics.distribution.class_names) == 6


def test_what_does_not_belong_together_is_refused(fake: FakeSeed):
    with pytest.raises(MetricsError, match="stages: records of"):
        measure_seed(fake.records[:3], fake.answers, fake.counts)
    other = fake_seed(replace(SHAPE, joining=0, devices=3), seed=7)
    with pytest.raises(MetricsError, match="not in the plan"):
        measure_seed(fake.records, fake.answers, other.counts)
    more = fake_seed(replace(SHAPE, classes_per_stage=4), seed=7)
    with pytest.raises(MetricsError, match="classes: 12 in the answers, 16 in the plan"):
        measure_seed(fake.records, fake.answers, more.counts)
    empty = fake.records[0].model_copy(update={"devices": {}})
    with pytest.raises(MetricsError, match="no device"):
        measure_seed((empty, *fake.records[1:]), fake.answers, fake.counts)

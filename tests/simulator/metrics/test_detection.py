"""Delays, misses and false alarms, on a stage made by hand."""

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.stage_measurement import detect
from fleetledger.simulator.records import DeviceRecord, StageRecord, TransitionRecord
from tests.simulator.fake_run import Shape, fake_seed

ONE, TWO, THREE, FOUR, AWAY = (DeviceId(f"device-{number}") for number in range(1, 6))


def stage(*transitions: TransitionRecord, number: int = 2) -> StageRecord:
    devices = {
        device: DeviceRecord(group="new", online=device != AWAY)
        for device in (ONE, TWO, THREE, FOUR, AWAY)
    }
    record = fake_seed(Shape(stages=2), seed=1).records[1]
    return record.model_copy(
        update={"stage": number, "devices": devices, "transitions": transitions}
    )


def report(device: DeviceId, images: int, *, is_new: bool = True, why="entropy"):
    return TransitionRecord(
        device=device, why=why, seconds=images / 10, is_new=is_new, images=images
    )


def test_a_device_that_reports_has_noticed_with_the_delay_of_its_first_right_report():
    record = stage(report(ONE, 200), report(ONE, 100), report(ONE, 50, is_new=False))
    entropy, _ = detect(record, {ONE, TWO})
    assert (entropy.with_new, entropy.noticed) == (2, 1)
    assert entropy.delay_images == (100,)
    assert entropy.delay_seconds == (10.0,)
    assert entropy.false_alarms == 1


def test_devices_without_new_classes_that_report_are_alarmed():
    record = stage(
        report(THREE, 50, is_new=False), report(THREE, 90, is_new=False), report(ONE, 50)
    )
    entropy, _ = detect(record, {ONE, TWO})
    assert (entropy.without_new, entropy.alarmed, entropy.false_alarms) == (2, 1, 2)


def test_devices_that_are_away_are_neither():
    entropy, _ = detect(stage(), {ONE, AWAY})
    assert (entropy.with_new, entropy.without_new) == (1, 3)


def test_names_and_doubts_are_kept_apart():
    entropy, names = detect(stage(report(ONE, 5, why="class name")), {ONE})
    assert (entropy.why, entropy.noticed) == ("entropy", 0)
    assert (names.why, names.noticed) == ("class name", 1)


def test_nobody_can_notice_the_first_stage():
    assert detect(stage(report(ONE, 5), number=1), {ONE}) == ()

"""What looks of devices are taken for, on a stage made by hand."""

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.metrics.novelty_outcomes import judged, noticing
from fleetledger.simulator.metrics.seed_metrics import Noticing, StageMetrics
from fleetledger.simulator.records import NoveltyCheckRecord
from tests.simulator.fake_run import Shape, fake_seed

ONE, TWO, THREE = (DeviceId(f"device-{number}") for number in (1, 2, 10))


def stage(given_new: tuple[DeviceId, ...], number: int = 2, **rounds: str) -> StageMetrics:
    """Return a stage in which devices look once a round; a `t` is a transition."""
    looks = tuple(
        NoveltyCheckRecord(
            device=device, round=place, entropy=1.0, images=5, transition=letter == "t"
        )
        for device, letters in zip((ONE, TWO, THREE), rounds.values(), strict=False)
        for place, letter in enumerate(letters, start=1)
    )
    made = fake_seed(Shape(stages=2), seed=1).metrics.stages[number - 1]
    return made.model_copy(update={"given_new": given_new, "novelty_checks": looks})


def verdicts(stage: StageMetrics) -> dict[DeviceId, list[str]]:
    found: dict[DeviceId, list[str]] = {}
    for item in judged(stage):
        found.setdefault(item.look.device, []).append(item.verdict)
    return found


def test_a_new_task_is_noticed_at_the_first_look_later_or_never():
    made = stage((ONE, TWO, THREE), one="t--", two="--t", three="---")
    assert verdicts(made) == {
        ONE: ["at once", "", ""],
        TWO: ["", "", "late"],
        THREE: ["missed", "", ""],
    }


def test_a_transition_without_a_task_or_a_second_one_is_a_false_alarm():
    made = stage((ONE,), one="tt-", two="-t-")
    assert verdicts(made) == {
        ONE: ["at once", "false alarm", ""],
        TWO: ["", "false alarm", ""],
    }


def test_the_first_stage_is_not_judged():
    first = stage((ONE, TWO), number=1, one="t", two="-")
    assert verdicts(first) == {ONE: [""], TWO: [""]}
    assert all(item.began == 0 for item in noticing((first,)))


def test_devices_are_counted_over_stages_in_the_order_of_their_numbers():
    stages = (
        stage((ONE, TWO), number=1, one="t-", two="t-", three="t-"),
        stage((ONE, THREE), one="t-", two="t-", three="-t"),
    )
    assert noticing(stages) == (
        Noticing(device=ONE, began=1, at_once=1, late=0, missed=0, false_alarms=0),
        Noticing(device=TWO, began=0, at_once=0, late=0, missed=0, false_alarms=1),
        Noticing(device=THREE, began=1, at_once=0, late=1, missed=0, false_alarms=0),
    )


def test_a_device_that_never_looked_has_missed_its_task():
    made = stage((ONE, TWO), one="t-")
    assert [item.missed for item in noticing((made,))] == [0, 1]


def test_methods_whose_devices_do_not_look_tell_nothing():
    assert noticing(fake_seed(Shape(stages=2), seed=1).metrics.stages) == ()


def test_only_devices_that_were_online_are_given_a_task():
    fake = fake_seed(Shape(stages=3, looks=True, rounds=2, offline=0.4), seed=3)
    for record, metrics in zip(fake.records, fake.metrics.stages, strict=True):
        assert all(record.devices[device].online for device in metrics.given_new)
        assert all(record.devices[device].arrived_samples for device in metrics.given_new)


def test_headline_numbers_tell_what_was_missed_and_what_went_to_the_proxy():
    found = fake_seed(Shape(stages=3, rounds=4, looks=True), seed=1).metrics.headline
    # Five devices, two later stages of four rounds: 4 of 10 missed, 2 of 40 looks false alarms.
    assert found["tasks_missed"] == 0.4
    assert found["novelty_checks_false_alarms"] == 0.05
    assert found["gradients_beside_weights"] == 0.006


def test_they_are_left_out_where_nobody_looks_and_there_is_no_proxy():
    found = fake_seed(Shape(stages=2), seed=1).metrics.headline
    assert not found.keys() & {
        "tasks_missed",
        "novelty_checks_false_alarms",
        "gradients_beside_weights",
    }

"""Fleets that learn a class for every pixel: through the real rules, round by round, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.paths import blob_folder
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.interface import Prepared
from fleetledger.simulator.records import StageRecord
from tests.simulator.rounds.scenes import SETTINGS, finding
from tests.simulator.rounds.small import Watching, learn, prepared

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("own_cache")]


@pytest.fixture(scope="module")
def what() -> Prepared:
    return prepared(finding())


@pytest.fixture(scope="module")
def ended(what: Prepared, tmp_path_factory: pytest.TempPathFactory) -> list[StageRecord]:
    return learn(what, tmp_path_factory.mktemp("scenes") / "seed-1")[0]


def test_two_tasks_are_learned_by_devices_that_hold_scenes_of_them(
    ended: list[StageRecord],
) -> None:
    first, second = ended
    assert (first.class_names, second.class_names) == (("0", "1"), ("2", "3"))
    assert second.model_classes == ("0", "1", "2", "3")
    assert {device.group for device in second.devices.values()} == {"old", "new", "joined"}
    for record in ended:
        assert [item.asked for item in record.rounds] == [2, 2]
        assert all(item.counted and item.loss is not None for item in record.rounds)
        for device in record.devices.values():
            assert bool(device.arrived_samples) == (device.group != "old")


def test_devices_without_scenes_of_the_task_look_at_those_they_have_and_train_nothing(
    ended: list[StageRecord],
) -> None:
    old = {name for name, device in ended[1].devices.items() if device.group == "old"}
    assert old
    assert old <= {look.device for look in ended[1].novelty_checks}
    assert all(ended[1].devices[name].counted_samples == 0 for name in old)


def test_weights_that_know_the_first_task_are_its_model_and_have_no_rounds(
    what: Prepared, tmp_path: Path
) -> None:
    before, first = tmp_path / "before", tmp_path / "first.safetensors"
    learned = learn(what, before)[0][0]
    first.write_bytes(BlobStore(blob_folder(before / "coordinator")).get(learned.head))
    method = {"first_weights": str(first), "settings": {**SETTINGS, "base": "central"}}
    begun, second = learn(prepared(finding(method=method)), tmp_path / "seed-1")[0]
    assert (begun.head, begun.rounds) == (learned.head, ())
    assert [item.asked for item in second.rounds] == [2, 2]
    assert sum(look.transition for look in second.novelty_checks) >= 2, "who has the task sees it"


class PowerCutError(Exception):
    """The process is gone."""


def stop_after(number: int) -> Watching:
    """Return somebody who ends the process when so many rounds have ended."""
    left = [number]

    def on_round(_: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise PowerCutError

    return Watching(on_round)


def test_a_run_that_ends_in_the_middle_of_a_task_goes_on_to_the_same(
    what: Prepared, ended: list[StageRecord], tmp_path: Path
) -> None:
    engine = InProcessEngine(what, tmp_path / "seed-1", stop_after(3))
    with pytest.raises(PowerCutError):
        [engine.learn(stage) for stage in what.plan.stages]
    engine.close()
    again = learn(what, tmp_path / "seed-1")[0]
    for one, two in zip(ended, again, strict=True):
        assert (one.aggregate, one.head) == (two.aggregate, two.head)
        assert [(r.number, r.accuracy, r.loss) for r in one.rounds] == [
            (r.number, r.accuracy, r.loss) for r in two.rounds
        ]
        assert set(one.novelty_checks) == set(
            two.novelty_checks
        )  # letters may come in another order

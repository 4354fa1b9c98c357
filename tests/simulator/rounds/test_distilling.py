"""A fleet that begins with a central first stage, shares images and trains in phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.rounds.entries import RoundOpened, WeightsAveraged
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from tests.simulator.engines.inprocess.light.both import Learned, learn, said
from tests.simulator.rounds.small import distilling, prepared

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learn(InProcessEngine, prepared(distilling()), tmp_path_factory.mktemp("timed"))


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learn(LightEngine, prepared(distilling()), tmp_path_factory.mktemp("light"))


def test_the_first_stage_is_a_model_without_a_round(timed: Learned) -> None:
    first = timed.records[0]
    assert (first.rounds, first.contributions) == ((), 0)
    assert {round_.stage for round_ in timed.bodies(RoundOpened)} == {2}
    (imported,) = timed.bodies(NetworkImported)
    assert first.model_classes == imported.class_names == first.class_names


def test_light_agents_come_to_the_same_entries_and_models(timed: Learned, light: Learned) -> None:
    assert said(light.ledger) == said(timed.ledger)
    assert light.models == timed.models


def test_a_round_is_one_record_with_the_accuracy_after_its_last_phase(timed: Learned) -> None:
    phases = [round_.phase for round_ in timed.bodies(RoundOpened)]
    assert phases == ["share", "train", "distil", "train", "distil"]
    averaged = timed.bodies(WeightsAveraged)
    rounds = timed.records[1].rounds
    assert [item.number for item in rounds] == [1, 2]
    assert [item.client_drift for item in rounds] == [averaged[n].client_drift for n in (2, 4)]
    accepted = timed.bodies(ContributionAccepted)
    answers = [body.part.round for body in accepted]
    trained = [answer for answer in answers if answer is not None and answer.number == 2]
    samples = sum(answer.samples for answer in trained)
    loss = sum(answer.loss * answer.samples for answer in trained) / samples
    assert rounds[0].loss == pytest.approx(loss)
    assert rounds[-1].accuracy is not None
    assert rounds[-1].accuracy > 0.5


def test_the_record_says_what_each_device_shared_and_sent_by_kind(timed: Learned) -> None:
    for name, device in timed.records[1].devices.items():
        own = [
            body.part
            for entry, body in timed.ledger
            if isinstance(body, ContributionAccepted) and entry.device == name
        ]
        assert device.shared_images == 2 * 2  # of two new classes
        for kind in ("images", "logits", "weights"):
            sent = [part.payload_bytes for part in own if part.payload_kind == kind]
            assert device.sent[kind] == sum(sent) > 0
        assert sum(device.sent.values()) < device.bytes_up
        assert sum(device.received.values()) < device.bytes_down
    assert timed.records[0].devices[DeviceId("device-1")].sent == {}


def test_bytes_of_light_agents_are_nearly_those_of_ones_that_act(
    timed: Learned, light: Learned
) -> None:
    for one, two in zip(timed.records, light.records, strict=True):
        for name, device in one.devices.items():
            assert two.devices[name].sent == device.sent
            assert two.devices[name].received == device.received
    last, of_light = timed.records[1].devices, light.records[1].devices
    for name, device in last.items():
        assert of_light[name].bytes_up == pytest.approx(device.bytes_up, rel=0.1)
        assert of_light[name].bytes_down == pytest.approx(device.bytes_down, rel=0.1)


def test_nothing_is_shared_where_the_images_are_made_by_both_sides(tmp_path: Path) -> None:
    settings = {"shared_set": "synthetic"}
    what = prepared(distilling(devices={"policy": {}}, method={"settings": settings}))
    learned = learn(InProcessEngine, what, tmp_path)
    assert learned.records[1].devices[DeviceId("device-1")].shared_images == 0
    kinds = {body.part.payload_kind for body in learned.bodies(ContributionAccepted)}
    assert kinds == {"logits", "weights"}


def test_both_kinds_of_agents_agree_however_norms_and_rows_are_treated(tmp_path: Path) -> None:
    settings = {
        "preset": "dcid-lucir",
        "network": "mlp",
        "imprint_at": "fleet",
        "distil_norm": "train",
        "running_statistics": "re-estimated",
    }
    what = prepared(distilling(method={"settings": settings}, rounds={"per_stage": 1}))
    one = learn(InProcessEngine, what, tmp_path / "timed")
    other = learn(LightEngine, what, tmp_path / "light")
    phases = [round_.phase for round_ in one.bodies(RoundOpened)]
    assert phases == ["share", "imprint", "train", "distil"]
    assert said(other.ledger) == said(one.ledger)
    assert other.models == one.models


def test_a_session_begins_without_the_files_of_the_one_before(tmp_path: Path) -> None:
    stages = {"classes": 6, "count": 3}
    learned = learn(LightEngine, prepared(distilling(stages=stages)), tmp_path)
    opened = learned.bodies(RoundOpened)
    named = {(round_.stage, round_.phase): set(round_.extras) for round_ in opened}
    for stage in (2, 3):
        assert named[stage, "share"] == set()
        assert named[stage, "train"] == {"shared", "old-model"}
        assert named[stage, "distil"] == {"shared", "old-model", "ensemble"}

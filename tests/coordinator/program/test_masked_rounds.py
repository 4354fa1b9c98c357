"""Rounds behind masks on a real ledger: the mean is that of the answers themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.coordinator.core.rules import PrivacyRules, RoundRules
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.rounds.entries import RoundClosed, WeightsAveraged
from fleetledger.learning.numerics.weights import WeightGrid
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.words import answer_words
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortOrder, MaskedCohort
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.presence import Welcome
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.core.round_bench import ABLE
from tests.coordinator.replay.stories import replay
from tests.coordinator.round_answers import answer, asked, weights
from tests.coordinator.shell_harness import RULES, MemoryCoordinator, ScriptedDevice, write_home
from tests.coordinator.topics.cohorts.cohort_bench import LED, Member

MASKS = PrivacyRules(masks=True, cohort=4, least=3, answer_seconds=0.5, keep_masked=True)
DEVICES = ("dev-1", "dev-2", "dev-3", "dev-4")
SAMPLES = (5, 4, 7, 3)


class RoundMember(Member):
    """A device that answers a round in a cohort."""

    def __init__(self, number: int, assignment: Assignment, payload: bytes, samples: int) -> None:
        super().__init__(number, LED)
        assert assignment.round is not None
        self.assignment, self.payload, self.samples = assignment, payload, samples
        self.lineage = assignment.lineage
        self.part = assignment.round.number - 1

    def vector(self, cohort: MaskedCohort | None = None) -> Any:
        own = training_coordinator("rounds").read_assignment(self.assignment.settings)
        return answer_words(own, self.payload, self.samples)  # type: ignore[arg-type]

    def answered(self, cohort: MaskedCohort) -> tuple[Contribution, bytes]:
        body, payload = self.words(cohort)
        number = self.part
        return body.model_copy(
            update={
                "method": "rounds",
                "round": RoundAnswer(number=number, samples=1, steps=1, seconds=0.1),
            }
        ), payload


class Fleet:
    """A coordinator that trains a network with four devices that speak by hand."""

    def __init__(self, home: Path, privacy: PrivacyRules, **settings: object) -> None:
        self.home, broker = home, InMemoryBroker()
        home.mkdir(parents=True)
        write_home(home, "rounds", network="mlp", **settings)
        rounds = RoundRules(per_stage=1, gather_seconds=0, retention="all", quorum=0.5)
        rules = RULES.model_copy(update={"privacy": privacy, "rounds": rounds})
        self.coordinator = MemoryCoordinator(home, broker, rules)
        self.devices = [ScriptedDevice(name, broker, self.coordinator) for name in DEVICES]
        for name, device in zip(DEVICES, self.devices, strict=True):
            self.coordinator.command(AdmitDevice(device=DeviceId(name)))
            device.born(ABLE)
            device.wait_for(Welcome)
        network = prepare_network(home, home / "pixels.json")
        self.coordinator.command(ImportNetwork(network=network))
        self.coordinator.open("circle", "square")
        self.assignment = asked(self.devices[0])
        sent, grid = weights(self.devices[0], self.assignment, home), None
        grid = WeightGrid.around(sent)
        self.payloads = [
            encode_tensors(grid.encode({n: a + np.float32(k / 8) for n, a in sent.items()}))
            for k in range(len(DEVICES))
        ]

    def members(self) -> list[RoundMember]:
        return [
            RoundMember(k + 1, self.assignment, payload, SAMPLES[k])
            for k, payload in enumerate(self.payloads)
        ]

    def plain(self) -> WeightsAveraged:
        """Answer without masks."""
        for k, device in enumerate(self.devices):
            round_answer = RoundAnswer(number=1, samples=SAMPLES[k], steps=1, seconds=0.1)
            samples = {ClassName("circle"): SAMPLES[k]}
            body = answer(self.assignment, self.payloads[k], samples=samples, round=round_answer)
            device.send(body, self.payloads[k])
            assert isinstance(device.wait_for(Receipt).answer, Accepted)
        return self.averaged()

    def masked(self, silent: int = 0) -> WeightsAveraged:
        """Answer in a cohort, in which the last ones give nothing."""
        members = self.members()
        for member, device in zip(members, self.devices, strict=True):
            self.say(device, member.join(round=1, part=1))
        present = list(zip(members, self.devices, strict=True))[: len(members) - silent]
        for member, device in present:
            member.serve = device.exchange.serve
            body, _ = member.answered(self.order(device, "mask").cohort)
            receipt = self.say(device, body)
            assert isinstance(receipt.answer, Accepted), receipt
        if silent:
            for member, device in present:
                self.say(device, member.seeds(self.order(device, "silent")))
        for member, device in present:
            self.say(device, member.shares(self.order(device, "opening")))
        return self.averaged()

    def averaged(self) -> WeightsAveraged:
        self.coordinator.until(lambda: WeightsAveraged.kind in self.coordinator.kinds())
        (found,) = self.coordinator.engine.ledger.find(WeightsAveraged)
        return WeightsAveraged.model_validate(found.body)

    def order(self, device: ScriptedDevice, step: str) -> CohortOrder:
        def found() -> CohortOrder | None:
            device._drain()
            told = [e.read(Assignment) for e in device.received if e.header.kind == Assignment.kind]
            orders = [one.cohort for one in told if one.cohort is not None]
            return next((one for one in reversed(orders) if one.step == step), None)

        order = self.coordinator.until(found)
        assert isinstance(order, CohortOrder)
        return order

    def say(self, device: ScriptedDevice, body: Any, payload: bytes = b"") -> Receipt:
        device._drain()
        count = sum(e.header.kind == Receipt.kind for e in device.received)
        device.send(body, payload)
        return device.wait_for(Receipt, count + 1)

    def close(self) -> None:
        for device in self.devices:
            device.close()
        self.coordinator.close()


@pytest.mark.parametrize("averaging", ["plain", "samples"])
def test_the_mean_behind_masks_is_that_of_the_answers_themselves(
    tmp_path: Path, averaging: str
) -> None:
    masked = Fleet(tmp_path / "masked", MASKS, averaging=averaging)
    plain = Fleet(tmp_path / "plain", PrivacyRules(), averaging=averaging)
    try:
        made, expected = masked.masked(), plain.plain()
        assert (made.aggregate, made.weights) == (expected.aggregate, expected.weights)
        assert len(made.inputs) == 1, "the sum of a cohort is one answer"
    finally:
        masked.close()
        plain.close()


def test_who_gives_nothing_is_in_no_mean_and_a_replay_makes_the_same(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", MASKS)
    try:
        made = fleet.masked(silent=1)
        (closed,) = fleet.coordinator.engine.ledger.find(RoundClosed)
        assert closed.body["missing"] == ["dev-4"]
        assert made.samples == sum(SAMPLES[:3])
        fleet.coordinator.until(lambda: "model.exported" in fleet.coordinator.kinds())
    finally:
        fleet.close()
    _, said = replay(tmp_path / "fleet", "--all")
    assert "sum of cohort 1" in said
    assert "round 1, phase train" in said
    assert "differs" not in said


def test_an_answer_without_masks_is_refused(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", MASKS)
    try:
        body = answer(fleet.assignment, fleet.payloads[0])
        refused = fleet.say(fleet.devices[0], body, fleet.payloads[0]).answer
        assert isinstance(refused, Refused)
        assert "summed behind masks, so join a cohort" in refused.reason
    finally:
        fleet.close()

"""Two installations under one name: what the device gave is frozen until the operator chooses."""

from __future__ import annotations

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.requests import (
    AnnounceCoordinator,
    Request,
    SendToDevice,
    TellOperator,
)
from fleetledger.coordinator.core.rules import IntakeRules, Rules
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    ContributionWithdrawn,
)
from fleetledger.coordinator.topics.devices.commands import AdmitDevice, SettleTwins
from fleetledger.coordinator.topics.devices.entries import DeviceDoubled, DeviceSettled
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Birth, Death, Heartbeat, Welcome
from fleetledger.schemas.receipts import Accepted, Later, Refused
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.values import BootId, DeviceId, Digest
from tests.coordinator.core.harness import CAPABLE, FLEET, Bench, contribution, receipt, sent

CAMERA = DeviceId("camera-1")
ONE, OTHER = BootId("1" * 16), BootId("2" * 16)
BEAT = Heartbeat(
    welcomed=True,
    outbox_length=0,
    waiting_images=0,
    resident_bytes=0,
    bytes_up=0,
    bytes_down=0,
)


class Air:
    """A coordinator whose births are heard by whoever speaks next, as over a broker."""

    def __init__(self, **intake: float) -> None:
        self.bench = Bench(Rules(intake=IntakeRules(**intake)))
        self.bench.begin()
        self.bench.command(AdmitDevice(device=CAMERA))
        self.newest: Digest | None = None
        self.carry(self.bench.handle(inputs.CoordinatorConnected()))

    def carry(self, requests: list[Request]) -> list[Request]:
        for request in requests:
            if isinstance(request, AnnounceCoordinator):
                live = self.bench.core.live
                self.newest = Digest.of(f"birth {live.announcements}".encode())
                live.announce(self.newest)
        return requests

    def entries(self, kind: type) -> list:
        return [body for body, _, _ in self.bench.entries if isinstance(body, kind)]


class Machine:
    """An installation that can be started, and that speaks."""

    def __init__(self, air: Air, installation: BootId, formers: tuple[BootId, ...] = ()) -> None:
        self.air, self.installation, self.formers = air, installation, formers
        self.sender = Sender(FLEET, CAMERA, BootId.fresh())

    @property
    def boot(self) -> BootId:
        return self.sender.boot

    def copy(self) -> Machine:
        """Start a copy of this one's files, as they are now."""
        return Machine(self.air, self.installation, (self.boot, *self.formers)[:20])

    restarted = copy

    def say(self, body: Message) -> list[Request]:
        return self.repeat(self.sender.seal(body, sent_ms=0, refers_to=self.air.newest))

    def repeat(self, envelope) -> list[Request]:
        message = inputs.DeviceMessage(CAMERA, envelope)
        return self.air.carry(self.air.bench.handle(message))

    def birth(self) -> Birth:
        return Birth(installation=self.installation, capabilities=CAPABLE, formers=self.formers)

    def lives(self) -> list[Request]:
        """Connect: a birth, and what follows the answer to it."""
        return [*self.say(self.birth()), *self.say(BEAT)]

    def give(self, payload: str, part: int = 0):
        body = contribution(payload, part=part)
        requests = self.say(body)
        if not sent(requests, Problem) and not any(
            isinstance(item, SendToDevice) and item.leaf == "rcpt" for item in requests
        ):
            requests = self.air.bench.handle(inputs.PayloadOutcome(CAMERA, body))
        return receipt(requests).answer


def doubled() -> tuple[Air, Machine, Machine]:
    """A camera that gave a part, and a copy of it, both alive and found."""
    air = Air()
    camera = Machine(air, ONE)
    camera.lives()
    assert isinstance(camera.give("a"), Accepted)
    clone = camera.copy()
    clone.lives()
    camera.lives()
    assert len(air.entries(DeviceDoubled)) == 1
    return air, camera, clone


def test_a_copy_of_an_installation_is_found_when_the_original_speaks_again() -> None:
    air, camera, clone = doubled()
    (found,) = air.entries(DeviceDoubled)
    assert set(found.runs) == {camera.boot, clone.boot}
    assert found.installations == (ONE, ONE)


def test_a_birth_that_comes_after_that_of_the_next_run_ends_nothing() -> None:
    air = Air()
    camera = Machine(air, ONE)
    camera.lives()
    again = camera.restarted()
    late = camera.sender.seal(camera.birth(), sent_ms=0)
    air.newest = None  # the coordinator that both have heard is gone
    again.say(again.birth())
    camera.repeat(late)
    assert air.bench.core.state.devices.admitted[CAMERA].boot == again.boot
    air.carry(air.bench.handle(inputs.CoordinatorConnected()))
    again.lives()
    assert air.entries(DeviceDoubled) == []
    assert isinstance(again.give("a"), Accepted)


def test_the_runs_before_are_known_after_a_start_of_the_coordinator() -> None:
    air = Air()
    camera = Machine(air, ONE)
    late = camera.sender.seal(camera.birth(), sent_ms=0)  # the broker keeps it meanwhile
    again = camera.restarted()
    again.lives()
    air.bench.restart()
    camera.repeat(late)
    assert air.bench.core.state.devices.admitted[CAMERA].boot == again.boot


def test_who_is_alive_after_all_is_heard_once_asked() -> None:
    air = Air()
    camera = Machine(air, ONE)
    camera.lives()
    clone = camera.copy()
    clone.say(clone.birth())  # and is never heard of again
    assert not sent(camera.say(camera.birth()), Welcome)  # it may have come late
    camera.say(BEAT.model_copy(update={"welcomed": False}))  # who is there is asked to say so
    assert sent(camera.say(camera.birth()), Welcome)
    assert air.bench.core.state.devices.admitted[CAMERA].boot == camera.boot


def test_it_is_told_to_the_operator_and_to_both() -> None:
    air = Air()
    camera = Machine(air, ONE)
    camera.lives()
    clone = camera.copy()
    clone.lives()
    requests = camera.lives()
    (told,) = [item.text for item in requests if isinstance(item, TellOperator)]
    assert "coordinator settle camera-1 --installation" in told
    for machine, other in ((camera, clone), (clone, camera)):
        texts = {one.run: one.text for one in sent(machine.say(machine.birth()), Problem)}
        assert texts.keys() == {machine.boot, other.boot}, "each run is told what concerns it"
        assert f"this one is {machine.boot}, the other {other.boot}" in texts[machine.boot]


def test_nothing_is_withdrawn_and_nothing_added_until_the_operator_has_chosen() -> None:
    air, camera, clone = doubled()
    before = dict(air.bench.core.state.contributions.counted)
    key = PartKey(stage=1, part=0)
    for machine in (camera, clone):
        machine.lives()
        assert isinstance(machine.give("b", part=1), Later)
        withdrawal = machine.say(Withdrawal(key=key, revision=1, reason="not mine"))
        assert isinstance(receipt(withdrawal).answer, Later)
    assert air.bench.core.state.contributions.counted == before
    assert air.entries(ContributionWithdrawn) == []


def test_a_payload_that_was_on_its_way_waits_too() -> None:
    air, _camera, _ = doubled()
    stored = inputs.PayloadOutcome(CAMERA, contribution("b", part=1))
    assert isinstance(receipt(air.bench.handle(stored)).answer, Later)
    assert len(air.entries(ContributionAccepted)) == 1


def settle(air: Air, name: BootId):
    return air.bench.command(SettleTwins(device=CAMERA, installation=name))


def test_the_one_that_the_operator_chose_goes_on_and_the_other_is_told() -> None:
    for chosen in (0, 1):
        air, *machines = doubled()
        kept, other = machines[chosen], machines[1 - chosen]
        assert settle(air, kept.boot).done
        assert air.entries(DeviceSettled)[0].shut_out == other.boot
        assert isinstance(kept.give("b", part=1), Accepted)
        assert isinstance(other.give("c", part=2), Later)
        (problem,) = sent(other.say(other.birth()), Problem)
        assert "its images stay here" in problem.text
        assert isinstance(kept.give("d", part=3), Accepted)


def test_restarts_of_both_are_known_before_and_after_the_decision() -> None:
    air, camera, clone = doubled()
    camera, clone = camera.restarted(), clone.restarted()
    camera.lives()
    clone.lives()
    assert isinstance(clone.give("b", part=1), Later)
    assert settle(air, clone.boot).done
    camera, clone = camera.restarted(), clone.restarted()
    camera.lives()
    clone.lives()
    assert isinstance(camera.give("b", part=1), Later)
    assert isinstance(clone.give("c", part=2), Accepted)
    assert len(air.entries(DeviceDoubled)) == 1


def test_a_decision_between_one_installation_is_refused() -> None:
    air = Air()
    camera = Machine(air, ONE)
    camera.lives()
    assert "has no two installations" in settle(air, camera.boot).text
    air, camera, clone = doubled()
    answer = settle(air, BootId("f" * 16))
    assert not answer.done
    assert camera.boot in answer.text
    assert clone.boot in answer.text


def test_two_cards_that_are_started_in_turn_are_found_though_no_run_returns() -> None:
    air = Air()
    camera = Machine(air, ONE)
    camera.lives()
    clone = camera.copy()
    camera = camera.restarted()
    camera.lives()
    clone.lives()
    assert air.entries(DeviceDoubled) == []
    camera.restarted().lives()
    (found,) = air.entries(DeviceDoubled)
    assert found.installations == (ONE, ONE)


def test_two_installations_of_their_own_are_found_by_the_one_that_returns() -> None:
    air = Air()
    camera, other = Machine(air, ONE), Machine(air, OTHER)
    camera.lives()
    other.lives()
    camera.lives()
    (found,) = air.entries(DeviceDoubled)
    assert found.installations == (ONE, OTHER)
    assert settle(air, OTHER).done
    assert isinstance(other.give("a"), Accepted)


def test_what_another_installation_gives_waits_while_the_former_one_may_come_back() -> None:
    air = Air(replacement_seconds=150)
    camera, other = Machine(air, ONE), Machine(air, OTHER)
    camera.lives()
    camera.give("a")
    other.lives()
    withdrawal = Withdrawal(key=PartKey(stage=1, part=0), revision=1, reason="not mine")
    assert isinstance(receipt(other.say(withdrawal)).answer, Later)
    air.bench.wait(151)
    assert isinstance(receipt(other.say(withdrawal)).answer, Refused)


def test_restarts_and_a_reinstallation_are_no_second_machine() -> None:
    air = Air()
    camera = Machine(air, ONE)
    for _ in range(30):
        camera.lives()
        camera = camera.restarted()
    other = Machine(air, OTHER)
    for _ in range(3):
        other.lives()
        other = other.restarted()
    assert air.entries(DeviceDoubled) == []


def test_late_messages_of_a_former_run_are_no_second_machine() -> None:
    """Late, twice, retained by the broker, or its will: none of it shows that the run is alive."""
    air = Air()
    camera = Machine(air, ONE)
    sealed = [
        camera.sender.seal(body, sent_ms=0, refers_to=air.newest)
        for body in (camera.birth(), BEAT, camera.birth(), BEAT, Death(), camera.birth(), BEAT)
    ]
    for envelope in sealed[:2]:
        camera.repeat(envelope)
    later = camera.restarted()
    later.lives()
    for envelope in (*sealed, *reversed(sealed)):
        camera.repeat(envelope)
        later.say(BEAT)
    assert air.entries(DeviceDoubled) == []
    assert isinstance(later.give("a"), Accepted)


def test_a_birth_that_comes_after_that_of_a_later_run_is_no_second_machine() -> None:
    air = Air()
    camera = Machine(air, ONE)
    late = [camera.sender.seal(body, sent_ms=0) for body in (camera.birth(), BEAT)]
    later = camera.restarted()
    later.lives()
    camera.repeat(late[0])
    later.lives()
    later.restarted().lives()
    camera.repeat(late[0])
    assert air.entries(DeviceDoubled) == []


def test_what_was_said_to_the_coordinator_before_is_no_second_machine() -> None:
    """A broker gives again what was not acknowledged, also what a welcome was followed by."""
    air = Air()
    camera = Machine(air, ONE)
    before = [
        camera.sender.seal(body, sent_ms=0, refers_to=Digest.of(b"an earlier coordinator"))
        for body in (camera.birth(), BEAT)
    ]
    other = Machine(air, OTHER)
    other.lives()
    for envelope in before:
        camera.repeat(envelope)
    other.lives()
    assert air.entries(DeviceDoubled) == []


def test_a_coordinator_that_starts_anew_finds_them_too() -> None:
    air, _, _ = doubled()
    again = Air()
    camera = Machine(again, ONE)
    camera.lives()
    clone = camera.copy()
    clone.lives()
    again.bench.core.live.devices.clear()  # what is known only while it runs
    camera.lives()
    clone.lives()
    assert len(again.entries(DeviceDoubled)) == 1
    air.bench.core.live.devices.clear()
    assert air.bench.core.state.devices.admitted[CAMERA].doubled is not None

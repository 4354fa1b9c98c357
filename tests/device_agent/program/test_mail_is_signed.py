"""A device with keys signs its mail, and reads of the coordinator's only what is signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.program.mail import AgentMail, Signing, make_will
from fleetledger.runtime import shown_commands
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.shown_commands import ON_DEVICES
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.enrolment import Enrolled, Enrolment, device_key_name
from fleetledger.schemas.envelope import COORDINATOR, PROXY, Envelope, Sender, decode, encode
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.presence import CoordinatorBirth, CoordinatorDeath, Heartbeat, Welcome
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.topics import FleetTopics, Topic
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from fleetledger.transport.interface import IncomingMessage
from fleetledger.transport.memory import InMemoryBroker
from tests.schemas.examples import EXAMPLES

FLEET, CRANE = FleetId("harbour"), DeviceId("crane-7")
TOPICS, BRANCH = FleetTopics(FLEET), FleetTopics(FLEET, "proxy")
KEY, WAITING = (SigningKey.fresh(device_key_name(FLEET, CRANE)) for _ in range(2))
LEADER, STRANGER = (SigningKey.fresh(KeyName("harbour/coordinator")) for _ in range(2))
BOOT = BootId("0123456789abcdef")
SAID: dict[str, tuple[type[Message], Topic]] = {
    "birth": (CoordinatorBirth, TOPICS.coordinator_state),
    "death": (CoordinatorDeath, TOPICS.coordinator_state),
    "welcome": (Welcome, TOPICS.down(CRANE, "ctl")),
    "enrolled": (Enrolled, TOPICS.down(CRANE, "ctl")),
    "desired": (DesiredModel, TOPICS.down(CRANE, "desired")),
    "receipt": (Receipt, TOPICS.down(CRANE, "rcpt")),
}


class Post:
    """A device's mail, and what the broker has of it."""

    def __init__(self) -> None:
        broker = InMemoryBroker()
        self._ear = broker.connection("listener")
        self._ear.subscribe("#")
        self._ear.start()
        control = broker.connection("crane-7.control")
        control.start()
        sender = Sender(FLEET, CRANE, BOOT, signer=KEY)
        signing = Signing(
            lambda body: WAITING if isinstance(body, Enrolment) else KEY, LEADER.verify_key
        )
        self.mail = AgentMail(control, TOPICS, CRANE, sender, signing=signing)

    def heard(self) -> tuple[str, Envelope]:
        while True:
            event = self._ear.next_event(5)
            assert event is not None
            if isinstance(event, IncomingMessage):
                return event.topic, decode(event.payload)

    def read(self, envelope: Envelope, topic: Topic) -> inputs.Input:
        return self.mail.read(IncomingMessage(topic, encode(envelope), 1, retained=False))


def sealed(
    body: Message, topic: Topic, key: SigningKey | None = LEADER, name: DeviceId = COORDINATOR
) -> Envelope:
    return Sender(FLEET, name, BOOT, signer=key).seal(body, sent_ms=0, topic=topic)


def example(kind: type[Message]) -> Message:
    return next(body for body in EXAMPLES if isinstance(body, kind))


@pytest.mark.parametrize("case", SAID)
def test_what_the_coordinator_signed_is_read_and_nothing_else(case: str) -> None:
    kind, topic = SAID[case]
    body, post = example(kind), Post()
    assert post.read(sealed(body, topic), topic) is not None
    with pytest.raises(SignatureError, match="is not signed; only what 'harbour/coordinator'"):
        post.read(sealed(body, topic, None), topic)
    with pytest.raises(SignatureError, match="is believed there"):
        post.read(sealed(body, topic, STRANGER), topic)
    elsewhere = TOPICS.down(DeviceId("lift-1"), "ctl")
    with pytest.raises(SignatureError, match="is not that of 'harbour/coordinator'"):
        post.read(sealed(body, elsewhere), topic)


def test_a_receipt_of_the_proxy_needs_no_signature_and_is_none_of_the_coordinators() -> None:
    post, topic = Post(), BRANCH.down(CRANE, "rcpt")
    accepted = example(Receipt).model_copy(update={"answer": Accepted(ledger_index=0)})
    gradients = accepted.model_copy(update={"about": "gradients"})
    assert isinstance(
        post.read(sealed(gradients, topic, None, PROXY), topic), inputs.ReceiptArrived
    )
    with pytest.raises(SchemaError, match="to whom none went"):
        post.read(sealed(accepted, topic, None, PROXY), topic)


def test_what_a_device_says_is_signed_for_its_topic() -> None:
    post = Post()
    for leaf, body in (("msg", Nothing(stage=1)), ("hb", example(Heartbeat))):
        post.mail.send(leaf, body)  # type: ignore[arg-type]
        topic, envelope = post.heard()
        assert topic == TOPICS.up(CRANE, leaf)  # type: ignore[arg-type]
        envelope.check_signature(KEY.verify_key, topic)


def test_an_enrolment_is_signed_by_the_key_that_waits() -> None:
    post = Post()
    post.mail.send("msg", Enrolment(key=WAITING.verify_key, mac=Digest.of(b"mac")))
    topic, envelope = post.heard()
    envelope.check_signature(WAITING.verify_key, topic)


def test_what_is_said_refers_to_the_birth_that_was_believed_last() -> None:
    post, topic = Post(), TOPICS.coordinator_state
    post.mail.send("msg", Nothing(stage=1))
    assert post.heard()[1].header.refers_to is None
    for size in (1, 2):
        birth = sealed(CoordinatorBirth(ledger_size=size), topic)
        event = post.read(birth, topic)
        assert isinstance(event, inputs.CoordinatorBorn)
        assert event.said == birth.message_id
        post.mail.refer_to(event.said, 1)
        post.mail.send("msg", Nothing(stage=1))
        assert post.heard()[1].header.refers_to == birth.message_id


def test_the_will_is_signed() -> None:
    will = make_will(TOPICS, CRANE, Sender(FLEET, CRANE, BOOT, signer=KEY))
    decode(will.payload).check_signature(KEY.verify_key, will.topic)


def test_commands_in_what_is_told_find_the_agents_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_commands, "_given", {})
    shown_commands.remember_home(ON_DEVICES, Path("/srv/crane"))
    post = Post()
    post.mail.send("msg", Problem(about="ledger", text="run `fleetledger agent forget --root`"))
    _, heard = post.heard()
    assert heard.read(Problem).text == "run `fleetledger agent forget --root --home /srv/crane`"

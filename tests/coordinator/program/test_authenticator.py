"""What of a device's messages reaches the rules, and what does not."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.core import inputs
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.program.authenticator import WIDTH, Authenticator, SequenceWindow
from fleetledger.coordinator.topics.devices.state import Device
from fleetledger.coordinator.topics.keys.state import DeviceKeys, Invitation
from fleetledger.coordinator.trust.invitations import Invitations
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.enrolment import (
    Enrolment,
    KeyRotation,
    approve,
    device_key_name,
    enrolment_mac,
)
from fleetledger.schemas.envelope import Envelope, Sender, encode
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Death
from fleetledger.schemas.token import Token
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId

FLEET, CRANE, LIFT = FleetId("harbour"), DeviceId("crane-7"), DeviceId("lift-1")
TOPICS = FleetTopics(FLEET)
NAME = device_key_name(FLEET, CRANE)
KEY, NEXT, THIEF = (SigningKey.fresh(NAME) for _ in range(3))
BOOT, EARLIER = BootId("00000000000000aa"), BootId("00000000000000bb")
COORDINATOR = SigningKey.fresh(KeyName("harbour/coordinator")).verify_key
TOKEN = Token.fresh(FLEET, CRANE, COORDINATOR, 10)
MESSAGE = Nothing(stage=1)
BIRTH = Digest.of(b"the coordinator's birth")


@dataclass
class Door:
    """A gate and the state that it looks at, both devices admitted and without keys."""

    require_keys: bool = False
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        self.state.devices.admitted = {CRANE: Device(0), LIFT: Device(1)}
        self.authenticator = Authenticator(
            TOPICS, lambda: self.state, self._secret, require_keys=self.require_keys
        )

        self.authenticator.born(BIRTH)

    @property
    def keys(self) -> DeviceKeys:
        return self.state.keys.by_device.setdefault(CRANE, DeviceKeys())

    def _secret(self, digest: str) -> bytes | None:
        return TOKEN.secret_bytes if digest == TOKEN.invitation else None

    def enrol(self) -> Door:
        self.keys.key = KEY.verify_key
        return self

    def invite(self) -> Door:
        self.keys.invitation = Invitation(TOKEN.invitation, TOKEN.expires_ns)
        return self

    def revoke(self) -> Door:
        self.state.keys.by_device[CRANE] = DeviceKeys(revoked=True)
        return self

    def take(
        self, envelope: Envelope, leaf: str = "msg", device: DeviceId = CRANE
    ) -> inputs.Input | None:
        topic = TOPICS.up(device, leaf)  # type: ignore[arg-type]
        return self.authenticator.authenticate(topic, encode(envelope))

    def authenticate_checked(self, envelope: Envelope, key: SigningKey) -> inputs.Input | None:
        """Take a message that another process has found to be signed by a key."""
        return self.authenticator.authenticate_checked(
            TOPICS.up(CRANE, "msg"), encode(envelope), key.verify_key
        )

    def refused(self, envelope: Envelope, device: DeviceId = CRANE, leaf: str = "msg") -> str:
        taken = self.take(envelope, leaf, device)
        assert isinstance(taken, inputs.MessageRefused), taken
        return taken.reason

    def passes(self, envelope: Envelope, leaf: str = "msg") -> bool:
        return isinstance(self.take(envelope, leaf), inputs.DeviceMessage)


def sealed(
    body: Message = MESSAGE,
    key: SigningKey | None = KEY,
    *,
    leaf: str = "msg",
    boot: BootId = BOOT,
    sequence: int = 0,
    sender: DeviceId = CRANE,
    birth: Digest | None = BIRTH,
) -> Envelope:
    topic = TOPICS.up(sender, leaf)  # type: ignore[arg-type]
    made = Sender(FLEET, sender, boot, sequence, key)
    return made.seal(body, sent_ms=0, refers_to=birth, topic=topic)


def enrolment(key: SigningKey = KEY, secret: bytes | None = None) -> Enrolment:
    mac = enrolment_mac(secret or TOKEN.secret_bytes, FLEET, CRANE, key.verify_key)
    return Enrolment(key=key.verify_key, mac=mac)


def rotation(former: SigningKey = KEY, key: SigningKey = NEXT) -> KeyRotation:
    approval = approve(former, FLEET, CRANE, key.verify_key)
    return KeyRotation(key=key.verify_key, approval=approval)


def test_a_fleet_without_keys_is_as_it_was() -> None:
    door = Door()
    assert door.take(sealed(key=None)) == inputs.DeviceMessage(CRANE, sealed(key=None))
    assert door.passes(sealed(key=None)), "the rules know repeats"


def test_of_a_device_with_a_key_only_what_it_signed_passes() -> None:
    door = Door().enrol()
    assert door.passes(sealed())
    assert "is not signed; only what 'harbour/device/crane-7'" in door.refused(sealed(key=None))
    assert "is believed there" in door.refused(sealed(key=THIEF))
    assert door.authenticator.refused == {CRANE: 2}


def test_each_leaf_is_guarded() -> None:
    door = Door().enrol()
    for leaf in ("state", "msg", "hb"):
        assert "is not signed" in door.refused(sealed(key=None), leaf=leaf)
        assert "is not that of" in door.refused(sealed(leaf="req"), leaf=leaf)
        assert door.passes(sealed(leaf=leaf), leaf=leaf)


def test_a_signed_message_is_nothing_on_the_topic_of_another_device() -> None:
    door = Door().enrol()
    assert "is none that is enrolled here for 'lift-1'" in door.refused(sealed(), LIFT)
    lift = SigningKey.fresh(device_key_name(FLEET, LIFT))
    door.state.keys.by_device[LIFT] = DeviceKeys(key=lift.verify_key)
    assert "is believed there" in door.refused(sealed(), LIFT)
    posing = sealed(key=lift, sender=LIFT)
    assert "is believed there" in door.refused(posing, CRANE)


def test_what_a_key_signs_in_another_name_is_refused() -> None:
    topic = TOPICS.up(CRANE, "msg")
    posing = Sender(FLEET, LIFT, BOOT, 0, KEY).seal(MESSAGE, sent_ms=0, topic=topic)
    assert Door().enrol().refused(posing) == (
        "sender: 'lift-1' sent on the topic of 'crane-7'; ignored"
    )


def test_a_signature_that_cannot_be_checked_is_refused() -> None:
    text = Door().refused(sealed())
    assert "is none that is enrolled here" in text
    assert "`fleetledger coordinator enrol crane-7`" in text


def test_nothing_of_a_revoked_device_passes() -> None:
    door = Door().enrol().revoke()
    for envelope in (sealed(), sealed(key=None), sealed(key=THIEF)):
        assert "key: that of 'crane-7' was revoked" in door.refused(envelope)
    assert "no token is open" in door.refused(sealed(enrolment()))
    assert "has none that could be rotated" in door.refused(sealed(rotation(), NEXT))


def test_a_fleet_that_requires_keys_takes_nothing_without() -> None:
    door = Door(require_keys=True)
    assert "this fleet requires keys; `fleetledger coordinator enrol crane-7`" in door.refused(
        sealed(key=None)
    )
    assert door.enrol().passes(sealed())


def test_strangers_and_the_proxy_are_left_to_the_rules() -> None:
    door = Door(require_keys=True)
    for name in (DeviceId("stranger"), DeviceId("proxy")):
        taken = door.take(sealed(key=None, sender=name), device=name)
        assert isinstance(taken, inputs.DeviceMessage)


def test_a_message_passes_once() -> None:
    door = Door().enrol()
    assert door.passes(sealed(sequence=5))
    assert door.take(sealed(sequence=5)) is None
    assert door.passes(sealed(sequence=4)), "out of order, and new"
    assert door.take(sealed(sequence=4)) is None
    assert door.passes(sealed(sequence=5, leaf="hb"), leaf="hb"), "topics overtake each other"
    assert door.authenticator.refused == {}, "brokers repeat; nobody is blamed"


def test_what_an_earlier_run_said_passes_no_more() -> None:
    door = Door().enrol()
    door.keys.former_boots |= {EARLIER}
    for sealed_before, leaf in (
        (sealed(boot=EARLIER, sequence=9), "msg"),
        (sealed(Death(), leaf="state", boot=EARLIER), "state"),
    ):
        heard = door.take(sealed_before, leaf=leaf)
        assert isinstance(heard, inputs.FormerRunSpoke), "who spoke may be another installation"
    assert door.passes(sealed())


def test_what_was_said_to_an_earlier_run_of_the_coordinator_passes_no_more() -> None:
    door = Door().enrol()
    for birth in (None, Digest.of(b"of the run before")):
        assert door.take(sealed(birth=birth)) is None
        assert door.passes(sealed(leaf="hb", birth=birth, sequence=len(birth or "")), leaf="hb")
        assert door.passes(sealed(Death(), leaf="state", birth=birth), leaf="state")
    assert door.passes(sealed())
    later = Digest.of(b"announced again")
    door.authenticator.born(later)
    assert door.passes(sealed(birth=later, sequence=1))
    assert door.passes(sealed(sequence=2)), "both are of this run"
    assert door.authenticator.refused == {}


def test_births_and_deaths_may_be_repeated() -> None:
    door = Door().enrol()
    for _ in range(2):
        assert door.passes(sealed(Death(), leaf="state", sequence=0), leaf="state")


def test_a_repeat_is_known_behind_messages_of_other_runs() -> None:
    door = Door().enrol()
    assert door.passes(sealed())
    assert door.passes(sealed(boot=BootId("00000000000000cc")))
    assert door.take(sealed()) is None


def test_an_enrolment_passes_with_the_secret_of_the_open_token() -> None:
    taken = Door().invite().take(sealed(enrolment()))
    assert taken == inputs.EnrolmentProven(CRANE, KEY.verify_key, TOKEN.invitation)


def test_an_enrolment_is_refused_without_it() -> None:
    door = Door().invite()
    assert "mac: was not made with the secret" in door.refused(sealed(enrolment(secret=b"x" * 32)))
    borrowed = enrolment().model_copy(update={"key": THIEF.verify_key})
    assert "mac: was not made" in door.refused(sealed(borrowed, THIEF))
    assert "is believed there" in door.refused(sealed(enrolment(), THIEF)), "of a key not its own"
    assert "is not signed" in door.refused(sealed(enrolment(), None))
    assert "no token is open for 'crane-7'" in Door().refused(sealed(enrolment()))


def test_an_enrolment_of_another_device_or_fleet_is_refused() -> None:
    door = Door().invite()
    door.state.keys.by_device[LIFT] = DeviceKeys(invitation=door.keys.invitation)
    lift = SigningKey.fresh(device_key_name(FLEET, LIFT))
    mac = enrolment_mac(TOKEN.secret_bytes, FLEET, CRANE, lift.verify_key)
    body = Enrolment(key=lift.verify_key, mac=mac)
    assert "mac: was not made" in door.refused(sealed(body, lift, sender=LIFT), LIFT)
    assert "key: its name is 'harbour/device/lift-1'" in door.refused(sealed(body, lift))
    mill = SigningKey.fresh(device_key_name(FleetId("mill"), CRANE))
    mac = enrolment_mac(TOKEN.secret_bytes, FleetId("mill"), CRANE, mill.verify_key)
    foreign = Enrolment(key=mill.verify_key, mac=mac)
    assert "key: its name is 'mill/device/crane-7'" in door.refused(sealed(foreign, mill))


def test_the_key_that_counts_may_enrol_again_without_a_token() -> None:
    taken = Door().enrol().take(sealed(enrolment(secret=b"forgotten" * 4)))
    assert taken == inputs.EnrolmentProven(CRANE, KEY.verify_key, None)
    assert "no token is open" in Door().enrol().refused(sealed(enrolment(THIEF), THIEF))


def test_a_stranger_cannot_enrol() -> None:
    door = Door()
    del door.state.devices.admitted[CRANE]
    assert "device: 'crane-7' is not admitted" in door.refused(sealed(enrolment()))


def test_a_rotation_passes_when_both_keys_signed() -> None:
    door = Door().enrol()
    taken = door.take(sealed(rotation(), NEXT))
    assert taken == inputs.RotationProven(CRANE, NEXT.verify_key, KEY.verify_key)
    door.keys.key = NEXT.verify_key
    again = door.take(sealed(rotation(), NEXT))
    assert again == inputs.RotationProven(CRANE, NEXT.verify_key, NEXT.verify_key)


def test_a_rotation_is_refused_where_one_of_them_did_not() -> None:
    door = Door().enrol()
    assert "is not that of" in door.refused(sealed(rotation(THIEF, NEXT), NEXT))
    assert "is believed there" in door.refused(sealed(rotation(), KEY)), "not by the new key"
    assert "has none that could be rotated" in Door().refused(sealed(rotation(), NEXT))


def test_a_flood_of_forgeries_is_counted_and_told_in_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door = Door().enrol()
    with caplog.at_level(logging.WARNING, "coordinator"):
        for _ in range(1000):
            door.refused(sealed(key=None))
    assert door.authenticator.refused[CRANE] == 1000
    assert len(caplog.messages) == 10
    assert caplog.messages[-1].startswith("crane-7: not believed, 512 so far: signature: ")


def nothing_is_read(_data: bytes) -> Envelope:
    raise AssertionError("a body was read")


@pytest.mark.parametrize("key", [None, THIEF])
def test_what_cannot_be_the_devices_is_refused_before_its_body_is_read(
    key: SigningKey | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetledger.coordinator.program.authenticator.decode", nothing_is_read)
    door = Door().enrol()
    assert "is believed there" in door.refused(sealed(key=key))
    assert "requires keys" in Door(require_keys=True).refused(sealed(key=None))
    assert "was revoked" in Door().revoke().refused(sealed(key=key))
    assert "is not signed" in door.refused(sealed(enrolment(), None))
    altered = encode(sealed()).replace(b'"stage":1', b'"stage":2')
    taken = door.authenticator.authenticate(TOPICS.up(CRANE, "msg"), altered)
    assert isinstance(taken, inputs.MessageRefused)


def test_an_enrolment_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door().invite()
    good = encode(sealed(enrolment()))
    long = good.replace(b'"body":{', b'"body":{"a":"' + b"x" * 9000 + b'",')
    monkeypatch.setattr("fleetledger.coordinator.program.authenticator.decode", nothing_is_read)
    taken = door.authenticator.authenticate(TOPICS.up(CRANE, "msg"), long)
    assert isinstance(taken, inputs.MessageRefused)
    assert "of 'enrolment' exceed 8192" in taken.reason


@given(st.lists(st.integers(0, 3 * WIDTH), max_size=60))
def test_a_window_agrees_with_a_memory_of_everything(numbers: list[int]) -> None:
    window, seen, highest = SequenceWindow(), set[int](), -1
    for number in numbers:
        highest = max(highest, number)
        slowly = number not in seen and number > highest - WIDTH
        seen.add(number)
        assert window.is_new(number) == slowly


def test_secrets_are_files_that_their_owner_alone_reads(tmp_path: Path) -> None:
    kept = Invitations(tmp_path)
    assert kept.secret(TOKEN.invitation) is None
    kept.keep(TOKEN)
    (file,) = (tmp_path / "keys" / "invitations").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o077 == 0
    assert kept.secret(TOKEN.invitation) == TOKEN.secret_bytes
    file.write_bytes(b"altered")
    assert kept.secret(TOKEN.invitation) is None
    kept.forget(TOKEN.invitation)
    kept.forget(TOKEN.invitation)
    assert not file.exists()


def test_what_was_found_to_be_signed_by_the_devices_key_passes_as_if_it_had_been_asked() -> None:
    door = Door().enrol()
    message = sealed(sequence=3)
    assert door.authenticate_checked(message, KEY) == inputs.DeviceMessage(CRANE, message)
    assert door.authenticate_checked(message, KEY) is None, "a number counts once"
    assert door.take(message) is None, "whoever has read it"


def changed(case: str) -> Door:
    door = Door().enrol()
    if case == "revoked":
        door.revoke()
    elif case == "no key":
        door.state.keys.by_device.clear()
    elif case == "not admitted":
        del door.state.devices.admitted[CRANE]
    return door


@pytest.mark.parametrize("case", ["another key", "revoked", "not admitted", "no key"])
def test_what_a_key_signed_that_does_not_count_is_looked_at_anew(case: str) -> None:
    found_by = THIEF if case == "another key" else KEY
    envelope = sealed(key=found_by)
    taken = changed(case).authenticate_checked(envelope, found_by)
    assert taken == changed(case).take(envelope)
    assert isinstance(taken, inputs.MessageRefused) == (case != "not admitted")


def test_what_is_signed_in_another_name_or_for_an_earlier_run_does_not_pass() -> None:
    door = Door().enrol()
    posing = sealed(sender=LIFT)
    assert isinstance(door.authenticate_checked(posing, KEY), inputs.MessageRefused)
    assert door.authenticate_checked(sealed(birth=Digest.of(b"an earlier run")), KEY) is None
    former = sealed(boot=EARLIER)
    door.keys.former_boots |= {EARLIER}
    assert door.authenticate_checked(former, KEY) == inputs.FormerRunSpoke(CRANE, former)

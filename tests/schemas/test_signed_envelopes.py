"""What a signature on an envelope is worth, and where it is worth nothing."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.runtime.errors import InvalidValueError, SchemaError
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import Envelope, Sender, decode, encode
from fleetledger.schemas.errors import EnvelopeError, SignatureError
from fleetledger.schemas.keys import KeyHash, KeyName, SignatureText, SigningKey, VerifyKey
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.protocol_pages import example
from fleetledger.schemas.seals import DOMAIN, bytes_to_sign, with_signature
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId

FLEET, CRANE, LIFT = FleetId("harbour"), DeviceId("crane-7"), DeviceId("lift-1")
TOPICS = FleetTopics(FLEET)
TOPIC = TOPICS.up(CRANE, "msg")
KEY = SigningKey.fresh(KeyName("harbour/device/crane-7"))
OTHER = SigningKey.fresh(KEY.name)
GOLDEN_ID = "cc3a1b716ec80e443731fb5d0f525ea82cdb1b63bf7e9afcd35566315438e8b7"
"""Of the page's heartbeat, from before anything was signed, in version 1."""


def sender(fleet: FleetId = FLEET, key: SigningKey | None = KEY) -> Sender:
    return Sender(fleet, CRANE, BootId("0123456789abcdef"), 41, key)


def sealed(attachment: bytes = b"payload", key: SigningKey = KEY) -> Envelope:
    return sender(key=key).seal(Nothing(stage=2), sent_ms=5, attachment=attachment, topic=TOPIC)


def refused(data: bytes, key: VerifyKey = KEY.verify_key, topic: str = TOPIC) -> str:
    """Return why bytes are not believed as `key`'s on a topic; fail if they are."""
    with pytest.raises(SchemaError) as error:
        decode(data).check_signature(key, topic)
    return str(error.value)


def altered(envelope: Envelope, old: bytes, new: bytes) -> bytes:
    data = encode(envelope)
    assert data.count(old) == 1
    return data.replace(old, new)


@given(st.binary(max_size=200), st.integers(0, 2**63 - 1), st.text("abc", max_size=5))
def test_what_was_signed_is_believed_after_the_wire(body: bytes, sent: int, reason: str) -> None:
    crane = sender()
    made = crane.seal(Nothing(stage=1, reason=reason), sent_ms=sent, attachment=body, topic=TOPIC)
    arrived = decode(encode(made))
    arrived.check_signature(KEY.verify_key, TOPIC)
    assert arrived == made
    assert encode(arrived) == encode(made)
    assert arrived.message_id == made.message_id


def test_ids_and_bytes_of_unsigned_messages_are_golden() -> None:
    line, _, rest = encode(example()).partition(b"\n")
    assert example().message_id == Digest.of(line)
    assert (Digest.of(line), rest) == (GOLDEN_ID, b"")
    assert b'"key":null' in line
    assert b'"signature":null' in line


def test_the_signature_is_over_topic_and_line_with_a_null_in_its_place() -> None:
    made = sealed()
    values = {**made.header.model_dump(mode="json"), "signature": None}
    line = canonical_json(values)
    assert made.unsigned_line == line
    assert made.message_id == Digest.of(line)
    assert made.header.signature is not None
    raw = base64.b64decode(made.header.signature, validate=True)
    KEY.verify_key.check(raw, DOMAIN, b"up/crane-7/msg\n" + line)


def test_who_has_a_signer_says_where_a_message_goes() -> None:
    with pytest.raises(EnvelopeError, match="topic: 'nothing' is to be signed and goes nowhere"):
        sender().seal(Nothing(stage=1), sent_ms=0)


def test_the_coordinator_signs_on_the_topic_of_all() -> None:
    made = sender().seal(Nothing(stage=1), sent_ms=0, topic=TOPICS.coordinator_state)
    decode(encode(made)).check_signature(KEY.verify_key, TOPICS.coordinator_state)
    assert "not that of" in refused(encode(made), topic=TOPICS.down(CRANE, "ctl"))


@given(st.data())
def test_no_byte_of_a_signed_message_can_change(data: st.DataObject) -> None:
    good = bytearray(encode(sealed()))
    place = data.draw(st.integers(0, len(good) - 1))
    good[place] ^= data.draw(st.integers(1, 255))
    refused(bytes(good))


WRONG_TOPICS = {
    "another device's": TOPICS.up(LIFT, "msg"),
    "another leaf": TOPICS.up(CRANE, "hb"),
    "the other direction": TOPICS.down(CRANE, "ctl"),
    "the proxy's branch": FleetTopics(FLEET, "proxy").up(CRANE, "msg"),
    "all": TOPICS.coordinator_state,
}


@pytest.mark.parametrize("case", WRONG_TOPICS)
def test_a_message_is_worth_nothing_on_another_topic(case: str) -> None:
    assert "not that of 'harbour/device/crane-7'" in refused(
        encode(sealed()), topic=WRONG_TOPICS[case]
    )


def test_a_message_of_another_fleet_is_refused_on_both_fleets_topics() -> None:
    mill = FleetId("mill")
    there = FleetTopics(mill).up(CRANE, "msg")
    made = sender(mill).seal(Nothing(stage=1), sent_ms=0, topic=there)
    made.check_signature(KEY.verify_key, there)
    with pytest.raises(InvalidValueError, match="expected one below fleetledger/1/mill/"):
        made.check_signature(KEY.verify_key, TOPIC)


CHANGES: dict[str, tuple[Callable[[], bytes], str]] = {
    "the sender": (lambda: altered(sealed(), b'"crane-7"', b'"crane-8"'), "not that of"),
    "the body": (lambda: altered(sealed(), b'"stage":2', b'"stage":3'), "not that of"),
    "the boot": (lambda: altered(sealed(), b"0123456789abcdef", b"0" * 16), "not that of"),
    "the sequence": (lambda: altered(sealed(), b":41,", b":42,"), "not that of"),
    "a byte of the attachment": (
        lambda: altered(sealed(), b"payload", b"payloaD"),
        "attachment_digest: header says",
    ),
    "an attachment with its digest": (
        lambda: altered(sealed(), b"payload", b"PAYLOAD").replace(
            Digest.of(b"payload").encode(), Digest.of(b"PAYLOAD").encode()
        ),
        "not that of",
    ),
    "the key's hash": (
        lambda: altered(sealed(), KEY.verify_key.key_hash.hex().encode(), b"00000000"),
        "key: '00000000' signed 'nothing'",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_was_changed_is_refused(case: str) -> None:
    make, text = CHANGES[case]
    assert text in refused(make())


def spelled(change: Callable[[str], str]) -> bytes:
    signature = sealed().header.signature
    assert signature is not None
    return altered(sealed(), signature.encode(), change(signature).encode())


def _second_spelling(signature: str) -> str:
    """Return the same 64 bytes with unused bits set, which a careless reader takes."""
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    last = letters[letters.index(signature[85]) + 1]
    again = signature[:85] + last + "=="
    assert base64.b64decode(again) == base64.b64decode(signature)
    return again


SPELLINGS: dict[str, Callable[[str], str]] = {
    "cut by a letter": lambda text: text[1:],
    "cut by a byte": lambda text: base64.b64encode(base64.b64decode(text)[:-1]).decode(),
    "a byte longer": lambda text: base64.b64encode(base64.b64decode(text) + b"\0").decode(),
    "without its padding": lambda text: text.rstrip("="),
    "with more padding": lambda text: text + "=",
    "with unused bits": _second_spelling,
    "with a space": lambda text: " " + text,
    "with a line feed": lambda text: text + "\\n",
    "for addresses": lambda text: "-_" + text[2:],
    "empty": lambda _: "",
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_signature_has_one_spelling(case: str) -> None:
    with pytest.raises(EnvelopeError, match=r"signature: .*SignatureText"):
        decode(spelled(SPELLINGS[case]))


def test_an_unsigned_message_is_refused_where_a_signed_one_is_wanted() -> None:
    plain = sender(key=None).seal(Nothing(stage=2), sent_ms=5)
    assert refused(encode(plain)) == (
        "signature: 'nothing' on fleetledger/1/harbour/up/crane-7/msg is not signed; only what "
        "'harbour/device/crane-7' has signed is believed there"
    )


def test_another_key_is_refused_by_its_hash_and_where_it_borrows_one() -> None:
    assert f"key: '{OTHER.verify_key.key_hash.hex()}' signed" in refused(encode(sealed(key=OTHER)))
    borrowed = sealed().header.model_copy(update={"signature": None})
    assert borrowed.key == KeyHash(KEY.verify_key.key_hash.hex())
    line = Envelope(borrowed).line
    signature = OTHER.sign(DOMAIN, bytes_to_sign(line, TOPIC, borrowed.fleet))
    made = with_signature(line, SignatureText.of(signature)) + b"\npayload"
    assert "not that of" in refused(made)


@pytest.mark.parametrize("domain", ["", "fleetledger/key-rotation/1", "fleetledger/envelope/2"])
def test_a_signature_for_another_purpose_is_refused(domain: str) -> None:
    made = sealed()
    foreign = KEY.sign(domain, b"up/crane-7/msg\n" + made.unsigned_line)
    assert made.header.signature is not None
    data = altered(made, made.header.signature.encode(), base64.b64encode(foreign))
    assert "not that of" in refused(data)


def test_a_message_keeps_its_id_whoever_signs_it_again() -> None:
    first, second = sealed(), sealed()
    assert first.message_id == second.message_id
    plain = sender(key=None).seal(Nothing(stage=2), sent_ms=5, attachment=b"payload")
    assert plain.message_id != first.message_id


def test_a_heartbeat_signed_by_a_former_run_names_that_run() -> None:
    beat = example().read(Heartbeat)
    made = sender().seal(beat, sent_ms=0, topic=TOPICS.up(CRANE, "hb"))
    assert b'"boot":"0123456789abcdef"' in made.unsigned_line


def test_errors_are_of_the_signature() -> None:
    with pytest.raises(SignatureError):
        sealed().check_signature(OTHER.verify_key, TOPIC)

"""What the frame around messages promises."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas import envelope as frame
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.contributions import Nothing, Withdrawal
from fleetledger.schemas.envelope import (
    Envelope,
    Header,
    Sender,
    compressed,
    decode,
    decode_again,
    encode,
)
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.topics import FleetTopics
from fleetledger.schemas.values import BootId, DeviceId, Digest, FleetId
from tests.schemas.examples import EXAMPLES, KEY, sender

TOPIC = FleetTopics(FleetId("harbour")).up(DeviceId("crane-7"), "msg")
SIGNER = SigningKey.fresh("harbour/crane-7")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXT
BODIES = st.dictionaries(TEXT, SCALARS | st.lists(SCALARS, max_size=3), max_size=4)


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    attachment = draw(st.binary(max_size=200))
    header = Header(
        kind=draw(st.text("abc.-", min_size=1, max_size=40)),
        fleet=FleetId(draw(st.from_regex(FleetId.pattern, fullmatch=True))),
        sender=DeviceId(draw(st.from_regex(DeviceId.pattern, fullmatch=True))),
        boot=BootId(draw(st.from_regex(BootId.pattern, fullmatch=True))),
        sequence=draw(st.integers(0, 2**63 - 1)),
        sent_ms=draw(st.integers(0, 2**63 - 1)),
        refers_to=draw(st.none() | st.binary().map(Digest.of)),
        body=draw(BODIES),
        attachment_size=len(attachment),
        attachment_digest=Digest.of(attachment) if attachment else None,
    )
    return Envelope(header, attachment)


def written(attachment: bytes = b"payload", **changes: Any) -> bytes:
    """Return a good envelope whose header line has some fields changed."""
    good = sender().seal(Nothing(stage=2), sent_ms=5, attachment=attachment)
    values = {**good.header.model_dump(mode="json"), **changes}
    return canonical_json(values) + b"\n" + attachment


def without(field: str) -> bytes:
    values = json.loads(written().partition(b"\n")[0])
    del values[field]
    return canonical_json(values) + b"\npayload"


@given(envelopes())
def test_what_was_decoded_once_is_read_again_without_a_check(envelope: Envelope) -> None:
    again = decode_again(encode(envelope))
    assert again == envelope
    assert {name: type(value) for name, value in again.header} == {
        name: type(value) for name, value in decode(encode(envelope)).header
    }


@given(envelopes())
def test_what_is_encoded_decodes_to_the_same(envelope: Envelope) -> None:
    data = encode(envelope)
    assert decode(data) == envelope
    assert encode(decode(data)) == data


@given(envelopes(), st.data())
def test_no_byte_can_change_unseen(envelope: Envelope, data: st.DataObject) -> None:
    good = bytearray(encode(envelope))
    place = data.draw(st.integers(0, len(good) - 1))
    good[place] ^= data.draw(st.integers(1, 255))
    try:
        altered = decode(bytes(good))
    except SchemaError:
        return
    assert altered.message_id != envelope.message_id


@given(envelopes(), st.data())
def test_a_cut_envelope_is_refused(envelope: Envelope, data: st.DataObject) -> None:
    whole = encode(envelope)
    with pytest.raises(EnvelopeError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=300))
def test_noise_is_refused_as_an_envelope_error(noise: bytes) -> None:
    with pytest.raises(EnvelopeError):
        decode(noise)


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: f"{body.kind}")
def test_every_kind_of_message_survives_the_wire(body: Message) -> None:
    arrived = decode(encode(sender().seal(body, sent_ms=0)))
    assert arrived.read(type(body)) == body


@pytest.mark.parametrize("signer", [None, SIGNER], ids=["unsigned", "signed"])
@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: f"{body.kind}")
def test_a_message_is_written_as_its_envelope_would_be(
    body: Message, signer: SigningKey | None
) -> None:
    said: dict[str, Any] = {"sent_ms": 5, "topic": TOPIC, "refers_to": Digest.of(b"birth")}
    sealing, writing = sender(), sender()
    sealing.signer = writing.signer = signer
    for _ in range(2):
        sealed = encode(sealing.seal(body, **said))
        assert writing.write(body.kind, body.model_dump(mode="json"), **said) == sealed


def test_what_is_too_long_is_not_written() -> None:
    body = {"reason": "x" * frame.MAX_HEADER_BYTES}
    with pytest.raises(EnvelopeError, match=r"header: .* bytes of 'nothing' exceed 131072"):
        sender().write("nothing", body, sent_ms=0, topic=TOPIC)


def test_a_sender_counts_its_messages_and_says_who_it_is() -> None:
    crane = sender()
    headers = [crane.seal(Nothing(stage=1), sent_ms=9).header for _ in range(3)]
    assert [header.sequence for header in headers] == [0, 1, 2]
    assert {(header.fleet, header.sender) for header in headers} == {("harbour", "crane-7")}
    assert headers[0].attachment_digest is None


def test_the_message_id_is_the_hash_of_the_line_that_was_sent() -> None:
    envelope = sender().seal(Nothing(stage=1), sent_ms=9, attachment=b"x\ny")
    assert envelope.message_id == Digest.of(encode(envelope).partition(b"\n")[0])


def test_an_attachment_may_hold_line_feeds() -> None:
    envelope = sender().seal(Nothing(stage=1), sent_ms=9, attachment=b"\n\n{}\n")
    assert decode(encode(envelope)).attachment == b"\n\n{}\n"


REFUSALS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a later version": (
        lambda: written(version=2),
        "version: 2 of 'nothing' is unknown here; this program speaks version 1 of the wire: "
        "update the older side",
    ),
    "no version": (lambda: without("version"), "write every field"),
    "no number as a version": (lambda: written(version=0), "version: 0: Input should be greater"),
    "true as a version": (lambda: written(version=True), "version: True: Input should be a valid"),
    "another spelling of the version": (
        lambda: written().replace(b'"version":1', b'"version":1.0'),
        "version: 1.0: Input should be a valid integer",
    ),
    "no line": (lambda: b"{}", "no line ends within 2 bytes; expected a header line of JSON"),
    "no object": (lambda: b"[1]\n", r"header: body: \[1\]: Input should be"),
    "not JSON": (lambda: b"hello\n", "header: not valid JSON: "),
    "NaN": (lambda: b'{"version":NaN}\n', "NaN is not a JSON number"),
    "a deep body": (
        lambda: written(body={"a": 1}).replace(b'{"a":1}', b'{"a":' * 40 + b"1" + b"}" * 40),
        "nested deeper than 32 levels; send a flatter value",
    ),
    "an unknown field": (
        lambda: written(colour="red"),
        "colour: 'red': unknown here; leave it out, or update the older side",
    ),
    "a missing field": (lambda: without("boot"), "boot: is missing; give it"),
    "a missing optional field": (lambda: without("key"), "write every field"),
    "another fleet's spelling": (lambda: written(fleet="Big Fleet"), "fleet: 'Big Fleet': FleetId"),
    "a negative sequence": (lambda: written(sequence=-1), "sequence: -1: Input should be greater"),
    "a signature": (lambda: written(signature="x"), "signature: 'x': SignatureText: 'x' is not"),
    "a key without a signature": (
        lambda: written(key="0123abcd"),
        "signature: None by the key '0123abcd'; give both or neither",
    ),
    "a signature without a key": (
        lambda: written(signature="A" * 86 + "=="),
        "signature: 'AAA.* by the key None; give both or neither",
    ),
    "a torn attachment": (
        lambda: written()[:-1],
        "attachment_size: header says 7, 6 arrived; the message was cut on its way",
    ),
    "a longer attachment": (lambda: written() + b"!", "attachment_size: header says 7, 8 arrived"),
    "a wrong digest": (
        lambda: written().replace(b"payload", b"PAYLOAD"),
        "attachment_digest: header says .* the attached bytes have .* send it again",
    ),
    "a digest without bytes": (
        lambda: written(b"", attachment_digest="0" * 64),
        "attachment_digest: header says '000",
    ),
    "an announced flood": (
        lambda: written(attachment_size=frame.MAX_ATTACHMENT_BYTES + 1),
        "attachment_size: 262145: Input should be less than or equal to 262144",
    ),
    "spaces": (lambda: written().replace(b'":', b'": ', 1), "leave out spaces"),
    "a flood": (
        lambda: b"x" * (frame.MAX_ENVELOPE_BYTES + 1),
        "envelope: 393218 bytes exceed 393217; send blocks",
    ),
    "a long header": (
        lambda: written(body={"a": "x" * frame.MAX_HEADER_BYTES}),
        "header: .* bytes exceed 131072; send large data as an offer",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_bad_envelope_is_refused_with_field_value_and_way_out(case: str) -> None:
    make, text = REFUSALS[case]
    with pytest.raises(EnvelopeError, match=text):
        decode(make())


def test_the_unchanged_envelope_of_these_cases_is_good() -> None:
    assert decode(written()).read(Nothing) == Nothing(stage=2)


def test_too_large_an_attachment_is_refused_before_it_is_sent() -> None:
    crane = sender()
    with pytest.raises(EnvelopeError, match="attachment: 262145 bytes exceed 262144; offer it"):
        crane.seal(Nothing(stage=1), sent_ms=0, attachment=bytes(frame.MAX_ATTACHMENT_BYTES + 1))
    assert crane.next_sequence == 0


def test_the_largest_attachment_passes() -> None:
    body = bytes(frame.MAX_ATTACHMENT_BYTES)
    assert decode(encode(sender().seal(Nothing(stage=1), sent_ms=0, attachment=body)))


def test_too_large_a_header_is_refused_before_it_is_sent() -> None:
    envelope = Sender(FleetId("f"), DeviceId("d"), BootId.fresh()).seal(
        Withdrawal(key=KEY, revision=1, reason=""), sent_ms=0
    )
    body = {"reason": "x" * frame.MAX_HEADER_BYTES}
    large = Envelope(envelope.header.model_copy(update={"body": body}))
    with pytest.raises(EnvelopeError, match="of 'withdrawal' exceed 131072; send large data as an"):
        encode(large)


@given(envelopes(), st.integers(0, 10_000))
def test_what_travels_as_a_frame_decodes_to_the_same(envelope: Envelope, zeros: int) -> None:
    attachment = envelope.attachment + bytes(zeros)
    whole = sender().seal(Nothing(stage=1), sent_ms=0, attachment=attachment)
    plain = encode(whole)
    sent = compressed(plain)
    assert len(sent) <= len(plain)
    assert (len(sent) < len(plain)) == (zeros > 1000) or 200 < zeros <= 1000
    assert decode(sent) == whole
    assert decode(sent).message_id == whole.message_id


def test_what_zstd_does_not_make_smaller_travels_as_it_is() -> None:
    noise = np.random.default_rng(1).bytes(5000)
    frame = zstandard.compress(bytes(5000)) + noise
    for attachment in (noise, frame, b"", b"short"):
        plain = encode(sender().seal(Nothing(stage=1), sent_ms=0, attachment=attachment))
        assert compressed(plain) == plain
        assert decode(plain).attachment == attachment


def framed_envelope(content: bytes, **changes: Any) -> bytes:
    """Return an envelope of 5,000 zeros in whose place comes a frame of `content`."""
    line, _, _ = written(bytes(5000), **changes).partition(b"\n")
    return line + b"\n" + zstandard.compress(content)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (framed_envelope(bytes(1 << 20)), "size: 1048576 bytes; at most 5000 are accepted"),
        (framed_envelope(bytes(4999)), "attachment_size: header says 5000, 4999 arrived"),
        (framed_envelope(b"x" * 5000), "attachment_digest: header says"),
        (framed_envelope(bytes(5000))[:-1], "attachment: frame: cannot be decompressed"),
        (framed_envelope(bytes(5000)) + b"x", "attachment: frame: cannot be decompressed"),
        (
            written(bytes(5000)).partition(b"\n")[0]
            + b"\n"
            + zstandard.ZstdCompressor(write_content_size=False).compress(bytes(5000)),
            "attachment: frame: does not declare its size",
        ),
    ],
)
def test_a_frame_that_is_not_what_the_header_pins_is_refused(data: bytes, text: str) -> None:
    assert decode(framed_envelope(bytes(5000))).attachment == bytes(5000)
    with pytest.raises(EnvelopeError, match=text):
        decode(data)


def test_a_body_of_another_kind_is_named() -> None:
    envelope = sender().seal(Nothing(stage=1), sent_ms=0)
    with pytest.raises(SchemaError, match="kind: 'nothing' arrived where 'withdrawal' was expec"):
        envelope.read(Withdrawal)


def test_a_bad_body_is_refused_with_kind_field_and_value() -> None:
    with pytest.raises(SchemaError, match=r"nothing: stage: 0: Input should be greater than or eq"):
        decode(written(body={"stage": 0})).read(Nothing)

"""Versions of the wire: ranges, steps, and what has one form in all versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.contributions import Nothing
from fleetledger.schemas.envelope import Sender, decode, encode
from fleetledger.schemas.errors import EnvelopeError
from fleetledger.schemas.presence import Birth, PresenceMessage
from fleetledger.schemas.values import BootId, DeviceId, FleetId
from fleetledger.schemas.wire import MAX_VERSION, OWN, SETTLED, WireRange, WireVersions
from tests.schemas.examples import EXAMPLES
from tests.wires import SECOND, STEPS, THIRD

VERSIONS = st.integers(1, MAX_VERSION)
RANGES = st.tuples(VERSIONS, VERSIONS).map(
    lambda ends: WireRange(lowest=min(ends), highest=max(ends))
)


def sender(wire: WireVersions, speaks: int | None = None) -> Sender:
    return Sender(
        FleetId("harbour"),
        DeviceId("crane-7"),
        BootId("0123456789abcdef"),
        wire=wire,
        speaks=speaks,
    )


@given(one=RANGES, other=RANGES)
def test_two_programs_agree_on_the_same_version_which_both_know(
    one: WireRange, other: WireRange
) -> None:
    agreed = one.common(other)
    assert agreed == other.common(one)
    known = [version for version in (one.highest, other.highest) if version in one]
    known = [version for version in known if version in other]
    assert agreed == max(known, default=None)


def test_a_range_has_its_ends_in_order() -> None:
    with pytest.raises(ValidationError, match="is above the highest, 2; exchange them"):
        WireRange(lowest=3, highest=2)


@pytest.mark.parametrize(
    ("wire", "text", "short"),
    [(WireRange(), "version 1", "1"), (WireRange(lowest=2, highest=3), "versions 2 to 3", "2-3")],
)
def test_a_range_is_said_in_words(wire: WireRange, text: str, short: str) -> None:
    assert (str(wire), wire.short) == (text, short)


def test_a_body_crosses_in_the_version_that_was_agreed() -> None:
    body = Nothing(stage=4, reason="no images")
    for version, field in ((1, b'"why"'), (2, b'"why"'), (3, b'"reason"')):
        data = encode(
            sender(WireVersions(WireRange(highest=3), STEPS), version).seal(body, sent_ms=0)
        )
        assert field in data
        arrived = decode(data, wire=WireVersions(WireRange(lowest=version, highest=3), STEPS))
        assert (arrived.header.version, arrived.read(Nothing)) == (version, body)
        assert encode(arrived) == data


def test_a_version_outside_the_range_is_refused_with_both_named() -> None:
    data = encode(sender(WireVersions(WireRange(), STEPS)).seal(Nothing(stage=4), sent_ms=0))
    with pytest.raises(EnvelopeError, match=r"version: 1 of 'nothing' .* speaks versions 2 to 3"):
        decode(data, wire=THIRD)


def test_what_is_said_before_a_version_is_agreed_is_read_by_every_program() -> None:
    for body in EXAMPLES:
        data = encode(sender(SECOND).seal(body, sent_ms=0))
        read = 0
        for wire in (OWN, THIRD):
            try:
                read += decode(data, wire=wire).read(type(body)) == body
            except EnvelopeError:
                continue
        assert (read == 2) == (body.kind in SETTLED), body.kind


def test_kinds_with_one_form_are_messages_and_those_of_presence_are_among_them() -> None:
    assert {entry.kind for entry in CATALOGUE} >= SETTLED
    presence = {entry.kind for entry in CATALOGUE if issubclass(entry.model, PresenceMessage)}
    assert presence <= SETTLED


def test_no_other_number_is_written_for_what_has_one_form() -> None:
    body = next(body for body in EXAMPLES if isinstance(body, Birth))
    data = encode(sender(OWN).seal(body, sent_ms=0)).replace(b'"version":1', b'"version":2')
    with pytest.raises(EnvelopeError, match="version: 2 of 'birth', which has one form; write 1"):
        decode(data)

"""Tokens, MACs and approvals: who may say which key is a device's."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Callable

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.enrolment import (
    Enrolment,
    KeyRotation,
    approve,
    check_approval,
    check_key_name,
    check_mac,
    device_key_name,
    enrolment_mac,
)
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.token import Token
from fleetledger.schemas.values import DeviceId, Digest, FleetId

FLEET, CRANE = FleetId("harbour"), DeviceId("crane-7")
COORDINATOR = SigningKey.fresh(KeyName("harbour/coordinator")).verify_key
KEY = SigningKey.fresh(device_key_name(FLEET, CRANE))
NEXT = SigningKey.fresh(KEY.name)
SECRET = b"s" * 32
TOKEN = Token.fresh(FLEET, CRANE, COORDINATOR, 1_800_000_000_000_000_000)


def test_a_token_is_read_as_it_was_written() -> None:
    assert Token.read(TOKEN.text) == TOKEN
    assert Token.read(f"  {TOKEN.text}\n") == TOKEN
    assert TOKEN.invitation == Digest.of(TOKEN.secret_bytes)
    assert len(TOKEN.secret_bytes) == 32


def test_two_tokens_for_one_device_differ() -> None:
    again = Token.fresh(FLEET, CRANE, COORDINATOR, TOKEN.expires_ns)
    assert again.secret != TOKEN.secret


def packed(**changes: object) -> str:
    values = {**TOKEN.model_dump(mode="json"), **changes}
    data = canonical_json({name: value for name, value in values.items() if value is not None})
    return "fl1." + base64.urlsafe_b64encode(data).decode().rstrip("=")


BAD: dict[str, Callable[[], str]] = {
    "cut": lambda: TOKEN.text[:-4],
    "another form": lambda: "fl2" + TOKEN.text[3:],
    "padded": lambda: TOKEN.text + "=",
    "with a space within": lambda: TOKEN.text[:9] + " " + TOKEN.text[9:],
    "a short secret": lambda: packed(secret="ab" * 31),
    "no secret": lambda: packed(secret=None),
    "a field more": lambda: packed(colour="red"),
    "no key": lambda: packed(coordinator_key="key"),
    "a flood": lambda: "fl1." + "A" * 5000,
    "nothing": lambda: "",
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_token_is_refused_without_being_quoted(case: str) -> None:
    text = BAD[case]()
    with pytest.raises(SchemaError, match="token: this is none") as error:
        Token.read(text)
    shown = "".join(traceback.format_exception(error.value))
    assert TOKEN.secret[:16] not in shown
    assert len(text) < 5 or text[4:24] not in shown


def test_a_token_does_not_show_its_secret_by_accident() -> None:
    assert TOKEN.secret not in repr(TOKEN)
    assert TOKEN.secret not in str(TOKEN)


def test_the_mac_holds_for_its_secret_fleet_device_and_key_alone() -> None:
    mac = enrolment_mac(SECRET, FLEET, CRANE, KEY.verify_key)
    enrolment = Enrolment(key=KEY.verify_key, mac=mac)
    check_mac(SECRET, FLEET, CRANE, enrolment)
    others = (
        (b"t" * 32, FLEET, CRANE, enrolment),
        (SECRET, FleetId("mill"), CRANE, enrolment),
        (SECRET, FLEET, DeviceId("crane-8"), enrolment),
        (SECRET, FLEET, CRANE, Enrolment(key=NEXT.verify_key, mac=mac)),
        (SECRET, FLEET, CRANE, Enrolment(key=KEY.verify_key, mac=Digest.of(b"guess"))),
    )
    for secret, fleet, device, other in others:
        with pytest.raises(SignatureError, match="mac: was not made with the secret"):
            check_mac(secret, fleet, device, other)


def test_an_approval_holds_for_its_former_key_fleet_device_and_new_key_alone() -> None:
    approval = approve(KEY, FLEET, CRANE, NEXT.verify_key)
    rotation = KeyRotation(key=NEXT.verify_key, approval=approval)
    check_approval(KEY.verify_key, FLEET, CRANE, rotation)
    third = SigningKey.fresh(KEY.name).verify_key
    others = (
        (NEXT.verify_key, FLEET, CRANE, rotation),
        (KEY.verify_key, FleetId("mill"), CRANE, rotation),
        (KEY.verify_key, FLEET, DeviceId("crane-8"), rotation),
        (KEY.verify_key, FLEET, CRANE, KeyRotation(key=third, approval=approval)),
    )
    for former, fleet, device, other in others:
        with pytest.raises(SignatureError, match="signature: is not that of"):
            check_approval(former, fleet, device, other)


def test_a_key_is_named_after_its_device() -> None:
    check_key_name(FLEET, CRANE, KEY.verify_key)
    with pytest.raises(SignatureError, match="'harbour/device/crane-8'"):
        check_key_name(FLEET, DeviceId("crane-8"), KEY.verify_key)


def test_the_longest_names_fit_a_key() -> None:
    assert device_key_name(FleetId("f" * 63), DeviceId("d" * 64)).count("/") == 2

"""A release is for one fleet, its devices and its time, and by a key that the root names."""

from __future__ import annotations

import base64

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.errors import ReleaseError, SignatureError
from fleetledger.schemas.releases import SignedRelease, check_release
from fleetledger.schemas.signatures import KeySignature
from fleetledger.schemas.values import DeviceId
from tests.schemas.signing import (
    COORDINATOR,
    RELEASE,
    ROOTS,
    SPARE,
    STRANGER,
    document,
    release,
)

DEVICE = DeviceId("dev-1")


def check(signed: SignedRelease, now_ns: int = 0, **changes: object) -> None:
    check_release(signed, document(**changes), DEVICE, now_ns)


def test_a_release_of_the_fleet_by_its_release_key_is_taken() -> None:
    check(release())
    check(release(by=SPARE), release_keys=(RELEASE.verify_key, SPARE.verify_key))
    check(release(devices=("dev-0", "dev-1")))


def test_what_is_written_is_read_again() -> None:
    signed = release(7, expires_ns=5, devices=("dev-1",))
    assert SignedRelease.model_validate_json(signed.model_dump_json()) == signed
    assert signed.release.digest != release(8).release.digest


@pytest.mark.parametrize("by", [STRANGER, COORDINATOR, ROOTS[0], SPARE])
def test_no_other_key_may_sign_a_release(by: object) -> None:
    with pytest.raises(SignatureError, match="does not name for releases, or no longer"):
        check(release(by=by))  # type: ignore[arg-type]


def test_a_stranger_cannot_borrow_the_name_of_the_key() -> None:
    stolen = release().model_copy(
        update={
            "signature": release(by=STRANGER).signature.model_copy(
                update={"key": release().signature.key}
            )
        }
    )
    with pytest.raises(SignatureError, match="altered"):
        check(stolen)


@pytest.mark.parametrize(
    "change",
    [
        {"number": 2},
        {"version": 2},
        {"manifest": "0" * 64},
        {"expires_ns": 2**62},
        {"devices": ("dev-1",)},
    ],
)
def test_every_field_is_under_the_signature(change: dict) -> None:
    signed = release()
    altered = signed.release.model_validate(signed.release.model_dump() | change)
    with pytest.raises(SignatureError, match="altered"):
        check(signed.model_copy(update={"release": altered}))


def test_a_signature_for_another_purpose_is_worth_nothing() -> None:
    data = release().release.canonical_bytes()
    for domain in ("fleetledger/root/1", "fleetledger/envelope/1", ""):
        forged = KeySignature.of(RELEASE, domain, data)
        with pytest.raises(SignatureError):
            check(release().model_copy(update={"signature": forged}))


def spellings() -> list[str]:
    good = release().signature.signature
    raw = base64.b64decode(good)
    other_bits = good[:85] + chr(ord(good[85]) + 1) + "=="
    return [
        "",
        good[:-1],
        good[:-2],
        good[:40],
        good + "=",
        good + "\n",
        " " + good,
        other_bits,
        base64.b64encode(raw[:63]).decode(),
        base64.b64encode(raw + b"\x00").decode(),
        base64.urlsafe_b64encode(b"\xff" * 64).decode(),
        "ä" * 88,
        raw.hex(),
    ]


@pytest.mark.parametrize("text", spellings(), ids=range(len(spellings())))
def test_a_signature_that_was_cut_or_is_spelled_otherwise_is_none(text: str) -> None:
    signature = release().signature.model_copy(update={"signature": text})
    with pytest.raises(SignatureError):
        check(release().model_copy(update={"signature": signature}))


def test_every_changed_bit_of_a_signature_is_refused() -> None:
    raw = base64.b64decode(release().signature.signature)
    for place in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[place // 8] ^= 1 << place % 8
        text = base64.b64encode(bytes(changed)).decode()
        signature = release().signature.model_copy(update={"signature": text})
        with pytest.raises(SchemaError):
            check(release().model_copy(update={"signature": signature}))


def test_a_release_of_another_fleet_or_device_is_refused() -> None:
    with pytest.raises(ReleaseError, match="for the fleet 'harbour'"):
        check(release(fleet="harbour"))
    with pytest.raises(ReleaseError, match="for other devices than dev-1"):
        check(release(devices=("dev-2", "dev-3")))


def test_what_has_expired_is_refused_the_release_or_the_root() -> None:
    check(release(expires_ns=10), now_ns=9)
    with pytest.raises(ReleaseError, match="release 1: has expired"):
        check(release(expires_ns=10), now_ns=10)
    with pytest.raises(ReleaseError, match="root: version 1 has expired"):
        check(release(), now_ns=10, expires_ns=10)

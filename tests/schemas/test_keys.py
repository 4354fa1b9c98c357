"""Keys: what is signed for one purpose by one key is worth nothing elsewhere."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fleetledger.runtime.errors import InvalidValueError
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import KeyName, SigningKey, VerifyKey, read_verify_key

# RFC 8032, section 7.1, test 3: private key, public key, message, signature.
RFC_PRIVATE = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
RFC_PUBLIC = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
RFC_SIGNATURE = (
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)

NAME = KeyName("fleet-7/coordinator")
KEY = SigningKey.fresh(NAME)


def test_a_signature_is_ed25519s_over_domain_and_message() -> None:
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(RFC_PRIVATE))
    key = SigningKey(NAME, bytes.fromhex(RFC_PRIVATE))
    assert key.verify_key.public.hex() == RFC_PUBLIC
    assert key.sign("", bytes.fromhex("af82")).hex() == RFC_SIGNATURE
    assert key.sign("letter", b"text") == private.sign(b"letter\x00text")


def test_a_public_key_is_written_as_signed_notes_write_it() -> None:
    body = b"\x01" + KEY.verify_key.public
    expected = hashlib.sha256(str(NAME).encode() + b"\n" + body).hexdigest()[:8]
    assert str(KEY.verify_key) == f"{NAME}+{expected}+{base64.b64encode(body).decode()}"
    assert (KEY.verify_key.name, KEY.verify_key.key_hash.hex()) == (NAME, expected)


def test_what_was_signed_is_accepted_for_its_purpose() -> None:
    KEY.verify_key.check(KEY.sign("receipt", b"text"), "receipt", b"text")


@pytest.mark.parametrize(
    ("domain", "message", "signer"),
    [
        ("manifest", b"text", KEY),
        ("receipt", b"texts", KEY),
        ("receipt", b"text", SigningKey.fresh(NAME)),
        ("", b"text", KEY),
    ],
    ids=["another purpose", "another text", "another key", "no purpose"],
)
def test_a_signature_is_refused_for(domain: str, message: bytes, signer: SigningKey) -> None:
    with pytest.raises(SignatureError, match="is not that of 'fleet-7/coordinator'"):
        KEY.verify_key.check(signer.sign(domain, message), "receipt", b"text")


@pytest.mark.parametrize("length", [0, 1, 63, 65, 4096])
def test_a_signature_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(SignatureError):
        KEY.verify_key.check(b"s" * length, "receipt", b"text")


def test_every_changed_bit_of_a_signature_is_refused() -> None:
    good = int.from_bytes(KEY.sign("receipt", b"text"), "big")
    for bit in range(512):
        changed = (good ^ (1 << bit)).to_bytes(64, "big")
        with pytest.raises(SignatureError):
            KEY.verify_key.check(changed, "receipt", b"text")


def test_a_key_survives_its_file() -> None:
    again = SigningKey.from_pem(NAME, KEY.pem)
    assert again == KEY
    assert again.verify_key == KEY.verify_key


def test_a_file_is_as_openssl_writes_it_and_read_as_others_write_it() -> None:
    private = Ed25519PrivateKey.from_private_bytes(KEY.seed)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    assert KEY.pem == private.private_bytes(pem, pkcs8, serialization.NoEncryption())
    for other in (KEY.pem.replace(b"\n", b"\r\n"), b"a comment\n" + KEY.pem, KEY.pem[:-1]):
        assert SigningKey.from_pem(NAME, other) == KEY


def test_a_file_that_holds_no_such_key_is_refused_by_name() -> None:
    with pytest.raises(SignatureError, match="no private key in PEM"):
        SigningKey.from_pem(NAME, b"nonsense")
    other = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(SignatureError, match="give an Ed25519 key"):
        SigningKey.from_pem(NAME, other)


@pytest.mark.parametrize("place", [0, 3, len(NAME) + 2, len(NAME) + 20, -3])
def test_a_mistyped_public_key_is_refused(place: int) -> None:
    letters = list(str(KEY.verify_key))
    letters[place] = "0" if letters[place] != "0" else "1"
    with pytest.raises(SignatureError, match="is none"):
        read_verify_key("".join(letters))


def test_a_key_that_was_copied_with_spaces_around_is_read() -> None:
    assert read_verify_key(f"  {KEY.verify_key}\n") == KEY.verify_key


def test_the_text_of_a_signing_key_does_not_hold_the_private_key() -> None:
    assert KEY.seed.hex() not in repr(KEY)
    assert repr(KEY.seed) not in repr(KEY)
    assert "PRIVATE" not in repr(KEY)


def test_a_purpose_whose_end_could_not_be_told_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="without NUL"):
        KEY.sign("receipt\x00", b"text")


def test_a_public_key_of_another_algorithm_is_none() -> None:
    body = b"\x02" + KEY.verify_key.public
    found = hashlib.sha256(str(NAME).encode() + b"\n" + body).hexdigest()[:8]
    with pytest.raises(InvalidValueError):
        VerifyKey(f"{NAME}+{found}+{base64.b64encode(body).decode()}")

"""What is signed for OpenSSF Model Signing, checked by hand and by its authors' own program."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fleetledger.export.errors import SigningKeyError
from fleetledger.export.signing_bundle import load_or_make_key, public_pem, signed_bundle

FILES = {"model.onnx": b"a model", "model.json": b"{}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files and their bundle, and the key elsewhere."""
    target = tmp_path / "release"
    target.mkdir()
    for name, data in FILES.items():
        (target / name).write_bytes(data)
    key = load_or_make_key(tmp_path / "exporting.pem")
    (target / "model.sig").write_bytes(signed_bundle("stsa-7", FILES, "model.sig", key))
    return target


def test_the_envelope_is_signed_over_type_and_statement(folder: Path) -> None:
    bundle = json.loads((folder / "model.sig").read_bytes())
    envelope = bundle["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    text = f"DSSEv1 28 application/vnd.in-toto+json {len(payload)} ".encode() + payload
    public = serialization.load_pem_public_key((folder.parent / "exporting.pub").read_bytes())
    assert isinstance(public, ec.EllipticCurvePublicKey)
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    public.verify(signature, text, ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        public.verify(signature, text + b" ", ec.ECDSA(hashes.SHA256()))
    statement = json.loads(payload)
    digests = [hashlib.sha256(FILES[name]).hexdigest() for name in sorted(FILES)]
    assert [item["digest"] for item in statement["predicate"]["resources"]] == digests
    whole = hashlib.sha256(bytes.fromhex("".join(digests))).hexdigest()
    assert statement["subject"] == [{"name": "stsa-7", "digest": {"sha256": whole}}]


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "exporting.pem"
    first = public_pem(load_or_make_key(file))
    assert public_pem(load_or_make_key(file)) == first == file.with_suffix(".pub").read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_key_that_the_format_does_not_know_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.pem"
    for key in (Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP384R1())):
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        with pytest.raises(SigningKeyError, match="no key on the curve P-256"):
            load_or_make_key(file)
    file.write_bytes(b"no key")
    with pytest.raises(SigningKeyError, match="no private key in PEM"):
        load_or_make_key(file)
    with pytest.raises(SigningKeyError, match="choose another place"):
        load_or_make_key(tmp_path / "nowhere" / "key.pem")


def test_the_authors_own_program_verifies_it_and_notices_every_change(folder: Path) -> None:
    verifying = pytest.importorskip(
        "model_signing.verifying", reason="pip install model-signing pyopenssl"
    )

    def verify() -> None:
        config = verifying.Config().use_elliptic_key_verifier(
            public_key=folder.parent / "exporting.pub"
        )
        config.verify(folder, folder / "model.sig")

    verify()
    (folder / "model.onnx").write_bytes(b"A model")
    with pytest.raises(ValueError, match="mismatch"):
        verify()
    (folder / "model.onnx").write_bytes(FILES["model.onnx"])
    (folder / "more.onnx").write_bytes(b"one file too many")
    with pytest.raises(ValueError, match="mismatch"):
        verify()
    (folder / "more.onnx").unlink()
    other = load_or_make_key(folder.parent / "other.pem")
    (folder / "model.sig").write_bytes(signed_bundle("stsa-7", FILES, "model.sig", other))
    with pytest.raises(ValueError, match="mismatch"):
        verify()

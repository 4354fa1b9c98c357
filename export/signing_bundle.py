"""Signs files as OpenSSF Model Signing 1.0 has it, for programs that know nothing of a fleet.

    bundle       Sigstore bundle 0.3, key method: the public key is named by the SHA-256 of its PEM
    envelope     DSSE: ECDSA over "DSSEv1 <length> <type> <length> <statement>"
    statement    in-toto 1: the subject is the SHA-256 over the digests of all files, in their order
    predicate    https://model_signing/signature/v1.0: SHA-256 of each file, by name

That format knows no Ed25519, so this key, on the curve P-256, is none of the fleet's: it vouches
for what was exported, and devices believe it nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fleetledger.export.errors import SigningKeyError
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.whole_file import write_whole
from fleetledger.schemas.canonical import canonical_json

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def signed_bundle(
    name: str, files: Mapping[str, bytes], own_file: str, key: ec.EllipticCurvePrivateKey
) -> bytes:
    """Return the bundle over `files`, name to bytes, that lie in one folder.

    `name` is the model's; `own_file` is the bundle's own name in that folder, which is left out.
    """
    statement = canonical_json(_statement(name, files, own_file))
    signature = key.sign(_authenticated(statement), ec.ECDSA(hashes.SHA256()))
    bundle = {
        "mediaType": _BUNDLE_TYPE,
        "verificationMaterial": {
            "publicKey": {"hint": hashlib.sha256(public_pem(key)).hexdigest()},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": _base64(statement),
            "payloadType": _PAYLOAD_TYPE,
            "signatures": [{"sig": _base64(signature), "keyid": ""}],
        },
    }
    return canonical_json(bundle) + b"\n"


def load_or_make_key(file: Path) -> ec.EllipticCurvePrivateKey:
    """Read the private key in `file`, or make one there, and its public half as `file`.pub.

    Raises `SigningKeyError` where it is no key on the curve P-256, or cannot be read or written.
    """
    try:
        if not file.exists():
            _make_key(file)
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except OSError as error:
        raise SigningKeyError(f"{file}: {error.strerror}; choose another place") from error
    except (TypeError, ValueError) as error:
        raise SigningKeyError(f"{file}: no private key in PEM without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise SigningKeyError(
            f"{file}: is no key on the curve P-256, which this format asks for; name a file that "
            "is not there yet, and it is made"
        )
    return key


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public half as PEM, as verifiers take it."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _make_key(file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_private(file, pem)
    write_whole(file.with_suffix(".pub"), public_pem(key))


def _statement(name: str, files: Mapping[str, bytes], own_file: str) -> dict[str, Any]:
    digests = {file: hashlib.sha256(data) for file, data in sorted(files.items())}
    whole = hashlib.sha256(b"".join(digest.digest() for digest in digests.values()))
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": whole.hexdigest()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": [own_file],
            },
            "resources": [
                {"name": file, "algorithm": "sha256", "digest": digest.hexdigest()}
                for file, digest in digests.items()
            ],
        },
    }


def _authenticated(statement: bytes) -> bytes:
    """Return DSSE's encoding of type and statement, over which the signature is."""
    head = f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(statement)} "
    return head.encode("ascii") + statement


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

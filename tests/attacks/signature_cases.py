"""Signatures that are missing, wrong, or over something else."""

from __future__ import annotations

from fleetledger.schemas.roots import DOMAIN as ROOT_DOMAIN
from fleetledger.schemas.signatures import name_of
from tests.attacks.pieces import (
    DAY,
    ORDER,
    Case,
    altered,
    for_purpose,
    good_raw,
    good_text,
    sends,
    signature,
    text_of,
    with_signature,
)
from tests.attacks.target import (
    DEVICE,
    FIRST,
    KEY,
    LUCKY,
    NOW,
    OLD_KEY,
    WITH,
    WITHOUT,
    manifest_of,
    release,
)
from tests.schemas.signing import STRANGER

SIGNATURES = (
    Case("no release at all", "release key", lambda: sends(None), "there is none"),
    Case(
        "a release signed by a stranger",
        "release key",
        lambda: sends(release(6, 3, by=STRANGER)),
        "does not name for releases",
    ),
    Case(
        "a stranger's signature under the hash of the release key",
        "release key",
        lambda: sends(
            with_signature(
                release(6, 3),
                release(6, 3, by=STRANGER).signature.model_copy(
                    update={"key": name_of(KEY.verify_key)}
                ),
            )
        ),
        "altered",
    ),
    Case(
        "a new release by a key that was revoked",
        "release key",
        lambda: sends(release(6, 3, by=OLD_KEY)),
        "no longer",
    ),
    Case(
        "the highest number there is, by a key that was revoked",
        "release key",
        lambda: sends(release(2**63 - 1, 3, by=OLD_KEY)),
        "no longer",
    ),
    Case(
        "an old release replayed, whose key was revoked",
        "release key",
        lambda: sends(release(3, 1, by=OLD_KEY), 1),
        "no longer",
    ),
    Case(
        "the revoked key and the root that still named it",
        "release key",
        lambda: sends(release(6, 3, by=OLD_KEY), roots=(FIRST,)),
        "version 1 is offered, and version 2 is known",
    ),
    Case("an empty signature", "release key", lambda: signature(""), "cut short"),
    Case(
        "a signature without its last letter",
        "release key",
        lambda: signature(good_text()[:-1]),
        "cut short",
    ),
    Case("half a signature", "release key", lambda: signature(good_text()[:44]), "cut short"),
    Case(
        "a signature of 63 bytes",
        "release key",
        lambda: signature(text_of(good_raw()[:63])),
        "cut short",
    ),
    Case(
        "a signature of 65 bytes",
        "release key",
        lambda: signature(text_of(good_raw() + b"\x00")),
        "cut short or altered",
    ),
    Case(
        "the signature in another spelling",
        "release key",
        lambda: signature(good_text()[:85] + chr(ord(good_text()[85]) + 1) + "=="),
        "cut short or altered",
    ),
    Case(
        "the signature in hexadecimal",
        "release key",
        lambda: signature(good_raw().hex()),
        "cut short or altered",
    ),
    Case("a signature of zeros", "release key", lambda: signature(text_of(bytes(64))), "altered"),
    Case(
        "a signature with one bit changed",
        "release key",
        lambda: signature(text_of(bytes([good_raw()[0] ^ 1]) + good_raw()[1:])),
        "altered",
    ),
    Case(
        "the signature's second half raised by the group's order",
        "release key",
        lambda: signature(
            text_of(
                good_raw()[:32]
                + (int.from_bytes(good_raw()[32:], "little") + ORDER).to_bytes(32, "little")
            )
        ),
        "altered",
    ),
    Case(
        "the signature of another release",
        "release key",
        lambda: sends(with_signature(release(6, 3), release(5, 2).signature)),
        "altered",
    ),
    Case(
        "a signature of the release key for roots",
        "release key",
        lambda: for_purpose(ROOT_DOMAIN),
        "altered",
    ),
    Case(
        "a signature of the release key for messages",
        "release key",
        lambda: for_purpose("fleetledger/envelope/1"),
        "altered",
    ),
    Case(
        "a signature of the release key for no purpose",
        "release key",
        lambda: for_purpose(""),
        "altered",
    ),
    Case(
        "the release key's hash in capitals",
        "release key",
        lambda: sends(
            with_signature(
                release(6, 3),
                release(6, 3).signature.model_copy(update={"key": "ABCDEF01"}),
            )
        ),
        "does not name for releases",
    ),
)

FIELDS = (
    Case(
        "an old release under a raised number",
        "release key",
        lambda: sends(altered(release(3, 1), number=6), 1),
        "altered",
    ),
    Case(
        "a release under another version",
        "release key",
        lambda: sends(altered(version=4), 4),
        "altered",
    ),
    Case(
        "a release for another manifest",
        "release key",
        lambda: sends(altered(release(6, 4), manifest=manifest_of(3).digest, version=3)),
        "altered",
    ),
    Case(
        "an expiry put off",
        "release key",
        lambda: sends(altered(release(6, 3, expires_ns=NOW - DAY), expires_ns=NOW + DAY)),
        "altered",
    ),
    Case(
        "an expiry taken out",
        "release key",
        lambda: sends(altered(release(6, 3, expires_ns=NOW - DAY), expires_ns=None)),
        "altered",
    ),
    Case(
        "a share made wider, so that this device is in it",
        "release key",
        lambda: sends(altered(release(6, 3, share=WITHOUT), share=WITH)),
        "altered",
    ),
    Case(
        "a share with another salt, by which this device is in it",
        "release key",
        lambda: sends(
            altered(release(6, 3, share=WITHOUT), share=WITHOUT.model_copy(update={"salt": LUCKY}))
        ),
        "altered",
    ),
    Case(
        "a release for a share made one for all",
        "release key",
        lambda: sends(altered(release(6, 3, share=WITHOUT), share=None)),
        "altered",
    ),
    Case(
        "a release for a share made one for this device by its name",
        "release key",
        lambda: sends(altered(release(6, 3, share=WITHOUT), share=None, devices=(DEVICE,))),
        "altered",
    ),
    Case(
        "a release for one device made one for all",
        "release key",
        lambda: sends(altered(release(6, 3, devices=("dev-2",)), devices=None)),
        "altered",
    ),
    Case(
        "this device put into another one's release",
        "release key",
        lambda: sends(altered(release(6, 3, devices=("dev-2",)), devices=("dev-2", DEVICE))),
        "altered",
    ),
    Case(
        "another fleet's release under this fleet's name",
        "release key",
        lambda: sends(altered(release(6, 3, fleet="harbour"), fleet="orchard")),
        "altered",
    ),
)

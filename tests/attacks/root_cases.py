"""Forged roots, and coordinators that were stolen."""

from __future__ import annotations

from fleetledger.schemas.releases import DOMAIN as RELEASE_DOMAIN
from fleetledger.schemas.roots import SignedRoot
from fleetledger.schemas.signatures import KeySignature, name_of
from tests.attacks.pieces import (
    THIEVES,
    Case,
    contradicting,
    next_root,
    renamed,
    sends,
    thieves_root,
    unreadable,
)
from tests.attacks.target import FIRST, KEY, ROOTS, release
from tests.schemas import signing
from tests.schemas.signing import COORDINATOR, STRANGER

ROOT = (
    Case(
        "a root of the thief's by his own keys",
        "root",
        lambda: thieves_root(THIEVES),
        "0 of the 2 signatures that version 2",
    ),
    Case(
        "a root of the thief's and one stolen root key",
        "root",
        lambda: thieves_root((*THIEVES, signing.ROOTS[0])),
        "1 of the 2 signatures that version 2",
    ),
    Case(
        "a root of the thief's that two root keys signed for themselves",
        "root",
        lambda: thieves_root(signing.ROOTS[:2]),
        "0 of the 1 signature that version 3",
    ),
    Case(
        "a root by the release key and the coordinator",
        "root",
        lambda: thieves_root((*THIEVES, KEY, COORDINATOR)),
        "0 of the 2",
    ),
    Case(
        "a root with a threshold lowered to one, by one",
        "root",
        lambda: sends(
            release(6, 3, by=STRANGER),
            roots=(
                *ROOTS,
                next_root(signing.ROOTS[:1], threshold=1, release_keys=(STRANGER.verify_key,)),
            ),
        ),
        "1 of the 2 signatures that version 2",
    ),
    Case(
        "a root that one key signed twice",
        "root",
        lambda: sends(
            release(6, 3),
            roots=(
                *ROOTS,
                SignedRoot(
                    document=signing.document(3),
                    signatures=next_root(signing.ROOTS[:1]).signatures * 2,
                ),
            ),
        ),
        "1 of the 2",
    ),
    Case(
        "a root with a signature cut short",
        "root",
        lambda: sends(
            release(6, 3),
            roots=(
                *ROOTS,
                SignedRoot(
                    document=signing.document(3),
                    signatures=(
                        next_root(signing.ROOTS[:1]).signatures[0],
                        KeySignature(key=name_of(signing.ROOTS[1].verify_key), signature="AAAA"),
                    ),
                ),
            ),
        ),
        "cut short",
    ),
    Case(
        "a root signed as if it were a release",
        "root",
        lambda: sends(
            release(6, 3),
            roots=(
                *ROOTS,
                SignedRoot(
                    document=signing.document(3),
                    signatures=tuple(
                        KeySignature.of(item, RELEASE_DOMAIN, signing.document(3).canonical_bytes())
                        for item in signing.ROOTS[:2]
                    ),
                ),
            ),
        ),
        "altered",
    ),
    Case(
        "a root of a lower version",
        "root",
        lambda: sends(release(6, 3), roots=(FIRST,)),
        "version 1 is offered, and version 2 is known",
    ),
    Case(
        "another root of the version that is known",
        "root",
        lambda: sends(
            release(6, 3, by=STRANGER),
            roots=(FIRST, signing.root(2, release_keys=contradicting().release_keys)),
        ),
        "one of them is not this fleet's",
    ),
    Case(
        "a root that leaves a version out",
        "root",
        lambda: sends(release(6, 3), roots=(*ROOTS, next_root(signing.ROOTS, 4))),
        "version 4 does not follow version 2",
    ),
    Case(
        "a good root and behind it a forged one",
        "root",
        lambda: sends(
            release(6, 3, by=STRANGER),
            roots=(
                *ROOTS,
                next_root(signing.ROOTS),
                next_root(THIEVES, 4, release_keys=(STRANGER.verify_key,)),
            ),
        ),
        "0 of the 2 signatures that version 4",
    ),
    Case(
        "another fleet's root by the same keys",
        "root",
        lambda: sends(
            release(6, 3, by=STRANGER),
            roots=(
                *ROOTS,
                next_root(signing.ROOTS, fleet="harbour", release_keys=(STRANGER.verify_key,)),
            ),
        ),
        "of the fleet 'harbour'",
    ),
    Case(
        "a root in which a release key is a root key under another name",
        "root",
        lambda: unreadable(
            "roots",
            1,
            "document",
            "release_keys",
            value=[str(renamed(signing.ROOTS[0].verify_key, "release"))],
        ),
        "stands in the document twice",
    ),
    Case(
        "a release by a root key",
        "root",
        lambda: sends(release(6, 3, by=signing.ROOTS[0])),
        "does not name for releases",
    ),
)

COORDINATORS = (
    Case(
        "a release by the coordinator's key",
        "coordinator",
        lambda: sends(release(6, 3, by=COORDINATOR)),
        "does not name for releases",
    ),
    Case(
        "a stolen coordinator without the release key, under the highest action",
        "coordinator",
        lambda: sends(None, action=2**63 - 1),
        "there is none",
    ),
    Case(
        "a stolen coordinator that leaves the roots out",
        "coordinator",
        lambda: sends(release(6, 3, by=COORDINATOR), roots=()),
        "root version 2 does not name",
    ),
    Case(
        "a stolen coordinator that begins a root of its own",
        "coordinator",
        lambda: sends(
            release(6, 3, by=STRANGER),
            roots=(signing.root(1, release_keys=(STRANGER.verify_key,)),),
        ),
        "version 1 is offered, and version 2 is known",
    ),
    Case(
        "a coordinator that says it is the release",
        "coordinator",
        lambda: unreadable("release", value="yes"),
        "release",
    ),
)

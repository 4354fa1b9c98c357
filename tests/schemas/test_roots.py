"""A root counts by its threshold, and the next one also by that of the one before."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.envelope import MAX_HEADER_BYTES
from fleetledger.schemas.errors import ReleaseError, SignatureError
from fleetledger.schemas.keys import KeyName, SigningKey, VerifyKey
from fleetledger.schemas.roots import MAX_KEYS, MAX_ROOT_BYTES, MAX_ROOTS, SignedRoot, follow
from fleetledger.schemas.signatures import KeySignature
from fleetledger.schemas.values import FleetId
from tests.schemas.signing import COORDINATOR, FLEET, RELEASE, ROOTS, SPARE, document, key, root

NEW = tuple(key("root") for _ in range(2))


def test_what_is_written_is_read_again_and_no_other_bytes_are() -> None:
    data = root().canonical_bytes()
    assert SignedRoot.read(data) == root()
    assert SignedRoot.read(data + b"\n") == root()
    for other in (data + b" ", data.replace(b":", b": ", 1), data[:-1], b"", b"\n", b"[]"):
        with pytest.raises(SchemaError):
            SignedRoot.read(other)


def test_every_changed_bit_of_a_root_is_refused() -> None:
    data = root().canonical_bytes()
    for place in range(0, len(data), 3):
        for bit in (0, 5):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(SchemaError):
                SignedRoot.read(bytes(changed)).check(FLEET)


def test_a_root_needs_as_many_of_its_keys_as_it_says() -> None:
    root().check(FLEET)
    assert root(by=ROOTS[:1]).missing() == 1
    with pytest.raises(SignatureError, match="1 of the 2 signatures"):
        root(by=ROOTS[:1]).check(FLEET)


def test_a_key_counts_once_however_often_it_signed() -> None:
    twice = root(by=ROOTS[:1])
    twice = twice.model_copy(update={"signatures": twice.signatures * 2})
    with pytest.raises(SignatureError, match="1 of the 2"):
        twice.check(FLEET)
    assert len(root(by=(ROOTS[0], ROOTS[0])).signatures) == 1


def test_keys_of_other_roles_do_not_count_for_a_root() -> None:
    with pytest.raises(SignatureError, match="1 of the 2"):
        root(by=(ROOTS[0], RELEASE)).check(FLEET)


def test_one_wrong_signature_spoils_a_root_that_has_enough() -> None:
    good = root(by=ROOTS)
    forged = KeySignature.of(ROOTS[2], "fleetledger/release/1", good.document.canonical_bytes())
    spoiled = good.model_copy(update={"signatures": (*good.signatures[:2], forged)})
    with pytest.raises(SignatureError, match="altered"):
        spoiled.check(FLEET)


def test_the_next_root_needs_the_threshold_of_the_former_and_its_own() -> None:
    keys = tuple(item.verify_key for item in NEW)
    former = document()
    changed = {"root_keys": keys, "threshold": 2}
    root(2, (*ROOTS[:2], *NEW), **changed).check(FLEET, former)
    for by in (NEW, ROOTS, (*ROOTS[:1], *NEW), (*ROOTS, *NEW[:1])):
        with pytest.raises(SignatureError):
            root(2, by, **changed).check(FLEET, former)


@pytest.mark.parametrize("version", [1, 3])
def test_versions_follow_one_another_without_a_gap(version: int) -> None:
    with pytest.raises(ReleaseError, match="does not follow"):
        root(version).check(FLEET, document())


def test_a_root_of_another_fleet_is_refused() -> None:
    with pytest.raises(ReleaseError, match="'harbour'"):
        root(fleet="harbour").check(FLEET)
    with pytest.raises(ReleaseError, match="'harbour'"):
        follow(root(), [root(2, fleet="harbour")])


def test_whoever_was_away_follows_the_chain() -> None:
    chain = [root(number) for number in range(1, 6)]
    assert follow(chain[0], chain) == chain[4]
    assert follow(chain[2], chain) == chain[4]
    assert follow(chain[4], chain) == chain[4]
    assert follow(chain[4], []) == chain[4]


def test_a_chain_with_a_gap_or_that_ends_too_early_is_refused() -> None:
    chain = [root(number) for number in range(1, 6)]
    with pytest.raises(ReleaseError, match="version 5 does not follow version 3"):
        follow(chain[2], [chain[2], chain[4]])
    with pytest.raises(ReleaseError, match="version 2 is offered, and version 4 is known"):
        follow(chain[3], chain[:2])


def test_two_roots_of_one_version_are_told_apart() -> None:
    with pytest.raises(ReleaseError, match="one of them is not this fleet's"):
        follow(root(2), [root(2, release_keys=(SPARE.verify_key,))])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"threshold": 4}, "4 of 3 root keys cannot agree"),
        ({"threshold": 0}, "threshold"),
        ({"release_keys": ()}, "release_keys"),
        ({"root_keys": (ROOTS[0].verify_key, ROOTS[0].verify_key)}, "stands in the document twice"),
        ({"release_keys": (ROOTS[0].verify_key,)}, "stands in the document twice"),
        ({"coordinator_keys": (RELEASE.verify_key,)}, "stands in the document twice"),
        ({"version": 0}, "version"),
    ],
)
def test_a_document_that_could_not_work_is_none(change: dict, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        document(**change)


def test_one_key_under_two_names_is_one_key() -> None:
    other = VerifyKey.of(KeyName("orchard/alias"), ROOTS[0].verify_key.public)
    with pytest.raises(ValidationError, match="twice"):
        document(root_keys=(ROOTS[0].verify_key, other))


def test_a_root_expires() -> None:
    document(expires_ns=10).check_not_expired(9)
    with pytest.raises(ReleaseError, match="version 1 has expired"):
        document(expires_ns=10).check_not_expired(10)
    document().check_not_expired(2**62)


def test_the_longest_chain_of_the_largest_roots_fits_a_message() -> None:
    def keys() -> tuple[SigningKey, ...]:
        return tuple(key("x" * (127 - len(FLEET) - 1)) for _ in range(MAX_KEYS))

    first, second = keys(), keys()
    shown = tuple(item.verify_key for item in first)
    others = {"release_keys": tuple(item.verify_key for item in keys())}
    others["coordinator_keys"] = tuple(item.verify_key for item in keys())
    largest = root(2**31 - 1, (*first, *second), root_keys=shown, threshold=MAX_KEYS, **others)
    size = len(largest.canonical_bytes())
    assert size <= MAX_ROOT_BYTES
    assert size * MAX_ROOTS < MAX_HEADER_BYTES - 16 * 1024
    assert FleetId(FLEET) == largest.document.fleet
    assert COORDINATOR.verify_key not in largest.document.keys

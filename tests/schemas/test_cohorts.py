"""A cohort is of devices that each say, signed, that they are in it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.cohorts import (
    CohortMember,
    CohortOrder,
    CohortReveal,
    DeviceRoster,
    Hex32,
    Joining,
    MaskedCohort,
    cohort_device,
    is_cohort,
    threshold_of,
)
from fleetledger.schemas.contributions import Contribution
from fleetledger.schemas.errors import SignatureError
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.values import DeviceId, Digest, FleetId
from tests.schemas.examples import CAT, DIGEST, KEY, OFFER

FLEET = FleetId("harbour")
NAMES = tuple(DeviceId(f"dev-{number}") for number in range(4))
KEYS = {name: SigningKey.fresh(KeyName(f"harbour/device/{name}")) for name in NAMES}
ROSTER = DeviceRoster(fleet=FLEET, keys={name: key.verify_key for name, key in KEYS.items()})


def member(name: DeviceId, **changes: Any) -> CohortMember:
    said = {"stage": 2, "part": 7, "lineage": DIGEST, "commitment": DIGEST}
    joining = Joining(mask_key=Hex32(Digest.of(name.encode())), **said)
    key = KEYS[name]
    signed = joining.signature(FLEET, name, key)
    made = CohortMember(device=name, joining=joining, key=key.verify_key, signature=signed)
    return made.model_copy(update=changes)


def cohort(**changes: Any) -> MaskedCohort:
    values: dict[str, Any] = {
        "number": 3,
        "stage": 2,
        "lineage": DIGEST,
        "class_names": (CAT,),
        "threshold": 3,
        "members": tuple(map(member, NAMES)),
    }
    return MaskedCohort(**values | changes)


def test_a_member_is_believed_by_its_signature_and_the_roots_roster() -> None:
    for one in cohort().members:
        one.check(FLEET, ROSTER)
        one.check(FLEET, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": member(NAMES[1]).signature},
        {"joining": member(NAMES[1]).joining},
        {"device": NAMES[1]},
        {"key": KEYS[NAMES[1]].verify_key},
    ],
)
def test_what_another_signed_is_not_believed(changes: dict[str, Any]) -> None:
    with pytest.raises(SignatureError):
        member(NAMES[0], **changes).check(FLEET, None)


def test_a_device_that_the_root_does_not_name_is_none() -> None:
    fewer = {name: key for name, key in ROSTER.keys.items() if name != NAMES[0]}
    roster = DeviceRoster(fleet=FLEET, keys=fewer)
    with pytest.raises(SignatureError, match="trust rotate --devices"):
        member(NAMES[0]).check(FLEET, roster)
    with pytest.raises(SignatureError, match="has no key"):
        member(NAMES[0], key=None, signature=None).check(FLEET, roster)
    member(NAMES[0], key=None, signature=None).check(FLEET, None)


def test_another_fleets_signature_counts_nothing() -> None:
    with pytest.raises(SignatureError):
        member(NAMES[0]).check(FleetId("other"), ROSTER)


@pytest.mark.parametrize(
    "changes",
    [
        {"members": tuple(map(member, NAMES[:2])), "threshold": 2},
        {"members": tuple(map(member, reversed(NAMES)))},
        {"members": (*map(member, NAMES[:3]), member(NAMES[3], key=KEYS[NAMES[0]].verify_key))},
        {"members": (*map(member, NAMES[:3]), member(NAMES[3], joining=member(NAMES[0]).joining))},
        {"threshold": 2},
        {"threshold": 5},
        {"stage": 3},
        {"round": 1},
    ],
)
def test_what_is_no_cohort_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        cohort(**changes)


def test_a_cohort_is_named_by_all_that_it_is() -> None:
    assert cohort().name == cohort().name
    others = (cohort(number=4), cohort(threshold=4), cohort(class_names=()))
    assert len({cohort().name, *(other.name for other in others)}) == 4


def test_an_order_never_asks_for_both_of_one_member() -> None:
    with pytest.raises(ValidationError, match="none of them in both"):
        CohortOrder(cohort=cohort(), step="opening", silent=NAMES[:1], shares={NAMES[0]: "A" * 64})
    with pytest.raises(ValidationError, match="the cohort needs 3"):
        CohortOrder(cohort=cohort(), step="silent", silent=NAMES[:2])


def test_a_device_tells_seeds_or_shares() -> None:
    seeds, told = {NAMES[0]: Hex32("ab" * 32)}, {NAMES[1]: "0" * 66}
    for wrong in ({}, {"seeds": seeds, "shares": told}):
        with pytest.raises(ValidationError, match="one of both"):
            CohortReveal(number=1, **wrong)


def test_a_roster_is_read_by_its_digest() -> None:
    data = ROSTER.canonical_bytes()
    assert DeviceRoster.read(data, Digest.of(data)) == ROSTER
    with pytest.raises(SchemaError, match="which the root names"):
        DeviceRoster.read(data, DIGEST)


def test_more_than_two_thirds_open_a_sum() -> None:
    assert [threshold_of(members) for members in (3, 4, 8, 12, 64)] == [3, 3, 6, 9, 43]


def test_the_name_of_a_sum_is_known() -> None:
    assert is_cohort(cohort_device(12))
    assert not any(map(is_cohort, ("cohort-", "cohort-x", "dev-1", "cohort-1b")))


def test_masked_words_say_no_samples_and_others_do() -> None:
    given: dict[str, Any] = {
        "key": KEY,
        "revision": 0,
        "method": "stsa",
        "lineage": DIGEST,
        "payload": OFFER.digest,
        "payload_bytes": OFFER.size,
        "offer": OFFER,
    }
    answer = {"number": 3, "shares": dict.fromkeys(NAMES[1:], "A" * 64)}
    Contribution(**given, payload_kind="masked", samples={}, cohort=answer)
    for wrong in (
        {"payload_kind": "masked", "samples": {CAT: 2}, "cohort": answer},
        {"payload_kind": "statistics", "samples": {}},
        {"payload_kind": "statistics", "samples": {}, "cohort": answer},
        {"payload_kind": "masked", "samples": {CAT: 2}},
    ):
        with pytest.raises(ValidationError):
            Contribution(**given, **wrong)

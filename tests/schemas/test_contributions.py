"""What contributions, withdrawals and 'nothing' promise."""

from typing import Any

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.contributions import (
    MAX_PAYLOAD_BYTES,
    Contribution,
    Nothing,
    PartKey,
    Withdrawal,
)
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.values import Digest

PAYLOAD = Digest.of(b"payload")


def fields(**changes: Any) -> dict[str, Any]:
    good = {
        "key": {"stage": 1, "part": 0},
        "revision": 0,
        "payload_kind": "statistics",
        "method": "stsa",
        "lineage": Digest.of(b"frozen.onnx"),
        "payload": PAYLOAD,
        "payload_bytes": INLINE_LIMIT,
        "samples": {"cat": 3},
    }
    return {**good, **changes}


def offer(size: int, digest: Digest = PAYLOAD) -> dict[str, Any]:
    listed = Offer(digest=digest, size=size, list_digest=Digest.of(b"list"))
    return listed.model_dump(mode="json")


def test_a_payload_up_to_64_kib_may_be_attached() -> None:
    assert Contribution.read(fields()).offer is None


def test_a_larger_payload_must_be_offered() -> None:
    large = INLINE_LIMIT + 1
    with pytest.raises(SchemaError, match="payloads above 65536 bytes must be offered"):
        Contribution.read(fields(payload_bytes=large))
    assert Contribution.read(fields(payload_bytes=large, offer=offer(large)))


def test_a_small_payload_may_be_offered_too() -> None:
    assert Contribution.read(fields(payload_bytes=9, offer=offer(9)))


@pytest.mark.parametrize("wrong", [offer(INLINE_LIMIT - 1), offer(INLINE_LIMIT, Digest.of(b"x"))])
def test_an_offer_of_something_else_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="digest and size must be those of the payload"):
        Contribution.read(fields(offer=wrong))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": {"stage": 0, "part": 0}}, r"key\.stage: 0: Input should be greater than or equal"),
        ({"key": {"stage": 1, "part": -1}}, r"key\.part: -1: Input should be greater than or equ"),
        ({"key": {"stage": 1}}, r"key\.part: is missing; give it"),
        ({"revision": -1}, "revision: -1: "),
        ({"revision": 2**31}, "revision: 2147483648: Input should be less than 2147483648"),
        ({"payload_kind": "pickle"}, "payload_kind: 'pickle': Input should be 'statistics', "),
        ({"payload": "abc"}, "payload: 'abc': Digest: 'abc' is not allowed; give 64 lower-case"),
        ({"payload_bytes": 0}, "payload_bytes: 0: "),
        ({"payload_bytes": MAX_PAYLOAD_BYTES + 1}, "payload_bytes: 1073741825: "),
        ({"samples": {}}, "body: .* samples: none behind masks, and at least one class without"),
        ({"samples": {"cat": 0}}, r"samples\.cat: 0: Input should be greater than or equal to 1"),
        ({"samples": {"cat": 1.5}}, r"samples\.cat: 1\.5: Input should be a valid integer"),
        ({"samples": {"a/b": 1}}, r"samples\.a/b.*: ClassName: 'a/b' is not allowed; give 1"),
        ({"samples": {"caf\u00e9": 1, "cafe\u0301": 1}}, "samples: .* send one entry per class"),
        ({"samples": {f"c{i}": 1 for i in range(10_001)}}, "samples: .* at most 10000 items"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SchemaError, match=f"contribution: {told}"):
        Contribution.read(fields(**changes))


def test_a_class_name_arrives_in_its_one_form() -> None:
    read = Contribution.read(fields(samples={"cafe\u0301": 2}))
    assert list(read.samples) == ["caf\u00e9"]


def test_a_withdrawal_says_why() -> None:
    with pytest.raises(SchemaError, match="withdrawal: reason: is missing"):
        Withdrawal.read({"key": {"stage": 1, "part": 0}, "revision": 1})


@pytest.mark.parametrize("stage", [0, -1, 2**31, "1"])
def test_nothing_is_said_about_a_stage_that_can_exist(stage: Any) -> None:
    with pytest.raises(SchemaError, match="nothing: stage: "):
        Nothing.read({"stage": stage})


def test_a_model_of_checked_values_is_the_one_that_would_be_made() -> None:
    values = {"stage": 2, "part": 7}
    quick, made = PartKey.of_known(**values), PartKey(**values)
    assert quick == made
    assert hash(quick) == hash(made)
    assert quick.model_dump() == made.model_dump()
    assert quick.model_copy(update={"part": 8}) == PartKey(stage=2, part=8)

"""What receipts promise."""

from typing import Any

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused

KEY = {"stage": 1, "part": 0}


def receipt(answer: dict[str, Any]) -> Receipt:
    return Receipt.read({"about": "contribution", "key": KEY, "revision": 3, "answer": answer})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"answer": "accepted", "ledger_index": 4}, Accepted),
        ({"answer": "refused", "reason": "payload: shape (3,) is not (1250,)"}, Refused),
        ({"answer": "later", "after_seconds": 2}, Later),
    ],
)
def test_each_of_the_three_answers_is_told_by_its_name(answer: dict[str, Any], kind: type) -> None:
    assert isinstance(receipt(answer).answer, kind)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"answer": "perhaps"}, "'perhaps'"),
        ({}, "Unable to extract tag"),
        ({"answer": "accepted"}, r"answer\.accepted\.ledger_index: is missing"),
        ({"answer": "refused"}, r"answer\.refused\.reason: is missing"),
        ({"answer": "refused", "reason": "x" * 501}, "at most 500 characters"),
        ({"answer": "later", "after_seconds": 0}, r"answer\.later\.after_seconds: 0: "),
        ({"answer": "later", "after_seconds": 3601}, r"answer\.later\.after_seconds: 3601: "),
        ({"answer": "later", "after_seconds": 1, "ledger_index": 4}, "ledger_index: 4: unknown"),
    ],
)
def test_a_wrong_answer_is_refused_by_name(answer: dict[str, Any], told: str) -> None:
    with pytest.raises(SchemaError, match=f"receipt: .*{told}"):
        receipt(answer)


def test_a_receipt_is_about_what_is_kept_in_the_outbox() -> None:
    with pytest.raises(SchemaError, match="about: 'heartbeat': Input should be 'contribution'"):
        Receipt.read({"about": "heartbeat", "key": KEY, "answer": {"answer": "later"}})

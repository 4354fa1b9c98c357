"""Rounds: the order in an assignment, the answer in a contribution."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import Contribution
from tests.schemas.examples import EXAMPLES, OFFER

ORDERED = next(m for m in EXAMPLES if isinstance(m, Assignment) and m.round is not None)
ANSWER = next(m for m in EXAMPLES if isinstance(m, Contribution) and m.round is not None)


def test_an_assignment_names_every_file_that_its_work_needs() -> None:
    assert ORDERED.offers == (OFFER, OFFER)
    assert ORDERED.model_copy(update={"round": None}).offers == ()
    assert ORDERED.model_copy(update={"round": None, "frozen": OFFER}).offers == (OFFER,)


def test_the_part_of_an_answer_is_the_number_of_its_round() -> None:
    values = ANSWER.model_dump() | {"key": {"stage": 2, "part": 8}}
    with pytest.raises(ValidationError, match=r"key\.part: 8; an answer to round 7"):
        Contribution.model_validate(values)


@pytest.mark.parametrize(
    ("field", "value"),
    [("number", 0), ("phase", "Train"), ("deadline_seconds", 0.0), ("seed", -1)],
)
def test_a_wrong_order_is_refused_by_field(field: str, value: object) -> None:
    assert ORDERED.round is not None
    values = ORDERED.model_dump()
    values["round"][field] = value
    with pytest.raises(ValidationError, match=field):
        Assignment.model_validate(values)

"""What a device's reports about itself promise."""

from typing import Any

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.reports import Evaluation, Problem, WaitingClasses
from tests.schemas.examples import EXAMPLES

GOOD = next(body for body in EXAMPLES if isinstance(body, Evaluation)).model_dump(mode="json")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"results": {"cat": {"correct": 3, "total": 2}}}, "correct: 3 of 2 is impossible"),
        ({"results": {"cat": {"correct": 0, "total": 0}}}, r"results\.cat\.total: 0: "),
        ({"results": {"cat": {"correct": -1, "total": 1}}}, r"results\.cat\.correct: -1: "),
        ({"seconds": -0.1}, r"seconds: -0\.1: "),
        ({"version": 0}, "version: 0: "),
        ({"bytes_up": -5}, "bytes_up: -5: "),
    ],
)
def test_an_impossible_evaluation_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SchemaError, match=f"evaluation: .*{told}"):
        Evaluation.read({**GOOD, **changes})


def test_a_device_without_held_out_images_may_say_so() -> None:
    assert Evaluation.read({**GOOD, "results": {}}).results == {}


@pytest.mark.parametrize("count", [-1, 10**9 + 1, 2.5, "3"])
def test_waiting_images_are_counted_in_whole_numbers(count: Any) -> None:
    with pytest.raises(SchemaError, match=r"waiting-classes: classes\.dog: "):
        WaitingClasses.read({"classes": {"dog": count}})


def test_a_problem_has_bounded_text() -> None:
    with pytest.raises(SchemaError, match=r"problem: text: .* at most 500 characters"):
        Problem.read({"about": "image", "text": "x" * 501})

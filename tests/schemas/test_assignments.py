"""What assignments promise."""

from typing import Any

import pytest

from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.assignments import Assignment
from tests.schemas.examples import EXAMPLES

GOOD = next(body for body in EXAMPLES if isinstance(body, Assignment)).model_dump(mode="json")


def test_the_method_s_own_settings_pass_as_they_are() -> None:
    settings = {"form": "compact", "bits": 10, "nested": {"list": [1, 2.5, None]}}
    assert Assignment.read({**GOOD, "settings": settings}).settings == settings


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"action": -1}, "action: -1: "),
        ({"stage": 0}, "stage: 0: "),
        ({"method": ""}, "method: '': "),
        ({"settings": [1]}, r"settings: \[1\]: "),
        ({"lineage": "frozen.onnx"}, "lineage: 'frozen.onnx': Digest: "),
        ({"class_names": ["cat", "../etc"]}, r"class_names\.1: '\.\./etc': ClassName: "),
        ({"max_samples_per_part": 0}, "max_samples_per_part: 0: "),
        ({"preprocessing": {}}, r"preprocessing\.mode: is missing"),
    ],
)
def test_a_wrong_assignment_is_refused_by_field_and_value(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(SchemaError, match=f"assignment: {told}"):
        Assignment.read({**GOOD, **changes})

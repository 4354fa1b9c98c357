"""Counts of a comparison are bounded by what a device can have."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fleetledger.schemas.rollouts import (
    MAX_IMAGES,
    NATS,
    EntropyCounts,
    ModelComparison,
    ModelCost,
    Pairs,
)
from fleetledger.schemas.values import Digest

WHOLE = {
    "number": 0,
    "rollout": 1,
    "group": 1,
    "mode": "run",
    "candidate": Digest.of(b"new"),
    "candidate_version": 2,
    "active": Digest.of(b"old"),
    "active_version": 1,
}


@pytest.mark.parametrize(
    ("model", "values", "said"),
    [
        (Pairs, {"both": MAX_IMAGES, "neither": 1}, "are the most"),
        (Pairs, {"only_candidate": 2**47}, "less than or equal to"),
        (EntropyCounts, {"images": 2, "nats": 20 * NATS}, "no image has so many"),
        (EntropyCounts, {"images": 3, "bins": [1, 1]}, "hold 2 images of 3"),
        (EntropyCounts, {"images": 2**47}, "less than or equal to"),
        (ModelCost, {"latency": [2_000_000, 1_001]}, "are the most"),
        (ModelComparison, {"unlabelled": MAX_IMAGES + 1}, "are the most"),
        (ModelComparison, {"agreed": 3, "unlabelled": 2}, "3 of 2 is impossible"),
        (ModelComparison, {"new_classes": ["cat"]}, "cat is not among classes"),
        (
            ModelComparison,
            {"new_classes": ["cat"], "classes": {"cat": {"only_active": 1}}},
            "the active model has some of it",
        ),
    ],
)
def test_more_than_a_device_can_have_is_refused(
    model: Any, values: dict[str, Any], said: str
) -> None:
    whole = WHOLE if model is ModelComparison else {}
    with pytest.raises(ValidationError, match=said):
        model.model_validate(whole | values)


def test_as_much_as_a_device_can_have_is_taken() -> None:
    assert Pairs(both=MAX_IMAGES).images == MAX_IMAGES
    assert EntropyCounts(images=2, nats=18 * NATS, bins=(1, 1)).images == 2
    found = ModelComparison.model_validate(
        {**WHOLE, "classes": {"cat": {"only_candidate": 3, "neither": 1}}, "new_classes": ["cat"]}
    )
    assert found.classes.keys() == set(found.new_classes)

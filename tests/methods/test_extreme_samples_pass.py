"""Honest payloads are never refused, however extreme their samples, whatever their form."""

from typing import Any

import numpy as np
import pytest

from fleetledger.methods.registry import statistics_coordinator, statistics_device
from fleetledger.methods.statistics.part import PartContext
from tests.learning.numerics.extreme_samples import RANGES, extreme_samples

WIDTH = 60
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("stsa", {"form": "exact"}),
    ("stsa", {"form": "compact"}),
    ("stsa", {"form": "compact", "compact_bits": 8}),
    ("stsa", {"form": "compact", "compact_bits": 15, "compact_finest": -8}),
    ("stsa", {"form": "compact", "compact_finest": 0}),
    ("stsa", {"form": "estimated", "hold_back": False}),
    ("stsa", {"form": "exact", "noise": "both", "noise_deviation": 5.0, "hold_back": False}),
    ("stsa", {"map": "gaussian", "form": "exact", "ridge": 1.0}),
    ("fed3r", {}),
    ("fedncm", {"min_samples_per_class": 1}),
    ("fedcof", {"min_samples_per_class": 1}),
    ("pooled", {"publish": "moments", "moments_minimum": 3}),
]


def told(method: str, settings: dict[str, Any], ends: tuple[int, int]) -> Any:
    """Return an assignment whose features lie between these ends."""
    more: dict[str, Any] = {"max_contributions": 1000} if method == "stsa" else {}
    if method == "stsa":
        mapped = "none" if ends[0] else "integer"
        more |= {"map": mapped, "map_width": WIDTH, "feature_bits": 8 if ends[1] > 127 else 7}
    return statistics_coordinator(method).assign(
        {"max_samples_per_part": 30_000, **more, **settings}, WIDTH
    )


def ranges_of(method: str, settings: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the ranges that a method's features can have."""
    if method != "stsa":
        return RANGES[2:]
    return RANGES[:2] if settings.get("map") == "gaussian" else RANGES


@pytest.mark.parametrize(
    ("method", "settings", "ends"), [(*form, ends) for form in FORMS for ends in ranges_of(*form)]
)
def test_payloads_of_extreme_samples_pass(method, settings, ends):
    assignment = told(method, settings, ends)
    device, coordinator = statistics_device(method), statistics_coordinator(method)
    least = assignment.settings.min_samples_per_class
    for name, once, told_once in extreme_samples(ends, WIDTH):
        h, classes = np.repeat(once, least, axis=0), np.repeat(told_once, least)
        labels = [f"class {index:03}" for index in np.asarray(classes)]
        context = PartContext(secret=b"secret", seed=b"seed")
        made = device.finish(assignment, h.astype(np.float32), labels, context)
        assert coordinator.check(assignment, made.payload).samples_per_class == made.samples, name

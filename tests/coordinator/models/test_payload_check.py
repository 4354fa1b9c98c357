"""What a check of a payload costs, and whether what passed is read without checking again."""

import pytest

from fleetledger.coordinator.models.payload_check import CheckCost
from fleetledger.methods.registry import statistics_coordinator

MIB = 1 << 20


def settings_of(method: str, settings: dict, width: int = 64) -> dict:
    told = statistics_coordinator(method).assign(settings, width)
    return told.model_dump(mode="json")


def test_a_check_of_an_exact_gram_matrix_costs_more_than_its_bytes() -> None:
    cost = CheckCost()
    small = cost("stsa", settings_of("stsa", {"form": "exact", "map_width": 1250}))
    large = cost("stsa", settings_of("stsa", {"form": "exact", "map_width": 5000}))
    assert small == pytest.approx(0.1 * MIB, rel=0.02)
    assert large == pytest.approx(64 * small, rel=0.01)
    assert cost("fed3r", settings_of("fed3r", {}, 1250)) == small


def test_class_sums_and_settings_that_no_check_reads_cost_nothing() -> None:
    cost = CheckCost()
    assert cost("stsa", settings_of("stsa", {"form": "estimated"})) == 0
    assert cost("fedncm", settings_of("fedncm", {})) == 0
    assert cost("stsa", {}) == 0

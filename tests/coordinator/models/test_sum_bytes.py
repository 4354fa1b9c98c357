"""A sum is the same after it was written and read, in every method and form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleetledger.coordinator.models.sum_bytes import read_sum, write_sum
from fleetledger.methods.registry import (
    METHODS,
    descriptor,
    statistics_coordinator,
    statistics_device,
)
from fleetledger.methods.statistics.sides import ExactAggregate
from fleetledger.schemas.values import ClassName

NAMES = ("cat", "dog", "owl")
FORMS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS if not descriptor(name).trains),
    *(("stsa", {"form": form}) for form in ("exact", "compact", "estimated")),
]


def part(name: str, settings: dict[str, Any], seed: int) -> ExactAggregate:
    """Return the aggregate of 60 random samples of width 12."""
    side = statistics_coordinator(name)
    told = side.assign(settings, 12)
    random = np.random.default_rng(seed)
    features = random.integers(0, 7, (60, told.columns)).astype(np.float32)
    labels = [NAMES[index % 3] for index in range(60)]
    made = statistics_device(name).finish(told, features, labels)
    return side.aggregate_type.of(told, side.read(told, made.payload), 1)


@pytest.mark.parametrize(("name", "settings"), FORMS)
def test_a_sum_is_gone_on_with_after_it_was_read(name: str, settings: dict[str, Any]) -> None:
    one, two = part(name, settings, 1), part(name, settings, 2)
    again = read_sum(write_sum(one))
    assert type(again) is type(one)
    assert again.digest == one.digest
    both = one + two
    assert (again + two).digest == both.digest
    assert (read_sum(write_sum(both)) - two).digest == one.digest
    renamed = {ClassName("cat"): ClassName("dog")}
    assert again.renamed(renamed).digest == one.renamed(renamed).digest
    again += two
    assert again.digest == both.digest


def test_what_is_no_sum_is_not_written() -> None:
    with pytest.raises(TypeError, match="set: is not said"):
        write_sum({1, 2})  # type: ignore[arg-type]

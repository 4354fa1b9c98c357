"""Real agents whose numbers a real coordinator sees in sums alone: the same model as without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import PrivacyRules
from fleetledger.coordinator.topics.cohorts.entries import (
    CohortJoined,
    CohortSilent,
    CohortSummed,
)
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.schemas.values import Digest
from fleetledger.transport.faults import Faults
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator import shell_harness
from tests.end_to_end.memory_fleet import MemoryDevice, MemoryFleet, put_pictures

SETTINGS = {"map_width": 60, "form": "exact"}
NAMES = ("four", "one", "three", "two")
MASKS = PrivacyRules(masks=True, cohort=4, least=3, wait_seconds=3, answer_seconds=4)


@contextmanager
def fleet_of(
    folder: Path, privacy: PrivacyRules, faults: Faults | None = None
) -> Iterator[MemoryFleet]:
    rules = shell_harness.RULES.model_copy(update={"privacy": privacy})
    made = MemoryFleet(folder, InMemoryBroker(faults=faults), rules, **SETTINGS)
    for at, name in enumerate(NAMES):
        device = made.add(name)
        put_pictures(device.data, "vertical", range(10 * at, 10 * at + 10))
        put_pictures(device.data, "horizontal", range(10 * at, 10 * at + 4))
    yield made
    made.close()


def aggregate(made: MemoryFleet) -> Digest | None:
    """Of the newest model, if everything that counts is in it."""
    solved = made.entries(ModelSolved)
    given = made.coordinator.engine.core.state.contributions
    newest = solved[-1] if solved else None
    if not isinstance(newest, ModelSolved) or not given.unchanged_since(newest.ledger_size):
        return None
    return newest.aggregate


def learned(made: MemoryFleet, devices: int) -> Digest:
    """Wait for a model of so many devices' images; return its aggregate."""
    wanted = {"vertical": 10 * devices, "horizontal": 4 * devices}
    made.until(lambda: made.counted_samples() == wanted and aggregate(made))
    found = aggregate(made)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def unmasked(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Digest]:
    """Aggregates without masks, of three devices and of four."""
    with fleet_of(tmp_path_factory.mktemp("unmasked"), PrivacyRules()) as made:
        made.coordinator.begin(*made.devices, classes=("vertical", "horizontal"))
        for name in NAMES[1:]:
            made.devices[name].start()
        three = learned(made, 3)
        made.devices[NAMES[0]].start()
        return {3: three, 4: learned(made, 4)}


def start_all_but_first(made: MemoryFleet) -> MemoryDevice:
    """Have the first device join, and vanish before the others come."""
    first = made.devices[NAMES[0]]
    made.coordinator.begin(*made.devices, classes=("vertical", "horizontal"))
    first.start()
    made.until(lambda: made.entries(CohortJoined))
    first.stop()
    for name in NAMES[1:]:
        made.devices[name].start()
    return first


def test_one_of_four_vanishes_the_sum_of_three_is_the_same_and_it_counts_in_a_later_cohort(
    tmp_path: Path, unmasked: dict[int, Digest]
) -> None:
    with fleet_of(tmp_path, MASKS) as made:
        first = start_all_but_first(made)
        assert learned(made, 3) == unmasked[3]
        (silent,) = made.entries(CohortSilent)
        assert isinstance(silent, CohortSilent)
        assert silent.silent == (NAMES[0],)
        (summed,) = made.entries(CohortSummed)
        assert isinstance(summed, CohortSummed)
        assert summed.members == NAMES[1:]
        given = [
            b for b in made.entries(ContributionAccepted) if isinstance(b, ContributionAccepted)
        ]
        assert all(body.part.cohort is not None and not body.part.samples for body in given)
        made.until(
            lambda: all("sums of at least 3" in made.devices[n].status().masks for n in NAMES[1:])
        )

        first.start()
        # Two others get pictures of a class, so that there are three again.
        for at, name in enumerate(NAMES[1:3]):
            put_pictures(made.devices[name].data, "vertical", range(100 + at, 101 + at))
        made.until(lambda: len(made.entries(CohortSummed)) == 2)
        assert made.counted_samples() == {"vertical": 42, "horizontal": 16}


def test_restarts_and_a_lossy_broker_change_nothing(
    tmp_path: Path, unmasked: dict[int, Digest]
) -> None:
    faults = Faults(seed=5, drop=0.15, duplicate=0.15, reorder=0.15)
    with fleet_of(tmp_path, MASKS.model_copy(update={"answer_seconds": 60.0}), faults) as made:
        made.begin("vertical", "horizontal")
        made.until(lambda: made.entries(ContributionAccepted))
        made.devices["one"].stop()
        made.restart_coordinator()
        made.devices["one"].start()
        assert learned(made, 4) == unmasked[4]

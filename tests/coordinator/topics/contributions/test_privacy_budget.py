"""The budget of differential privacy: what parts have spent, and that nothing comes back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.coordinator.core.assignments import assignment_for
from fleetledger.coordinator.core.rules import NoiseRules, PrivacyRules, Rules
from fleetledger.coordinator.topics.contributions import budget
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.contributions.state import NoisyParts
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.learning.privacy.accounting import Spending, epsilon_of
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.privacy import Noise
from fleetledger.schemas.receipts import Accepted, Refused
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import BACKBONE, Bench, contribution, names

DEVICE = DeviceId("a")


def bench(protects: str = "image", epsilon: float = 3.0, parts: int = 1, **rules: float) -> Bench:
    noise = NoiseRules(protects=protects, epsilon=epsilon, parts=parts, **rules).told
    made = Bench(Rules())
    for device in ("a", "b"):
        made.command(AdmitDevice(device=DeviceId(device)))
        made.born(device)
    settings = {"noise": noise.model_dump(mode="json")}
    backbone = BACKBONE.model_copy(update={"settings": settings, "max_samples_per_part": 10})
    made.command(ImportBackbone(backbone=backbone))
    made.command(OpenStage(class_names=names("cat", "dog")))
    return made


def give(made: Bench, part: int, revision: int = 0, device: str = "a"):
    body = contribution(f"{device} {part} {revision}", part=part, revision=revision)
    return made.give(device, body).answer


def withdraw(made: Bench, part: int, revision: int = 1) -> None:
    key = PartKey(stage=1, part=part)
    made.message("a", Withdrawal(key=key, revision=revision, reason="moved"))


def spent(made: Bench, device: str = "a") -> float:
    found = budget.spent(made.core.state, DeviceId(device))
    assert found is not None
    return found


def test_images_of_different_parts_have_a_budget_each() -> None:
    made = bench()
    for part in range(4):
        assert isinstance(give(made, part), Accepted)
    assert spent(made) == pytest.approx(3.0, rel=1e-4)


def test_a_revision_has_the_same_images_and_is_refused_with_the_way_out() -> None:
    made = bench()
    give(made, 0)
    refused = give(made, 0, revision=1)
    assert isinstance(refused, Refused)
    assert "spent to epsilon" in refused.reason
    assert "of 3 at delta 1e-05" in refused.reason
    assert "[privacy.noise]" in refused.reason


def test_a_withdrawal_gives_nothing_back_and_takes_nothing() -> None:
    made = bench()
    give(made, 0)
    give(made, 1)
    before = spent(made)
    withdraw(made, 0)
    assert spent(made) == before, "the images of the other part are others"
    assert isinstance(give(made, 2), Refused), "which may have the images of the one that left"
    assert spent(made, "b") == 0


def test_what_the_operator_retracts_stays_spent() -> None:
    made = bench()
    give(made, 0)
    made.command(RetractContributions(device=DEVICE, part=None, reason="a broken camera"))
    assert isinstance(give(made, 1), Refused)
    assert spent(made) == pytest.approx(3.0, rel=1e-4)


def test_a_budget_for_several_parts_lets_a_part_be_given_as_often() -> None:
    made = bench(parts=3)
    for revision in range(3):
        assert isinstance(give(made, 0, revision), Accepted)
    assert isinstance(give(made, 0, 3), Refused)


def test_of_a_device_every_part_spends() -> None:
    made = bench("device", parts=2)
    assert isinstance(give(made, 0), Accepted)
    assert spent(made) < 3
    assert isinstance(give(made, 1), Accepted)
    assert isinstance(give(made, 2), Refused)
    assert isinstance(give(made, 0, device="b"), Accepted), "another device has its own"


def test_a_new_frozen_model_asks_for_the_same_images_again() -> None:
    made = bench(parts=2)
    give(made, 0)
    other = BACKBONE.model_copy(
        update={
            "frozen": BACKBONE.golden,
            "settings": {"noise": NoiseRules(epsilon=3.0, parts=2).told.model_dump(mode="json")},
        }
    )
    made.command(ImportBackbone(backbone=other))
    body = contribution("again", part=7).model_copy(update={"lineage": other.digest})
    assert isinstance(made.give("a", body).answer, Accepted)
    assert spent(made) == pytest.approx(3.0, rel=1e-4)
    third = contribution("third", part=7, revision=1).model_copy(update={"lineage": other.digest})
    assert isinstance(made.give("a", third).answer, Refused)


def test_devices_are_told_of_the_noise_and_the_entry_says_whom_it_protects() -> None:
    made = bench("device")
    told = assignment_for(made.core.state, DEVICE)
    assert told is not None
    assert told.privacy is not None
    assert told.privacy.noise == NoiseRules(protects="device", epsilon=3.0).told
    lineage = made.core.state.lineages.current
    assert lineage is not None
    assert "whether all that one device gives was there is hidden up to epsilon 3" in (
        lineage.privacy.said
    )


def test_noisy_counts_may_add_up_to_a_little_more_than_a_part_has() -> None:
    made = bench()
    body = contribution("x", samples={"cat": 8, "dog": 4})
    assert isinstance(made.give("a", body).answer, Accepted)
    assert isinstance(
        made.give("a", contribution("y", part=1, samples={"cat": 8, "dog": 5})).answer, Refused
    )


def test_a_ledger_in_which_more_was_taken_is_found_out() -> None:
    made = bench()
    give(made, 0)
    assert budget.overspent(made.core.state) is None
    made.core.state.contributions.noisy[DEVICE][BACKBONE.digest].image *= 2
    found = budget.overspent(made.core.state)
    assert found is not None
    assert found[0] == DEVICE
    assert found[1] > 3


def test_a_fleet_without_noise_spends_nothing_that_is_counted() -> None:
    made = Bench(Rules())
    made.begin("a")
    give(made, 0)
    assert budget.spent(made.core.state, DEVICE) is None
    assert budget.overspent(made.core.state) is None
    assert not made.core.state.contributions.noisy


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10), st.integers(1, 4)), max_size=6))
def test_an_image_has_spent_the_heaviest_chain_of_parts_that_it_can_have_been_in(lives) -> None:
    """Parts live from `start` for `length`; an image is in one part at a time."""
    parts = [(start, start + length, weight) for start, length, weight in lives]
    chains = (
        sum(weight for _, _, weight in chosen)
        for size in range(len(parts) + 1)
        for chosen in itertools.combinations(sorted(parts), size)
        if all(one[1] <= other[0] for one, other in itertools.pairwise(chosen))
    )
    moments = [(start, 1, index) for index, (start, _, _) in enumerate(parts)]
    moments += [(end, 0, index) for index, (_, end, _) in enumerate(parts)]
    found = NoisyParts()
    for _, begins, index in sorted(moments):  # what leaves at a moment leaves before others come
        if begins:
            found.give(index, parts[index][2])
        else:
            found.end(index)
    assert found.image == max(chains)
    assert found.device == sum(weight for _, _, weight in parts)


def test_noise_is_shared_by_as_many_as_a_sum_has_for_sure() -> None:
    noise = NoiseRules(epsilon=2.0, sharers=4)
    assert PrivacyRules(masks=True, least=8, noise=noise).noise == noise
    for rules in ({"masks": False}, {"masks": True, "least": 4}):
        with pytest.raises(ValueError, match=r"noise\.sharers: 4"):
            PrivacyRules(noise=noise, **rules)


def test_the_multiplier_is_what_the_budget_asks_for_unless_it_is_given() -> None:
    rules = NoiseRules(epsilon=2.0, parts=5)
    spending = Spending(rules.told.multiplier, times=5)
    assert epsilon_of([spending], rules.delta) == pytest.approx(2.0, rel=1e-4)
    assert NoiseRules(epsilon=2.0, multiplier=7.0).told.multiplier == 7.0
    assert PrivacyRules().noise is None
    assert isinstance(rules.told, Noise)

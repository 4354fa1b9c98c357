"""Looks of devices and the bytes of the proxy, in the records of a fleet that ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.entry import EntryBody
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionAccepted,
    NothingReported,
)
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.simulator.records import StageRecord
from tests.simulator.rounds.small import learn, prepared, small, with_proxy

pytestmark = pytest.mark.torch

Ran = tuple[list[StageRecord], list[EntryBody]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return learn(prepared(with_proxy()), tmp_path_factory.mktemp("run"))


def test_every_device_looks_in_every_round(ran: Ran) -> None:
    for record in ran[0]:
        looks = [(look.round, look.device) for look in record.novelty_checks]
        assert len(looks) == len(set(looks))
        assert set(looks) == {(number, name) for number in (1, 2) for name in record.devices}


def test_looks_of_the_device_that_does_not_train_are_a_phase_of_their_own(ran: Ran) -> None:
    assert all(record.seconds["looking"] > 0 for record in ran[0])
    assert all(record.seconds["training"] > 0 for record in ran[0])


def test_a_look_is_what_the_ledger_has_of_it(ran: Ran) -> None:
    records, ledger = ran
    told = [
        body.nothing.observation
        if isinstance(body, NothingReported)
        else body.part.round.observation
        for body in ledger
        if isinstance(body, NothingReported)
        or (isinstance(body, ContributionAccepted) and body.part.round is not None)
    ]
    looks = [look for record in records for look in record.novelty_checks]
    assert sorted((look.entropy, look.images, look.transition) for look in looks) == sorted(
        (seen.entropy, seen.images, seen.transition) for seen in told if seen is not None
    )
    # detection = "stage": the first look of each stage, and no other, is a transition
    assert [look.round for look in looks if look.transition] == [1] * 6


def test_the_proxy_is_sent_at_least_the_gradients_and_the_models_it_scores(ran: Ran) -> None:
    records, ledger = ran
    weights = [
        body.part.payload_bytes
        for body in ledger
        if isinstance(body, ContributionAccepted) and body.part.round is not None
    ]
    found = [record.proxy for record in records if record.proxy is not None]
    assert len(found) == len(records)
    assert sum(proxy.weight_bytes for proxy in found) == sum(weights)
    averaged = [body.weights.size for body in ledger if isinstance(body, WeightsAveraged)]
    assert sum(proxy.model_bytes for proxy in found) >= sum(averaged)
    # three devices and two classes a stage; a set alone is more than a quarter of a megabyte
    assert all(proxy.gradient_bytes > 6 * 250_000 for proxy in found)
    assert sum(proxy.scored for proxy in found) >= len(averaged) - 1


def test_a_fleet_without_a_proxy_records_none(tmp_path: Path) -> None:
    (record, *_), _ = learn(prepared(small()), tmp_path)
    assert record.proxy is None
    assert "looking" not in record.seconds
    assert record.novelty_checks == ()

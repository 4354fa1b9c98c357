"""Cohorts of more devices than one entry names: others, in the same commit, name the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.core import Core
from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.ledger.entries import MAX_BODY_BYTES, EntryDraft
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.paths import ledger_path
from fleetledger.coordinator.topics.rounds import kinds, views
from fleetledger.coordinator.topics.rounds.entries import (
    CohortContinued,
    RoundClosed,
    RoundOpened,
    WeightsAveraged,
)
from fleetledger.coordinator.topics.rounds.kinds import in_parts
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import can_learn
from tests.coordinator.core.round_bench import NETWORK, RoundBench
from tests.coordinator.reports import of_home

OBSERVED = NETWORK.model_copy(update={"observes": True})


class LargeBench(RoundBench):
    """Seven devices, of whom five train and two look; an entry names two."""

    def __init__(self, **rules: object) -> None:
        super().__init__(devices=7, **({"cohort": 5, "quorum": 1.0} | rules))

    def open(self) -> dict[str, RoundOrder]:
        return self.orders(self.lead(OBSERVED))

    @property
    def parts(self) -> list[CohortContinued]:
        return [body for body in self.told(CohortContinued) if isinstance(body, CohortContinued)]


@pytest.fixture(autouse=True)
def two_names_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MOST_NAMES_BYTES", 2 * len('"dev-1",'))


def test_who_does_not_fit_into_the_opening_is_named_by_entries_that_follow_it() -> None:
    bench = LargeBench()
    orders = bench.open()
    (first,) = bench.told(RoundOpened)
    assert isinstance(first, RoundOpened)
    assert [len(part.devices) for part in (*bench.parts,)] == [2, 2, 1]
    assert len(first.cohort) == 2
    current = bench.core.state.rounds.current
    assert current is not None
    assert len(current.cohort) == len(current.opened.cohort) == 5
    assert len(current.observers) == 2
    assert {*current.cohort, *current.observers} == set(bench.devices) == set(orders)
    for device, order in orders.items():
        assert order.observes == (device in current.observers)


def test_everybody_is_told_once() -> None:
    bench = LargeBench()
    told = [str(request.device) for request in bench.lead(OBSERVED) if hasattr(request, "device")]
    assert sorted(told) == sorted(bench.devices)


def test_a_round_waits_for_those_of_all_entries_and_counts_them() -> None:
    bench = LargeBench()
    bench.open()
    current = bench.core.state.rounds.current
    assert current is not None
    *others, last = current.opened.cohort
    for device in others:
        bench.answer(device)
    bench.wait(0)
    assert not bench.told(RoundClosed)
    bench.answer(last)
    bench.wait(0)
    (closed,) = bench.told(RoundClosed)
    assert isinstance(closed, RoundClosed)
    assert len(closed.counted) == 5
    request = bench.asked_for(AverageRound)
    assert isinstance(request, AverageRound)
    bench.average(request)
    assert bench.told(WeightsAveraged)


def test_a_replay_gives_the_same_state_as_was_lived_through() -> None:
    bench = LargeBench()
    bench.open()
    core = Core(bench.rules, can_learn=can_learn)
    for body, device, time_ns in bench.entries:
        core.state.apply(read_entry(body.kind, body.model_dump(mode="json")), device, time_ns)
    assert core.state == bench.core.state


def test_lists_and_pages_know_all_who_were_asked(tmp_path: Path) -> None:
    bench = LargeBench()
    bench.open()
    with Ledger.open(ledger_path(tmp_path)) as ledger:
        for body, device, time_ns in bench.entries:
            values = body.model_dump(mode="json")
            ledger.append([EntryDraft(body.kind, "test", values, device, body.blobs, time_ns)])
        found = views.open_round(ledger)
        assert found is not None
        current = bench.core.state.rounds.current
        assert current is not None
        assert views.opening(ledger, found.opened_index) == current.opened
        assert found.opened.cohort == current.opened.cohort
    (row,) = of_home.rounds(tmp_path)
    assert (row.asked, row.looking) == (5, 2)


def test_a_hundred_thousand_devices_fit_by_their_longest_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    bench = RoundBench()
    bench.lead()
    (opened,) = bench.told(RoundOpened)
    assert isinstance(opened, RoundOpened)
    devices = tuple(DeviceId.known(f"{number:064d}") for number in range(100_000))
    large = opened.model_copy(update={"cohort": devices[:90_000], "observers": devices[90_000:]})
    first, rest = in_parts(large)
    for body in (first, *rest):
        assert len(canonical_json(body.model_dump(mode="json"))) < MAX_BODY_BYTES
    parts = (first, *rest)
    assert tuple(device for part in parts for device in part.cohort) == large.cohort
    assert tuple(device for part in parts for device in part.observers) == large.observers
    assert in_parts(opened) == (opened, ())

"""Light agents count as ones that act do: the same entries, payloads, sums, heads and models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.coordinator.topics.devices.entries import DeviceProblem
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.datasets.digits import split_digits
from fleetledger.simulator.datasets.npz import save_npz
from fleetledger.simulator.engines.inprocess.light import counting
from fleetledger.simulator.engines.inprocess.light.counting import Counting
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.interface import Prepared
from tests.simulator.engines.inprocess.light.both import Learned, both, learn, said
from tests.simulator.engines.inprocess.small import changed, fleet_of

METHODS: dict[str, dict[str, Any]] = {
    "fedncm": {},
    "fed3r": {},
    "fedcof": {},
    "pooled": {"devices": {"count": 3, "policy": {"publish_features": True}}},
}


def assert_same(timed: Learned, light: Learned) -> None:
    assert said(light.ledger) == said(timed.ledger)
    assert light.models == timed.models
    assert len(timed.bodies(ModelSolved)) == len(timed.records)
    for one, two in zip(timed.records, light.records, strict=True):
        assert (one.aggregate, one.head, one.version) == (two.aggregate, two.head, two.version)
        assert one.contributions == two.contributions
        assert {n: (d.counted_samples, d.online) for n, d in one.devices.items()} == {
            n: (d.counted_samples, d.online) for n, d in two.devices.items()
        }


@pytest.mark.parametrize(
    "form",
    [
        "estimated",
        *(pytest.param(form, marks=pytest.mark.nightly) for form in ("exact", "compact")),
    ],
)
def test_statistics_of_every_form(form: str, cache: Path, tmp_path: Path) -> None:
    timed, light = both(fleet_of(cache, form), tmp_path)
    assert_same(timed, light)
    for record in light.records:
        phases = ("features", "statistics", "solve", "export", "ledger", "fleet")
        assert min(record.seconds[phase] for phase in phases) > 0


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_statistics(name: str, cache: Path, tmp_path: Path) -> None:
    sections = {"method": {"name": name}, **METHODS[name]}
    assert_same(*both(fleet_of(cache, **sections), tmp_path))


def test_payloads_that_agents_offer_in_blocks(cache: Path, tmp_path: Path) -> None:
    method = {"name": "stsa", "settings": {"form": "exact", "map_width": 300}}
    timed, light = both(fleet_of(cache, method=method), tmp_path)
    assert_same(timed, light)
    assert max(body.part.payload_bytes for body in light.bodies(ContributionAccepted)) > 64 * 1024
    for one, two in zip(timed.records, light.records, strict=True):
        for name, device in one.devices.items():
            other = two.devices[name]
            assert other.bytes_up == pytest.approx(device.bytes_up, rel=0.1)
            assert 0 <= device.bytes_down - other.bytes_down < 12_000  # welcomes, requests
            assert other.compute_seconds > 0


def test_devices_drop_out_come_back_join_late_leave_and_have_nothing(
    cache: Path, tmp_path: Path
) -> None:
    stages = {"classes": 6, "count": 3}
    what = fleet_of(cache, devices={"count": 5}, stages=stages)
    nothing = np.empty(0, np.int64)
    plan = changed(what.plan, 1, device_2={"online": False}, device_3=None)
    plan = changed(plan, 2, device_4=None, device_5={"indices": nothing})
    plan = changed(plan, 1, device_5={"indices": nothing})
    plan = changed(plan, 3, device_1={"online": False}, device_4=None)
    timed, light = both(replace(what, plan=plan), tmp_path)
    assert_same(timed, light)
    assert any(entry.kind == "nothing.reported" for entry, _ in light.ledger)
    held_back = [
        body.part.key.stage
        for entry, body in light.ledger
        if isinstance(body, ContributionAccepted) and entry.device == DeviceId("device-2")
    ]
    assert held_back[0] == 1


def test_a_share_of_the_devices_is_asked_in_a_stage(cache: Path, tmp_path: Path) -> None:
    what = fleet_of(cache, devices={"count": 6}, rounds={"participation": 0.5})
    assert_same(*both(what, tmp_path))


def test_classes_of_which_there_are_too_few_wait(cache: Path, tmp_path: Path) -> None:
    method = {"name": "fed3r", "settings": {"min_samples_per_class": 40}}
    what = fleet_of(cache, method=method, devices={"count": 4})
    timed, light = both(what, tmp_path)
    assert_same(timed, light)
    counted = sum(sum(body.part.samples.values()) for body in light.bodies(ContributionAccepted))
    reached = sum(len(m.indices) for s in what.plan.stages for m in s.devices.values())
    assert 0 < counted < reached


def test_an_image_under_two_classes_counts_under_the_first_and_is_told(
    cache: Path, tmp_path: Path
) -> None:
    split = split_digits(1)
    images = split.train.images.copy()
    zero, one = (int(np.flatnonzero(split.train.labels == label)[0]) for label in (0, 1))
    images[one] = images[zero]
    save_npz(tmp_path / "twice.npz", replace(split, train=replace(split.train, images=images)))
    data = {"set": "npz", "root": str(tmp_path / "twice.npz")}
    stages = {"classes": 4, "count": 2, "order": "as-is"}
    what = fleet_of(cache, data=data, devices={"count": 1}, stages=stages)
    timed, light = both(what, tmp_path)
    assert_same(timed, light)
    (problem,) = light.bodies(DeviceProblem)
    assert "under two classes" in problem.text


class CutError(Exception):
    """The process ends here."""


def devices_of_a_resumed_run(what: Prepared) -> Prepared:
    """A device of the first stage that is away in the second, and one that comes then."""
    plan = changed(what.plan, 2, device_1={"online": False}, device_3={"online": True})
    return replace(what, plan=changed(plan, 1, device_3={"online": False}))


@pytest.mark.parametrize(
    "group",
    [5, *(pytest.param(group, marks=pytest.mark.nightly) for group in (1, 2, 3, 8, 10))],
)
def test_a_run_that_is_cut_off_anywhere_goes_on_to_the_same_entries(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    stages = {"classes": 6, "count": 3}
    what = devices_of_a_resumed_run(fleet_of(cache, "estimated", stages=stages))
    whole = learn(LightEngine, what, tmp_path / "whole")
    left = [group]
    give = Counting._give

    def cut(self: Counting, happenings: Any) -> None:
        give(self, happenings)
        left[0] -= 1
        if not left[0]:
            raise CutError

    with monkeypatch.context() as patch:
        patch.setattr(counting, "_TOGETHER", 2)
        patch.setattr(Counting, "_give", cut)
        with pytest.raises(CutError):
            learn(LightEngine, what, tmp_path / "cut")
    resumed = learn(LightEngine, what, tmp_path / "cut")
    assert contributions(resumed) == contributions(whole)
    assert resumed.models == whole.models
    for one, two in zip(whole.records, resumed.records, strict=True):
        assert (one.aggregate, one.head) == (two.aggregate, two.head)


def contributions(learned: Learned) -> list[str]:
    return sorted(repr(body) for body in learned.bodies(ContributionAccepted))

"""`model rollback` unpiles what all devices were to run, and leaves what some try alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fleetledger.coordinator.topics.models.commands import GoBack, HoldModels, PushModel
from fleetledger.coordinator.topics.models.stack import after_push, after_return
from fleetledger.coordinator.topics.releases.state import Released
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.values import DeviceId
from tests.coordinator.core.harness import Bench, sent
from tests.coordinator.topics.models.test_models import second_model, with_model
from tests.coordinator.topics.releases.test_releases import ReleasingBench
from tests.schemas import signing

DEVICES = (DeviceId("dev-1"), DeviceId("dev-2"))


def with_models(count: int) -> Bench:
    bench = with_model()
    for _ in range(count - 1):
        second_model(bench)
    return bench


def runs(bench: Bench) -> list[int | None]:
    """What each device is to run."""
    found = [bench.core.state.models.desired_for(device) for device in DEVICES]
    return [None if desired is None else desired.version for desired in found]


def test_going_back_twice_never_returns_to_what_was_left() -> None:
    bench = with_models(2)
    assert bench.command(GoBack()).done
    assert runs(bench) == [1, 1]
    bench.command(PushModel(version=2, devices=DEVICES[:1]))
    answer = bench.command(GoBack())
    assert not answer.done
    assert "1 is the only one" in answer.text
    assert runs(bench) == [2, 1]


def test_each_step_goes_further_down() -> None:
    bench = with_models(4)
    texts = [bench.command(GoBack()).text for _ in range(3)]
    assert [text.split(";")[0] for text in texts] == [
        "model 3 is desired of all devices, which were to run 4",
        "model 2 is desired of all devices, which were to run 3",
        "model 1 is desired of all devices, which were to run 2",
    ]
    assert all("held until `fleetledger model hold --release`" in text for text in texts)


def test_what_single_devices_try_is_left_alone_unless_it_is_asked_for() -> None:
    bench = with_models(3)
    bench.command(PushModel(version=1, devices=DEVICES[1:]))
    answer = bench.command(GoBack())
    assert "model 1 stays on dev-2;" in answer.text
    assert runs(bench) == [2, 1]
    bench.command(PushModel(version=3))
    bench.command(PushModel(version=1, devices=DEVICES[1:]))
    assert "stays" not in bench.command(GoBack(canaries=True)).text
    assert runs(bench) == [2, 2]


def test_the_version_can_be_named_and_has_to_be_one_that_all_devices_ran() -> None:
    bench = with_models(3)
    bench.command(PushModel(version=1, devices=DEVICES[:1]))
    assert bench.command(GoBack(to=1)).done
    assert bench.core.state.models.stack == [1]
    refused = bench.command(GoBack(to=1))
    assert not refused.done
    bench.command(PushModel(version=2))
    refused = bench.command(GoBack(to=3))
    assert "3 is none that all devices can go back to; those are 1;" in refused.text
    assert "`fleetledger model push 3`" in refused.text


def test_who_looked_before_another_model_went_out_has_to_look_again() -> None:
    bench = with_models(2)
    refused = bench.command(GoBack(to=1, leaving=3))
    assert not refused.done
    assert "to run 2 by now, not 3" in refused.text
    assert bench.command(GoBack(to=1, leaving=2)).done


@pytest.mark.parametrize("canaries", [False, True])
def test_with_a_root_a_device_that_tries_another_keeps_its_release(canaries: bool) -> None:
    bench = ReleasingBench(root=signing.root())
    bench.wait(0)
    bench.more()
    bench.wait(0)
    bench.command(PushModel(version=2, devices=DEVICES[1:]))
    bench.wait(0)
    bench.command(GoBack(canaries=canaries))
    told = [body.version for body in sent(bench.wait(0), DesiredModel)]  # type: ignore[attr-defined]
    assert told == ([1, 1] if canaries else [1, 2])
    trust = bench.core.state.trust
    versions = [trust.released_for(device) for device in DEVICES]
    assert [item.version for item in versions if isinstance(item, Released)] == told
    assert {item.action for item in versions if item is not None} <= trust.releases.keys()


@dataclass
class Reference:
    """What is to run where, found anew from all that ever happened; slow and obvious."""

    told: list[tuple[str, int, tuple[DeviceId, ...] | None]] = field(default_factory=list)

    def stack(self) -> list[int]:
        found: list[int] = []
        for what, version, devices in self.told:
            if what == "push" and devices is None and found[-1:] != [version]:
                found.append(version)
            elif what in ("back", "back with canaries"):
                found.pop()
                while found[-1] != version:
                    found.pop()
        return found

    def runs(self, device: DeviceId) -> int | None:
        for place in reversed(range(len(self.told))):
            what, version, devices = self.told[place]
            if devices is not None and device in devices:
                return version
            if devices is None and what != "back":
                break
        return next(
            (version for _, version, devices in reversed(self.told) if devices is None), None
        )


class GoingBack(RuleBasedStateMachine):
    """Models are made, pushed to all and to some, and taken back, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = with_model()
        self.reference = Reference([("push", 1, None)])
        self.versions = 1
        self.held = False

    @initialize(count=st.integers(0, 3))
    def models(self, count: int) -> None:
        for _ in range(count):
            self.make()

    @precondition(lambda self: self.versions < 8)
    @rule()
    def make(self) -> None:
        second_model(self.bench)
        self.versions += 1
        if not self.held:
            self.reference.told.append(("push", self.versions, None))

    @rule(version=st.integers(1, 8), devices=st.sampled_from([None, DEVICES[:1], DEVICES]))
    def push(self, version: int, devices: tuple[DeviceId, ...] | None) -> None:
        answer = self.bench.command(PushModel(version=version, devices=devices))
        assert answer.done == (version <= self.versions)
        if answer.done:
            self.reference.told.append(("push", version, devices))

    @rule(canaries=st.booleans(), to=st.none() | st.integers(1, 8))
    def back(self, canaries: bool, to: int | None) -> None:
        stack = self.reference.stack()
        goals = [version for version in stack[:-1] if version != stack[-1]]
        answer = self.bench.command(GoBack(to=to, canaries=canaries))
        assert answer.done == (bool(goals) if to is None else to in goals)
        if answer.done:
            what = "back with canaries" if canaries else "back"
            self.reference.told.append((what, to or goals[-1], None))
            self.held = True

    @rule()
    def release(self) -> None:
        self.bench.command(HoldModels(held=False))
        self.held = False

    @invariant()
    def all_agree(self) -> None:
        state, stack = self.bench.core.state, self.reference.stack()
        assert state.models.stack == stack
        assert runs(self.bench) == [self.reference.runs(device) for device in DEVICES]
        assert state.models.held == self.held

    def teardown(self) -> None:
        """A replay gives the same state."""
        state = self.bench.core.state
        again = Bench()
        for body, device, time_ns in self.bench.entries:
            again.core.state.apply(body, device, time_ns)
        assert again.core.state.models.stack == state.models.stack
        assert again.core.state.models.desired_by_device == state.models.desired_by_device
        assert again.core.state.models.held == self.held


TestGoingBack = GoingBack.TestCase
TestGoingBack.settings = settings(max_examples=60, stateful_step_count=20)


def test_pushing_the_same_version_again_is_no_step() -> None:
    assert after_push([1, 2], 2) == [1, 2]
    assert after_push([1, 2], 1) == [1, 2, 1]
    assert after_return([1, 2, 1, 3], 1) == [1, 2, 1]
    assert after_return([], 4) == [4]

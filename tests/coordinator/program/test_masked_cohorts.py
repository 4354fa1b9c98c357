"""Masked cohorts on a real ledger: proofs, models, verification, replay, restarts, reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.core.rules import PrivacyRules, Rules
from fleetledger.coordinator.ledger.entry_proofs import check
from fleetledger.coordinator.ledger.keys import coordinator_key
from fleetledger.coordinator.reports import contributions
from fleetledger.coordinator.reports.contributions import ContributionFilter
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortOrder, MaskedCohort
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.envelope import INLINE_LIMIT
from fleetledger.schemas.receipts import Accepted, Receipt
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.shell_harness import (
    FLEET,
    RULES,
    MemoryCoordinator,
    ScriptedDevice,
    write_home,
)
from tests.coordinator.topics.cohorts.cohort_bench import Member
from tests.methods.samples import NAMES

MASKS = PrivacyRules(masks=True, cohort=3, least=3, wait_seconds=0.2, keep_masked=True)
DEVICES = ("dev-1", "dev-2", "dev-3")


class Fleet:
    """A coordinator with three devices that speak by hand."""

    def __init__(self, home: Path, privacy: PrivacyRules = MASKS) -> None:
        self.home, self.broker = home, InMemoryBroker()
        self.rules: Rules = RULES.model_copy(update={"privacy": privacy})
        write_home(home, "fed3r")
        self.coordinator = MemoryCoordinator(home, self.broker, self.rules)
        self.coordinator.begin(*DEVICES, classes=tuple(map(str, NAMES)))
        backbone = self.coordinator.engine.core.state.lineages.backbone
        assert backbone is not None
        self.members = {name: Member(int(name[-1]), backbone) for name in DEVICES}
        self.devices = {
            name: ScriptedDevice(name, self.broker, self.coordinator) for name in DEVICES
        }
        for device in self.devices.values():
            device.born()
            device.wait_for(Assignment)

    def start_again(self) -> None:
        self.coordinator.close()
        self.coordinator = MemoryCoordinator(self.home, self.broker, self.rules)
        for device in self.devices.values():
            device._coordinator = self.coordinator

    def close(self) -> None:
        for device in self.devices.values():
            device.close()
        self.coordinator.close()

    def order(self, name: str, step: str) -> CohortOrder:
        """Wait for the order of a step."""
        device = self.devices[name]

        def found() -> CohortOrder | None:
            device._drain()
            told = [e.read(Assignment) for e in device.received if e.header.kind == Assignment.kind]
            orders = [one.cohort for one in told if one.cohort is not None]
            return next((one for one in reversed(orders) if one.step == step), None)

        order = self.coordinator.until(found)
        assert isinstance(order, CohortOrder)
        return order

    def say(self, name: str, body: object, payload: bytes = b"") -> Receipt:
        """Say something that gets a receipt."""
        device = self.devices[name]
        device._drain()
        count = sum(e.header.kind == Receipt.kind for e in device.received)
        device.send(body, payload)  # type: ignore[arg-type]
        return device.wait_for(Receipt, count + 1)

    def words(self, name: str, cohort: MaskedCohort) -> tuple[Contribution, bytes]:
        body, payload = self.members[name].words(cohort)
        assert len(payload) < INLINE_LIMIT
        return body, payload

    def through(self, *, again: bool = False) -> None:
        """Take one cohort to its sum, with a restart after each step where wanted."""
        for name in DEVICES:
            assert isinstance(self.say(name, self.members[name].join()).answer, Accepted)
        for name in DEVICES:
            cohort = self.order(name, "mask").cohort
            self.say(name, *self.words(name, cohort))
        if again:
            self.start_again()
        for name in DEVICES:
            order = self.order(name, "opening")
            self.say(name, self.members[name].shares(order))
        if again:
            self.start_again()
        self.coordinator.until(lambda: "cohort.summed" in self.coordinator.kinds())

    def solved(self) -> ModelSolved:
        """Wait for a model and return what it was solved of."""
        self.coordinator.until(lambda: ModelSolved.kind in self.coordinator.kinds())
        entries = list(self.coordinator.engine.ledger.entries())
        found = [entry for entry in entries if entry.kind == ModelSolved.kind]
        return ModelSolved.model_validate(found[-1].body)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    running = Fleet(tmp_path)
    yield running
    running.close()


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("again", [False, True])
def test_with_masks_the_model_is_that_of_the_parts_themselves(tmp_path: Path, again: bool) -> None:
    masked, plain = Fleet(tmp_path / "masked"), Fleet(tmp_path / "plain", PrivacyRules())
    try:
        masked.through(again=again)
        for name in DEVICES:
            made = plain.members[name].made
            body = Contribution(
                key=PartKey(stage=1, part=0),
                revision=0,
                payload_kind="statistics",
                method="fed3r",
                lineage=plain.members[name].lineage,
                payload=made.digest,
                payload_bytes=len(made.payload),
                samples=made.samples,
            )
            plain.say(name, body, made.payload)
        plain.coordinator.until(
            lambda: len(plain.coordinator.engine.core.state.contributions.counted) == 3
        )
        plain.coordinator.until(lambda: plain.solved().contributions == 3)
        assert masked.solved().aggregate == plain.solved().aggregate
        assert masked.solved().head == plain.solved().head
    finally:
        masked.close()
        plain.close()


def test_an_order_proves_that_the_cohort_is_in_the_ledger(fleet: Fleet) -> None:
    for name in DEVICES:
        fleet.say(name, fleet.members[name].join())
    order = fleet.order("dev-1", "mask")
    assert order.proof is not None
    key = coordinator_key(fleet.home, FLEET).verify_key
    proven = check(order.proof, FLEET, [key])
    assert proven.entry.kind == "cohort.formed"
    assert MaskedCohort.model_validate(proven.entry.body["cohort"]) == order.cohort


def test_the_ledger_is_verified_shown_and_replayed_with_its_cohorts(fleet: Fleet) -> None:
    fleet.through()
    fleet.solved()
    fleet.coordinator.until(lambda: "model.exported" in fleet.coordinator.kinds())
    home = str(fleet.home)
    assert "blobs fit; root" in run("ledger", "verify", "--home", home)
    replayed = run("ledger", "replay", "--all", "--home", home)
    assert "sum of cohort 1" in replayed
    assert "differs" not in replayed
    shown = run("ledger", "tail", "--home", home, "-n", "40")
    assert "Cohort 1 of stage 1 is 3 devices, of which 3 open its sum" in shown


def test_words_that_are_deleted_are_told_by_verify_and_replay(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, MASKS.model_copy(update={"keep_masked": False}))
    try:
        fleet.through()
        fleet.solved()
        fleet.coordinator.until(lambda: "model.exported" in fleet.coordinator.kinds())
        run("ledger", "verify", "--home", str(tmp_path))
        replayed = run("ledger", "replay", "--all", "--home", str(tmp_path))
        assert "deleted by retention" in replayed
    finally:
        fleet.close()


def test_pages_tell_what_became_of_words_and_sums(fleet: Fleet) -> None:
    fleet.through()
    ledger = fleet.coordinator.engine.ledger
    rows = contributions.given(ledger, ContributionFilter(), 10)
    assert [(row.device, row.state) for row in rows] == [
        ("cohort-1", "held"),
        *((name, "summed") for name in reversed(DEVICES)),
    ]
    of_sums = contributions.given(ledger, ContributionFilter(state="held"), 10)
    assert [row.device for row in of_sums] == ["cohort-1"]
    assert sum(of_sums[0].classes.values()) == 120
    hidden = contributions.given(ledger, ContributionFilter(state="summed"), 10)
    assert {row.samples for row in hidden} == {0}
    assert not contributions.given(ledger, ContributionFilter(state="masked"), 10)


def test_a_retracted_cohort_leaves_the_sum_and_pages_still_show_it(fleet: Fleet) -> None:
    fleet.through()
    solved = fleet.solved()
    fleet.coordinator.command(RetractContributions(device=DeviceId("cohort-1"), reason="broken"))
    ledger = fleet.coordinator.engine.ledger
    made = contributions.given(ledger, ContributionFilter(model=solved.version), 10)
    assert [(row.device, row.state) for row in made] == [("cohort-1", "retracted")]

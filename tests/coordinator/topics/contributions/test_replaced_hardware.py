"""Hardware that is replaced under its name takes nothing away, and nothing counts twice."""

from __future__ import annotations

import json
from pathlib import Path

from fleetledger.coordinator.core.rules import IntakeRules, ModelRules, Rules, StageRules
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.fleet import fleet_now
from fleetledger.coordinator.topics.contributions.commands import SettleEarlier
from fleetledger.coordinator.topics.devices.views import earlier_in
from fleetledger.coordinator.topics.models.commands import PushModel
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelWithheld
from fleetledger.coordinator.topics.stages.commands import CloseStage
from fleetledger.schemas.contributions import PartKey, Withdrawal
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.presence import Birth, Welcome
from fleetledger.schemas.receipts import Accepted, Later, Refused
from fleetledger.schemas.values import BootId, DeviceId
from tests.coordinator.core.harness import (
    CAPABLE,
    FLEET,
    Bench,
    contribution,
    names,
    receipt,
    sent,
)
from tests.coordinator.reports.test_views import write
from tests.coordinator.topics.models.test_models import wanted

RULES = Rules(
    stages=StageRules(quiet_seconds=1),
    models=ModelRules(solve_every_seconds=5),
    intake=IntakeRules(replacement_seconds=0),
)
CAMERA = DeviceId("dev-1")


def replaced() -> Bench:
    """A camera that gave a part of `cat`, and other hardware under its name."""
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a", samples={"cat": 3}))
    bench.give("dev-2", contribution("b", samples={"dog": 2}))
    put(bench, "f" * 16)
    return bench


def put(bench: Bench, installation: str) -> tuple[Welcome, ...]:
    """Start an installation of its own under the camera's name; return its welcomes."""
    bench.senders[CAMERA] = Sender(FLEET, CAMERA, BootId.fresh())
    birth = Birth(installation=BootId(installation), capabilities=CAPABLE)
    found = sent(bench.message("dev-1", birth), Welcome)
    return tuple(body for body in found if isinstance(body, Welcome))


def counted(bench: Bench) -> list[tuple[str, dict[str, int]]]:
    items = bench.core.state.contributions.counted.values()
    found = ((str(item.device), dict(item.samples)) for item in items)
    return sorted(found, key=lambda pair: (pair[0], sorted(pair[1])))


BOTH = [("dev-1", {"cat": 3}), ("dev-2", {"dog": 2})]


def test_what_the_earlier_installation_gave_stays_and_is_not_asked_for() -> None:
    bench = replaced()
    assert [welcome.held for welcome in put(bench, "e" * 16)] == [()]
    assert [welcome.held for welcome in put(bench, "e" * 16)] == [()]
    assert counted(bench) == BOTH
    withdrawal = Withdrawal(key=PartKey(stage=1, part=0), revision=1, reason="unknown here")
    assert isinstance(receipt(bench.message("dev-1", withdrawal)).answer, Refused)
    assert counted(bench) == BOTH


def test_what_the_new_one_has_waits_for_a_person() -> None:
    bench = replaced()
    answer = bench.give("dev-1", contribution("new", part=1, samples={"dog": 1})).answer
    assert isinstance(answer, Later)
    assert "fleetledger device replaced dev-1 keep" in answer.reason
    assert counted(bench) == BOTH


def test_the_very_same_samples_take_the_place_of_what_they_were() -> None:
    bench = replaced()
    assert isinstance(bench.give("dev-1", contribution("a", part=1)).answer, Accepted)
    assert counted(bench) == BOTH
    answer = bench.give("dev-1", contribution("more", part=2, samples={"dog": 1})).answer
    assert isinstance(answer, Accepted)


def test_kept_parts_count_beside_what_the_new_one_gives() -> None:
    bench = replaced()
    told = bench.command(SettleEarlier(device=CAMERA, kept=True))
    assert told.text == "1 part of earlier installations of dev-1 stays in the sum"
    answer = bench.give("dev-1", contribution("new", part=1, samples={"dog": 1})).answer
    assert isinstance(answer, Accepted)
    assert counted(bench) == [*BOTH[:1], ("dev-1", {"dog": 1}), *BOTH[1:]]
    bench.restart()
    assert counted(bench) == [*BOTH[:1], ("dev-1", {"dog": 1}), *BOTH[1:]]
    assert not bench.command(SettleEarlier(device=CAMERA, kept=False)).done


def test_dropped_parts_leave_and_may_be_given_again() -> None:
    bench = replaced()
    assert bench.command(SettleEarlier(device=CAMERA, kept=False)).done
    assert counted(bench) == BOTH[1:]
    assert isinstance(bench.give("dev-1", contribution("a", part=1)).answer, Accepted)
    assert counted(bench) == BOTH


def test_an_earlier_installation_that_comes_back_finds_its_own() -> None:
    bench = replaced()
    (welcome,) = put(bench, "0123456789abcdef")
    assert [part.key for part in welcome.held] == [PartKey(stage=1, part=0)]
    answer = bench.give("dev-1", contribution("more", part=1, samples={"cat": 1})).answer
    assert isinstance(answer, Accepted)


def test_the_operator_is_asked_until_they_decide(tmp_path: Path) -> None:
    bench = replaced()
    for place, kept in (("waits", None), ("kept", True)):
        if kept is not None:
            bench.command(SettleEarlier(device=CAMERA, kept=kept))
        (tmp_path / place).mkdir()
        write(tmp_path / place, bench)
        with ledger_of(tmp_path / place) as ledger:
            rows = [(row.device, row.parts, row.samples) for row in earlier_in(ledger)]
            fleet = fleet_now(ledger, None, bench.now_ns)
        needs = [need for need in fleet.needs if "device replaced" in (need.command or "")]
        assert rows == ([] if kept else [("dev-1", 1, 3)])
        assert len(needs) == len(rows)


def test_a_model_that_would_lose_a_class_waits_for_a_person(tmp_path: Path) -> None:
    bench = replaced()
    bench.command(CloseStage())
    bench.make_model(wanted(bench.wait(10)))
    assert bench.core.state.models.desired is not None
    bench.command(SettleEarlier(device=CAMERA, kept=False))
    bench.make_model(wanted(bench.wait(10)))
    (withheld,) = [body for body, _, _ in bench.entries if isinstance(body, ModelWithheld)]
    assert (withheld.version, withheld.lacks) == (2, names("cat"))
    bench.wait(100)
    assert bench.core.state.models.desired.version == 1
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        needs = fleet_now(ledger, None, bench.now_ns).needs
    assert "fleetledger model push 2" in json.dumps([need.command for need in needs])
    assert bench.command(PushModel(version=2)).done
    desired = [body.version for body, _, _ in bench.entries if isinstance(body, ModelDesired)]
    assert desired == [1, 2]


def test_a_device_is_told_which_classes_its_model_lacks() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1", classes=("cat", "dog"))
    bench.give("dev-1", contribution("a", samples={"cat": 3}))
    bench.command(CloseStage())
    bench.make_model(wanted(bench.wait(10)))
    assert bench.core.state.lacking(1) == names("dog")

"""A class of which no device has images is told when it is opened, and after its stage."""

from __future__ import annotations

from pathlib import Path

from fleetledger.coordinator.core.entry import EntryContext
from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reports.history import trouble_count, troubles
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.topics.stages.entries import StageClosed
from fleetledger.schemas.reports import Transition, WaitingClasses
from fleetledger.schemas.values import ClassName, DeviceId
from tests.coordinator.core.harness import BACKBONE, Bench, contribution, names
from tests.coordinator.reports.test_views import write

UNTOLD = "; no device has told of samples of "


def opened(bench: Bench, *classes: str) -> str:
    return bench.command(OpenStage(class_names=names(*classes))).text


def closed(bench: Bench) -> StageClosed:
    bench.command(CloseStage())
    return [body for body, _, _ in bench.entries if isinstance(body, StageClosed)][-1]


def test_the_operator_is_told_of_new_names_that_no_device_has_told_of() -> None:
    bench = Bench()
    bench.begin("dev-1", "dev-2")
    bench.message("dev-1", WaitingClasses(classes={ClassName("eel"): 3}))
    told = {ClassName("fox"): 3}
    bench.message("dev-2", Transition(stage=1, number=0, why="class name", classes=told))
    assert opened(bench, "eel", "fox").endswith("eel, fox")
    assert opened(bench, "gnu", "fox", "yak").endswith(f"gnu, fox, yak{UNTOLD}gnu, yak yet")


def test_before_the_first_stage_no_device_can_have_told_of_anything() -> None:
    bench = Bench()
    bench.command(AdmitDevice(device=DeviceId("dev-1")))
    bench.command(ImportBackbone(backbone=BACKBONE))
    assert opened(bench, "cat") == "stage 1 is open for cat"


def test_a_stage_closes_with_the_classes_of_which_nobody_gave_samples(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin("dev-1", classes=("cat", "dog", "owl"))
    bench.give("dev-1", contribution("a"))
    given = set(contribution("a").samples)
    body = closed(bench)
    expected = tuple(n for n in names("cat", "dog", "owl") if n not in given)
    assert body.without_samples == expected
    assert "owl" in expected
    said = body.say(EntryContext(9))
    assert said.endswith(f"No device has given samples of {', '.join(expected)}.")
    write(tmp_path, bench)
    with ledger_of(tmp_path) as ledger:
        (trouble,) = troubles(ledger, ledger.size, 2)
        assert trouble_count(ledger) == 1
    assert trouble.kind == StageClosed.kind

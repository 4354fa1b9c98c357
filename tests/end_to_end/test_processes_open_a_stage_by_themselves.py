"""Broker, coordinator and agents as processes: new class folders open the second stage."""

import re
from io import StringIO

import pytest
from rich.console import Console

from fleetledger.coordinator.core.state import ENTRY_KINDS
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import ledger_path
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.run.folder import SeedFolder
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.loading import load_scenario
from tests.coordinator.reports import of_home

pytestmark = pytest.mark.broker

NEW = {"3", "4", "5"}
CHANGES = (
    "seeds=[5]",
    "devices.count=2",
    "devices.partition.seeds=[]",
    "stages.classes=6",
    "stages.count=2",
    "stages.opened_by=reports",
    "method.settings.map_width=150",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[SeedFolder, RunResults]:
    out = tmp_path_factory.mktemp("reports") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLEETLEDGER_CACHE", str(tmp_path_factory.mktemp("cache")))
        results = run_scenario(load_scenario("demo", CHANGES), out, Console(file=StringIO()))
    return SeedFolder(out / "seed-5"), results


def test_the_operator_opens_the_first_stage_and_reports_of_devices_the_second(run):
    folder, _ = run
    first, second = of_home.stages(folder.root / "coordinator")
    assert first.opened_by == "operator"
    assert re.match(r"reports of [12] devices?, 1 needed: ", second.opened_by)
    assert set(second.class_names) == NEW
    assert folder.records()[1].opened_by == second.opened_by


def test_each_device_reported_the_folders_that_appeared_on_it(run):
    folder, _ = run
    told: dict[str, set[str]] = {}
    with LedgerReader.open_read_only(ledger_path(folder.root / "coordinator")) as ledger:
        for entry in ledger.find(ENTRY_KINDS["transition.reported"]):
            report = entry.body["transition"]
            if report["stage"] == 1 and report["classes"]:
                told.setdefault(str(entry.device), set()).update(report["classes"])
    assert told
    for device, names in told.items():
        held = {data.name for data in (folder.root / "agents" / device / "data").iterdir()}
        assert names == held & NEW
    reports = [r for r in folder.records()[1].transitions if r.why == "class name"]
    assert {report.device for report in reports} == set(told)
    assert all(report.is_new and report.images for report in reports)


def test_the_fleet_has_learned_the_classes_that_nobody_announced(run):
    folder, results = run
    last = results.first.stages[1]
    assert set(folder.records()[1].model_classes) == {"0", "1", "2", *NEW}
    assert last.accuracy > 0.95
    assert last.accuracy == last.accuracy_on_devices
    assert abs(last.accuracy - last.pooled_accuracy) <= 0.005
